package storage

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// notified waits until the log notes an epoch.
func notified(t *testing.T, l *Log, epoch int32) {
	t.Helper()
	for begin := time.Now(); l.LedEpoch() != epoch; time.Sleep(50 * time.Microsecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("the log notes epoch %d, not %d", l.LedEpoch(), epoch)
		}
	}
}

// A noted epoch survives a loss of power, although no record has it. It counts only when the
// checkpoint is durable, and many logs share a commit.
func TestANotedEpochSurvivesALossOfPower(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	logs := makeLogs(t, d, 200, "sync")
	before := d.CheckpointSequence()
	d.ckptMu.Lock()
	for _, l := range logs {
		l.SetLeaderEpoch(7, true)
		l.NoteLed(7)
		l.NoteLed(6)
	}
	if logs[0].LedEpoch() != -1 {
		t.Error("the note counts before it is durable")
	}
	d.ckptMu.Unlock()
	for _, l := range logs {
		notified(t, l, 7)
	}
	if n := d.CheckpointSequence() - before; n > 4 {
		t.Errorf("%d commits for %d logs", n, len(logs))
	}
	again := mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 2), "sync")
	for _, l := range again.Logs() {
		if epoch, _ := l.LastEpoch(); l.LedEpoch() != 7 || epoch > 0 && epoch != 7 {
			t.Errorf("%s notes epoch %d, last epoch %d", l, l.LedEpoch(), epoch)
		}
	}
}

// A log that follows meanwhile is not noted as one that led. The note of a log that may lack
// records does not count, and a reset forgets it.
func TestOnlyALeaderNotesItsEpoch(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	l.SetLeaderEpoch(7, true)
	l.SetLeaderEpoch(8, false)
	l.NoteLed(7)
	must(t, d.commitRequests())
	if l.LedEpoch() != -1 {
		t.Errorf("a log that follows notes epoch %d", l.LedEpoch())
	}
	l.SetLeaderEpoch(9, true)
	l.NoteLed(9)
	notified(t, l, 9)
	l.SetLeaderEpoch(10, false)
	if l.partial.Store(true); l.LedEpoch() != -1 {
		t.Errorf("a log that may lack records notes epoch %d", l.LedEpoch())
	}
	if l.partial.Store(false); l.LedEpoch() != 9 {
		t.Errorf("the log notes epoch %d", l.LedEpoch())
	}
	cuts := []Truncation{{Log: l, End: 5, Reset: true}}
	d.Truncate(cuts)
	must(t, cuts[0].Err)
	if l.LedEpoch() != -1 {
		t.Errorf("an emptied log notes epoch %d", l.LedEpoch())
	}
}
