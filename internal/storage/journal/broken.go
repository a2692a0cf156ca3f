package journal

// Broken takes rules away one by one, for tests that ask whether somebody finds
// out. Nothing else sets it.
type Broken struct {
	Saltless  bool // frames of a file's former life count
	Reuse     bool // a fresh file gives LSNs again that were lost
	Unalarmed bool // whatever follows the first invalid frame, it is the ordinary end
}
