package storage

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/pause"
)

// led is the log's note of the highest leader epoch in which it led. Who compares logs without
// metadata (chronikd recover) knows by it which of them led last, although no record of that epoch
// may be there. It says that the log had everything that was committed until then.
type led struct {
	asked  int32        // epoch of the last NoteLed; guarded by Dir.mu
	stored atomic.Int32 // what the next checkpoint has, 0: none; changes with Log.producersMu held
	noted  atomic.Int32 // what the durable checkpoint has, 0: none; see Log.LedEpoch
}

// NoteLed has the checkpoint note that the log leads in an epoch above 0, unless it has that or a
// higher one, or another leader follows before. The records that the log has now are durable before
// the note is: it must not make a log win that has lost them. NoteLed does not block. When the note
// is durable, Observer.Advanced is called and LedEpoch returns the epoch. After an error the
// directory tries again; if that lasts, Dir.Stalled shows it.
func (l *Log) NoteLed(epoch int32) {
	l.dir.mu.Lock()
	known := l.led.asked >= epoch || l.led.noted.Load() >= epoch
	if !known {
		l.led.asked = epoch
	}
	l.dir.mu.Unlock()
	if !known {
		l.dir.requestCommit(l)
	}
}

// LedEpoch returns the highest leader epoch that the durable checkpoint notes, -1 if it notes none.
// In epoch 0 no note is needed: no log can have records of an earlier one. A cut that empties the
// log forgets the note: nothing of what was committed is left. While the log is partial, its note
// does not count: it may lack what it had.
func (l *Log) LedEpoch() int32 {
	if epoch := l.led.noted.Load(); epoch > 0 && !l.partial.Load() {
		return epoch
	}
	return -1
}

// NotesLed reports whether the durable checkpoint notes that the log has led in an epoch or a later
// one, whatever it lacks.
func (l *Log) NotesLed(epoch int32) bool { return l.led.noted.Load() >= max(epoch, 1) }

// forgetLed forgets the note with the next checkpoint. The caller holds producersMu.
func (l *Log) forgetLed() { l.led.stored.Store(0) }

// setLed gives a log that is not in use the note of its entry.
func (l *Log) setLed(epoch int32) {
	l.led.stored.Store(epoch)
	l.led.noted.Store(epoch)
}

// prepareNote has the next checkpoint entry note the epoch of NoteLed, when all records that the
// log has now are durable. An error that matches ErrFencedEpoch means that the log leads no longer
// in that epoch.
func (l *Log) prepareNote() error {
	l.dir.mu.Lock()
	epoch := l.led.asked
	l.dir.mu.Unlock()
	if epoch <= l.led.stored.Load() {
		return nil
	}
	only := Only{Is: true, Epoch: epoch, Leads: true}
	if err := l.awaitDurable(l.logEnd.Load(), only); err != nil {
		return err
	}
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	if err := l.onlyLocked(only); err != nil {
		return err
	}
	l.led.stored.Store(max(l.led.stored.Load(), epoch))
	return nil
}

// requestBackoff bounds the pause after a commit that failed.
var requestBackoff = pause.Backoff{First: 10 * time.Millisecond, Most: time.Second}

// requestCommit has the checkpoint entry of a log committed soon, which something waits for: the
// mark of a log that acknowledges written records, or the note of an epoch. Many logs share one
// commit. It does not block.
func (d *Dir) requestCommit(l *Log) {
	d.mu.Lock()
	d.requested = append(d.requested, l)
	d.mu.Unlock()
	signal(d.requests)
}

// commitRequested is the goroutine that makes the commits of requestCommit.
func (d *Dir) commitRequested() {
	label.Goroutine("storage requests", d.path)
	var retry <-chan time.Time
	for failures := 0; ; {
		select {
		case <-d.quit:
			return
		case <-d.requests:
		case <-retry:
		}
		retry = nil
		if err := d.commitRequests(); err != nil {
			failures++
			d.logOnce(nil, "new durability profiles and leader epochs wait for a checkpoint; trying again", err)
			retry = time.After(requestBackoff.After(failures))
			continue
		}
		failures = 0
	}
}

// commitRequests commits the entries that are requested. After an error those that it did not
// commit are requested again.
func (d *Dir) commitRequests() (err error) {
	d.mu.Lock()
	logs := d.requested
	d.requested = nil
	d.mu.Unlock()
	var again []*Log
	ready := slices.DeleteFunc(slices.Clone(logs), func(l *Log) bool {
		e := l.prepareNote()
		if e == nil || errors.Is(e, ErrFencedEpoch) {
			return false
		}
		err, again = e, append(again, l)
		return true
	})
	var failed error
	if len(ready) > 0 {
		d.ckptMu.Lock()
		d.still.commits(true) // a checkpoint of all logs before it may take long
		failed = d.commitLocked(ready...)
		d.ckptMu.Unlock()
	}
	if failed != nil {
		err, again, ready = failed, logs, nil
	} else {
		d.still.commits(false)
	}
	d.mu.Lock()
	d.requested = append(d.requested, slices.DeleteFunc(again, func(l *Log) bool { return d.logs[l.id] != l })...)
	d.mu.Unlock()
	for _, l := range ready {
		l.observer().Advanced()
	}
	return err
}
