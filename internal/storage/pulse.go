package storage

// Pulse is a directory's progress at a moment: whether records wait to become
// durable there, and a number that grows whenever some do. A directory that has
// failed has no pulse to look for; see Err.
type Pulse struct {
	Durable uint64
	Waiting bool
}

// Pulse returns the directory's progress. It takes the journal's lock.
func (d *Dir) Pulse() Pulse {
	lsn, waiting := d.journal.Pulse()
	return Pulse{Durable: uint64(lsn), Waiting: waiting}
}
