package storage

import "sync"

// StartMove asks that a log begin at an offset.
type StartMove struct {
	Log *Log
	// To is at most the log's end. A log that begins there or later stays as it is.
	To int64
	// Err is the result: nil when the start is durable. It matches
	// ErrOffsetOutOfRange, ErrClosed, or ErrFailed.
	Err error
}

// MoveStarts moves the starts of logs; see Dir.MoveStarts.
func (m *Manager) MoveStarts(moves []StartMove) {
	byDir := map[*Dir][]int{}
	for i := range moves {
		d := moves[i].Log.dir
		byDir[d] = append(byDir[d], i)
	}
	var wg sync.WaitGroup
	for d, at := range byDir {
		wg.Go(func() {
			part := make([]StartMove, len(at))
			for k, i := range at {
				part[k] = moves[i]
			}
			d.MoveStarts(part)
			for k, i := range at {
				moves[i].Err = part[k].Err
			}
		})
	}
	wg.Wait()
}

// MoveStarts makes each log begin at the offset that is asked for, and sets each
// Err. What lies wholly below goes once that is durable.
func (d *Dir) MoveStarts(moves []StartMove) {
	for i := range moves {
		moves[i].Err = moves[i].Log.SetLogStart(moves[i].To)
	}
}
