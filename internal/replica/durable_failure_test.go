package replica

import (
	"errors"
	"path"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// A journal that fails takes no record back that a weak profile acknowledged: the only replica may
// continue in its epoch, and a flush may say that nothing is lost. What it then says is durable
// survives a loss of power, and what was not acknowledged fails.
func TestAFailedJournalTakesNoAcknowledgedRecordBack(t *testing.T) {
	for name, ops := range map[string]errfs.Op{"datasync": errfs.Datasync, "write": errfs.Write} {
		t.Run(name, func(t *testing.T) {
			disk := crashfs.New(1)
			errs := errfs.New(disk)
			p := loneWith(t, errs, "os")
			waitFor(t, "the profile applies", p.log.AcksWritten)
			p.SetRole(roleFor(p, self, 4, []int32{1}, []int32{1}))
			for range 3 {
				must(t, begin(t, p, AcksAll, 2).wait(t))
			}
			inJournal := func(c errfs.Call) bool { return path.Base(path.Dir(c.Path)) == "journal" }
			fault := errs.Add(errfs.Rule{Ops: ops, When: inJournal, Count: 1, Err: syscall.EIO, Drop: errfs.DropEvicted})
			last := begin(t, p, AcksAll, 1)
			failed := flush(p, 4)
			acknowledged := int64(6)
			if err := last.wait(t); err == nil {
				acknowledged = 7
			} else if !errors.Is(err, storage.ErrFailed) {
				t.Errorf("the record that was not written: %v", err)
			}
			if err := <-failed; err != nil && !errors.Is(err, storage.ErrFailed) {
				t.Errorf("the flush beside the failure: %v", err)
			}
			if fault.Hits() != 1 {
				t.Fatal("the journal did not fail")
			}
			waitFor(t, "the directory accepts records again", func() bool { return p.log.Err() == nil })
			if err := <-flush(p, 4); err != nil {
				t.Errorf("the flush after the failure: %v", err)
			}
			if e := p.log.Ends(); e.LogEnd != acknowledged || e.Durable != acknowledged || p.LeaderEpoch() != 4 {
				t.Errorf("%+v in epoch %d, acknowledged up to %d", e, p.LeaderEpoch(), acknowledged)
			}
			m := openStorage(t, disk.PowerLossImage(crashfs.DropUnsynced, 2), "/d")
			if e := m.Dirs()[0].Logs()[0].Ends(); e.LogEnd != acknowledged {
				t.Errorf("after a loss of power: %+v, acknowledged up to %d", e, acknowledged)
			}
		})
	}
}
