package storage

import "github.com/chronik-io/chronik/internal/storage/journal"

// broken takes rules away one by one, for tests that ask whether the model
// finds out. Nothing else sets it.
type broken struct {
	notDurable    bool // bytes go to segments before the journal's datasync covers them
	earlyLSN      bool // the recovery point claims frames that are only in memory and in the journal
	earlyRelease  bool // journal files are given up before the checkpoint is durable
	liveProducers bool // batches that may be taken back push others out of the producer state
	silentCut     bool // a truncation cuts files before a checkpoint says so
	silentStart   bool // segments are removed before the log's start is durable
	forgetGone    bool // the producers of records that never came to a segment are forgotten with them
	forgetfulFail bool // what a failed segment should have held is not written anew
	forgetAside   bool // no checkpoint names the frames that were kept aside
	silentSwap    bool // segments are swapped before a checkpoint says so
	eagerSwap     bool // a swap counts as finished before its names are synced
	hastySwap     bool // a compacted segment is given its name before it is synced
	forgetfulSwap bool // a checkpoint doesn't say that a swap is under way
	forgetfulLSN  bool // a start looks for the last LSN in the journal only
	lazyCopy      bool // a checkpoint's copy is made by starts only
	journal       journal.Broken
}

// commitPoint is the checkpoint that commits a change.
func (d *Dir) commitPoint(skip bool) error {
	if skip {
		return nil
	}
	return d.checkpoint(nil)
}
