package storage

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// Close flushes and syncs all logs, writes a checkpoint that marks the stop as clean, and releases
// the directory. Appends fail from now on. After an error the stop is not clean and nothing is
// lost: the next start recovers.
func (d *Dir) Close() error {
	if was := d.applyEvent(loglife.Stop, nil); was.Allows(loglife.Stops) {
		return nil
	}
	for _, l := range d.Logs() {
		l.acquireCommit()
		l.releaseCommit() // queued appends are refused
	}
	d.drain()
	close(d.quit)
	d.tasks.stop()
	d.done.Wait()
	err := d.closeClean()
	for _, e := range []error{d.journal.Close(), d.closeCheckpoint(), d.files.Close(), d.lock.Close()} {
		if err == nil && e != nil {
			err = fmt.Errorf("close log directory %s: %w", d.path, e)
		}
	}
	d.memory.evictAll(d.Logs())
	return err
}

// closeClean is the part of Close that shortens the next start.
func (d *Dir) closeClean() error {
	if life := d.life.Load(); !life.state.Allows(loglife.Journal) {
		return fmt.Errorf("close log directory %s: %w", d.path, life.cause)
	}
	clean, failed := d.allDrained()
	d.await(carryWait, func(l *Log) bool { return !l.isCarrying() }) // the journal entries of an interrupted sweep
	at, err := d.journal.Rotate()
	if err == nil {
		d.ckptMu.Lock()
		err = d.checkpointAll(&at, clean && (d.clean || !d.unused))
		d.ckptMu.Unlock()
	}
	return errors.Join(failed, err)
}

// allDrained flushes and syncs all logs. It reports whether all of them are completely in synced
// segments, and returns the first error.
func (d *Dir) allDrained() (clean bool, failed error) {
	var mu sync.Mutex
	logs := d.Logs()
	clean = true
	each(len(logs), func(i int) {
		l, home := logs[i], false
		var err error
		if !l.is(loglife.Read) {
			home = l.state() == loglife.Damaged // the next start must recover the others as after a crash
		} else if err = l.drain(); err == nil {
			home = l.logEnd.Load() == l.flushed
		}
		mu.Lock()
		defer mu.Unlock()
		clean = clean && home
		if failed == nil {
			failed = err
		}
	})
	return clean, failed
}

// closeWait bounds how long a stop waits for appends for which the journal has no space.
const closeWait = 5 * time.Second

// drain waits until all appends are durable in the journal, if that is possible. Those for which
// the journal still has no space fail when it closes.
func (d *Dir) drain() {
	d.await(closeWait, func(l *Log) bool {
		if !l.inFlight() {
			return true
		}
		d.journal.Sync()
		return false
	})
}

// await polls each log until done reports true. It stops when the directory no longer accepts
// records, and after limit in total.
func (d *Dir) await(limit time.Duration, done func(*Log) bool) {
	deadline := time.Now().Add(limit)
	for _, l := range d.Logs() {
		for !done(l) && d.Err() == nil && time.Now().Before(deadline) {
			time.Sleep(100 * time.Microsecond)
		}
	}
}
