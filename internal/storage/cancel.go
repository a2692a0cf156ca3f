package storage

import "slices"

// Cancel takes an append back that is still queued, and says whether it was:
// then it will not be numbered, and its bytes are not needed any more.
func (l *Log) Cancel(a *Append) bool {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	i := slices.Index(l.queue, a)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	return true
}
