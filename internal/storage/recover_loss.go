package storage

import (
	"fmt"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
)

// A directory is lossy if its last stop was not clean and the operating system has been started
// since, or may have been: what was written and not synced may be gone, including records that a
// profile acknowledged as written. If the process was killed and the system runs on, nothing is,
// unless a sync failed before: after that, the system may drop what it has in memory.
//
// A cluster must know of it before the broker counts as in sync again, whatever happens between the
// start and the registration. So what a start finds replaces the evidence with one checkpoint, and
// stays there through further crashes and stops until Registered.

// lossReport is what a start found out about lost records.
type lossReport struct {
	boot       [16]byte // of the running system; zero: unknown
	lossy      bool
	lossyLogs  []ID
	finding    checkpoint.Finding
	sequence   atomic.Uint64      // of the last durable checkpoint
	pending    checkpoint.Finding // in the next checkpoint; guarded by Dir.ckptMu
	owner      atomic.Pointer[checkpoint.Owner]
	syncFailed atomic.Bool // the journal failed, and written records may depend on it
}

// judgeLoss compares a checkpoint with the running system, and stores in it what the cluster must
// know.
func (d *Dir) judgeLoss(c *checkpoint.State) {
	unknown := [16]byte{}
	d.lossy = !d.clean && (d.boot == unknown || d.boot != c.Boot)
	c.Boot = d.boot
	if c.Finding == (checkpoint.Finding{}) {
		c.Finding = checkpoint.Finding{ID: newID(), Seq: c.Seq}
	}
	d.pending, d.finding = c.Finding, c.Finding
	owner := c.Owner // a pointer into c would keep all of it
	d.owner.Store(&owner)
	fresh := 0
	for i := range c.Logs {
		l := &c.Logs[i]
		if l.Deleted {
			continue
		}
		if d.lossy && l.AcksWritten {
			l.Lossy = true
			fresh++
		}
		if l.Lossy {
			d.lossyLogs = append(d.lossyLogs, l.ID)
		}
	}
	d.lossy = d.lossy || len(d.lossyLogs) > 0
	if fresh > 0 { // what an earlier start found, it has logged
		d.log.Warn("records that were not synced may be lost: the system was restarted after an unclean stop, or a sync failed",
			zap.Int("partitionsThatAcknowledgedSuchRecords", fresh))
	}
}

// Lossy reports whether records that had been written and not synced may have been lost before this
// start, or before an earlier one without Registered since.
func (d *Dir) Lossy() bool { return d.lossy }

// LossyLogs returns the logs that may have lost acknowledged records then: those that acknowledged
// written records, according to the checkpoint that the start found, and those from which a repair
// removed records. The other logs of a lossy directory have all records that they acknowledged. The
// slice must not be changed.
func (d *Dir) LossyLogs() []ID { return d.lossyLogs }

// Finding returns what the first start since Registered found. If its sequence is below one that
// CheckpointSequence returned at an earlier registration, with another finding, an older copy of
// the directory was restored. CheckpointSequence does not show that, because each start writes
// newer checkpoints.
func (d *Dir) Finding() checkpoint.Finding { return d.finding }

// CheckpointSequence returns the sequence of the last durable checkpoint. It never decreases, not
// with a restart either.
func (d *Dir) CheckpointSequence() uint64 { return d.sequence.Load() }

// Owner returns the cluster of the last registration. A broker without metadata that finds one has
// lost its metadata and must not begin another cluster. If the generation is not the present one,
// the metadata was restored since, and may lack what it said of the logs of the directory.
func (d *Dir) Owner() checkpoint.Owner { return *d.owner.Load() }

// Registered records that a cluster has durably stored what Lossy, LossyLogs and Finding
// report. Later starts report only what happens from now on. After an error they may report both.
// If that changes anything, Registered writes a small checkpoint. After an error, the next
// checkpoint has the owner: no log may be listed without it, or a broker that loses its metadata
// takes the log for that of a single broker.
func (d *Dir) Registered(owner checkpoint.Owner) error {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	var logs []*Log
	for _, l := range d.Logs() {
		if l.acks.lossy.CompareAndSwap(true, false) {
			logs = append(logs, l)
		}
	}
	d.owner.Store(&owner)
	found, none := d.pending, checkpoint.Finding{}
	if len(logs) == 0 && found == none && owner == d.last.Owner {
		return nil
	}
	d.pending = none
	if err := d.commitLocked(logs...); err != nil {
		d.pending = found
		for _, l := range logs {
			l.acks.lossy.Store(true)
		}
		return fmt.Errorf("confirm the registration of log directory %s: %w", d.path, err)
	}
	return nil
}

// Confirm is Registered in the background. The start of the broker must not wait for a disk that
// has stopped answering since its recovery. After an error, the next start reports the same losses
// again, which is harmless.
func (d *Dir) Confirm(owner checkpoint.Owner) {
	d.owner.Store(&owner) // before the first log is created
	d.run(func() {
		if err := d.Registered(owner); err != nil {
			d.log.Warn("log directory does not remember its registration; the next start reports the same losses again", zap.Error(err))
		}
	})
}

// setLast records the header of a checkpoint that is durable. The caller holds ckptMu or is the
// only user of the directory.
func (d *Dir) setLast(h checkpoint.Header) {
	d.last = h
	d.failed.Ended(series.Key("", notCommitted))
	d.sequence.Store(h.Seq)
}

// storedBoot returns the boot that checkpoints name: none while written records may depend on a
// journal that failed to sync, so that the next start after a crash counts as lossy.
func (d *Dir) storedBoot() (boot [16]byte) {
	if d.syncFailed.Load() && !d.opt.broken.has(trustFailedSync) {
		return boot
	}
	return d.boot
}

// markSyncFailure makes it durable that the journal failed, if a log acknowledges written records.
// If the disk also refuses that, a start cannot know it.
func (d *Dir) markSyncFailure() {
	for _, l := range d.Logs() {
		if l.acks.marked.Load() {
			d.syncFailed.Store(true)
			_ = d.checkpoint(nil) // which logs it
			return
		}
	}
}
