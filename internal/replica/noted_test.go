package replica

import (
	"testing"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// Raft's figure 8: a leader commits the records of an older epoch. Another log may have a record of
// an epoch in between that was not committed. So nothing is committed before the log notes the
// epoch, and the note survives a loss of power.
func TestNothingIsCommittedBeforeTheLogNotesTheEpoch(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	p := lone(t, errs)
	lead(p, 1, pair, pair)
	must(t, begin(t, p, AcksLeader, 3).wait(t)) // no follower has them
	stuck := hold(t, errs, errfs.Datasync, "/d/checkpoint/*")
	lead(p, 3, pair, pair)
	acknowledge(p, 2, 3, 3)
	waitFor(t, "the disk holds the note", func() bool { return stuck.Hits() > 0 })
	if e := p.Ends(); e.HighWatermark != 0 {
		t.Errorf("without the note: %+v", e)
	}
	if broken := openStorage(t, disk.PowerLossImage(crashfs.DropUnsynced, 2), "/d"); broken.Dirs()[0].Logs()[0].LedEpoch() != -1 {
		t.Error("the note is there before its commit")
	}
	stuck.open()
	waitFor(t, "the records are committed", func() bool { return p.Ends().HighWatermark == 3 })
	m := openStorage(t, disk.PowerLossImage(crashfs.DropUnsynced, 3), "/d")
	l := m.Get(storage.ID{Topic: [16]byte{1}})
	if last, end := l.LastEpoch(); l.LedEpoch() != 3 || last != 1 || end != 3 {
		t.Errorf("after a loss of power the log notes epoch %d, and has epoch %d up to %d", l.LedEpoch(), last, end)
	}
}
