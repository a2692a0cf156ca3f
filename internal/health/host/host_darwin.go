package host

// clockState returns false, false: the state is unknown on macOS, which synchronizes its clock
// automatically.
func clockState() (synchronized, known bool) { return false, false }
