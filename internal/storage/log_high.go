package storage

import "github.com/chronik-io/chronik/internal/storage/checkpoint"

// recoveredHigh is what the checkpoint knew about the high watermark when the log was opened.
type recoveredHigh struct {
	offset int64 // -1: nothing
	epoch  int32
}

// RecoveredHigh returns a lower bound of the high watermark at the time of the last stop or crash,
// and the leader epoch in which this broker learned it. The bound lies between log start and log
// end. If nothing is known it is the log start, with epoch -1. A replica begins with it, not with
// the log end: records between the two may have been committed or not.
//
// The bound may lag by as much as the last checkpoint of the log, because nothing waits for it to
// become durable. Only one thing must: a truncation below the high watermark commits the lower
// one, with the same checkpoint.
func (l *Log) RecoveredHigh() (offset int64, epoch int32) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.storedHigh.offset < 0 {
		return l.logStart.Load(), -1
	}
	return l.withinLocked(l.storedHigh.offset), l.storedHigh.epoch
}

// withinLocked bounds an offset by the log start and the log end. The caller holds mu.
func (l *Log) withinLocked(offset int64) int64 {
	return max(min(offset, l.logEnd.Load()), l.logStart.Load())
}

// storeHighLocked sets the high watermark of a checkpoint entry to what the observer knows, or else
// to what the checkpoint knew. It is never above the log end: a truncation lowers the end before it
// notifies the observer, and until then the observer's high watermark belongs to records that are
// gone. A start must not find it when other records have taken their offsets. The caller holds mu.
func (l *Log) storeHighLocked(lc *checkpoint.Log, high recoveredHigh) {
	if high.offset < 0 {
		high = l.storedHigh
	}
	lc.High, lc.HighEpoch = high.offset, high.epoch
	if high.offset >= 0 {
		lc.High = l.withinLocked(high.offset)
	}
}

// lowerHighLocked applies a truncation to what the checkpoint knew. The caller holds mu.
func (l *Log) lowerHighLocked(end int64) {
	l.storedHigh.offset = min(l.storedHigh.offset, end)
}
