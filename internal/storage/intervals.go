package storage

import (
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/pkg/durability"
)

// wrote notes that a write-through log has written bytes that its profile
// wants synced within an interval.
func (d *Dir) wrote(l *Log) {
	if l.cfg.Load().Profile.Sync != durability.SyncInterval {
		return
	}
	d.mu.Lock()
	_, known := d.dirty[l]
	d.dirty[l] = struct{}{}
	d.mu.Unlock()
	if !known {
		d.signal(d.intervals)
	}
}

// syncIntervals is the goroutine that syncs logs of profiles with an interval.
// Flushing a log and syncing it exclude each other, so that produce waits when
// the sync falls behind: the loss is bounded by the interval and one sync. A
// directory that has nothing of the kind to sync has no timer either.
func (d *Dir) syncIntervals() {
	const tick = time.Millisecond // between two looks
	last := map[*Log]time.Time{}  // when a log was synced
	var looked time.Time
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-d.intervals:
			if time.Since(looked) < tick {
				timer.Reset(tick)
				continue
			}
		case <-timer.C:
		}
		looked = time.Now()
		due, wait := d.dueForSync(last, looked)
		for _, l := range due {
			last[l] = looked
			if err := l.sync(); err != nil {
				d.log.Debug("interval sync failed", zap.Stringer("log", l), zap.Error(err)) // latched and said in segmentFailed
			}
		}
		if wait > 0 {
			timer.Reset(max(wait, tick))
		}
	}
}

// dueForSync takes the logs whose interval has passed out of the dirty ones, and
// says how long to wait for the next; 0 where none waits. A log that was not
// synced for its interval is due as soon as it is dirty, and need not be
// remembered.
func (d *Dir) dueForSync(last map[*Log]time.Time, now time.Time) (due []*Log, wait time.Duration) {
	left := func(l *Log) time.Duration { return l.cfg.Load().Profile.Interval - now.Sub(last[l]) }
	for l := range last {
		if left(l) <= 0 {
			delete(last, l)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for l := range d.dirty {
		switch n := left(l); {
		case n <= 0:
			due = append(due, l)
			delete(d.dirty, l)
		case wait == 0 || n < wait:
			wait = n
		}
	}
	return due, wait
}
