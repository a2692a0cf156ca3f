package replica

import (
	"errors"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Below the feature level that allows it, no note is written: a broker of an older version could
// not read the checkpoint. When the level is raised, leaders note their epochs at once, and commit
// nothing more until the notes are durable.
func TestNotesNeedTheFeatureLevel(t *testing.T) {
	c, errs := newCluster(), errfs.New(vfs.Memory())
	c.level(metadata.LedLevel - 1)
	l := start(t, errs, c)
	tp := c.shared(idA, self, 0)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager)) // with its own placement
	p := l.partition(t, idA, 0)
	must(t, begin(t, p, AcksLeader, 3).wait(t))
	must(t, c.change(tp, func(p *metadata.Partition) { p.LeaderEpoch, p.ISR = 2, []int32{self} }))
	must(t, c.apply(t, l.Manager))
	waitFor(t, "the records are committed", func() bool { return p.Ends().HighWatermark == 3 })
	if epoch := p.Log().LedEpoch(); epoch != -1 {
		t.Fatalf("below the level the log notes epoch %d", epoch)
	}

	stuck := hold(t, errs, errfs.Datasync, "/d/checkpoint/*")
	c.level(metadata.LedLevel)
	must(t, c.show(t, l.Manager))
	waitFor(t, "the disk holds the note", func() bool { return stuck.Hits() > 0 })
	must(t, begin(t, p, AcksLeader, 1).wait(t))
	waitFor(t, "the record is durable", func() bool { return p.Ends().Ack == 4 })
	if e := p.Ends(); e.HighWatermark != 3 {
		t.Errorf("without the note: %+v", e)
	}
	stuck.open()
	waitFor(t, "the next record is committed", func() bool { return p.Ends().HighWatermark == 4 })
	if epoch := p.Log().LedEpoch(); epoch != 2 {
		t.Errorf("the log notes epoch %d", epoch)
	}
}

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

// A leader that lacks records notes its epoch all the same: when no other replica has them any
// longer, it commits.
func TestALeaderThatLacksRecordsNotesTheEpoch(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	p := lone(t, errs)
	lead(p, 1, pair, pair)
	must(t, begin(t, p, AcksLeader, 3).wait(t))
	held := hold(t, errs, errfs.Datasync, "/d/checkpoint/*")
	lead(p, 3, pair, pair)
	waitFor(t, "the disk holds the note", func() bool { return held.Hits() > 0 })
	p.Lacks(3, 1, 2)
	if p.Log().Flaw() == nil {
		t.Fatal("the leader reports nothing")
	}
	held.open()
	waitFor(t, "the note is durable", func() bool { return p.Log().NotesLed(3) })
	p.Advanced() // as the log says then
	p.mu.Lock()
	noted := p.lead.Noted()
	p.mu.Unlock()
	if !noted {
		t.Fatal("the note does not count")
	}
	r := roleFor(p, self, 3, pair, []int32{self})
	r.View.Version, r.View.Revision = 9, 9
	r.View.Replicas[1].Active = false
	p.SetRole(r)
	must(t, begin(t, p, AcksAll, 1).wait(t))
}

// A leader whose log is damaged acknowledges nothing alone when the controller may replace it by a
// member of the ISR or the ELR.
func TestADamagedLeaderIsOffered(t *testing.T) {
	for name, set := range map[string]func(r *progress.Replica){
		"in sync":  func(r *progress.Replica) { r.InSync = true },
		"eligible": func(r *progress.Replica) { r.Eligible = true },
	} {
		p := lone(t, vfs.Memory())
		r := roleFor(p, self, 3, pair, []int32{self})
		set(&r.View.Replicas[1])
		p.SetRole(r)
		awaitNote(t, p)
		p.Lacks(3, 1, 2)
		if err := begin(t, p, AcksLeader, 1).wait(t); !errors.Is(err, ErrNotLeader) {
			t.Errorf("%s: acks=1 ends with %v", name, err)
		}
	}
}
