package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// appendFrame appends what a leader sends. It makes the log follow.
func appendFrame(l *Log, a Append) *Append {
	l.SetLeaderEpoch(followEpoch, false)
	a.Kind, a.Sink = Assigned, make(sink, 1)
	if a.LeaderEpoch == 0 {
		a.LeaderEpoch = followEpoch
	}
	l.Append(&a, nil)
	return <-a.Sink.(sink)
}

// replicate copies a leader's log to a follower, from the follower's end on, at most max bytes at a
// time, until steps spans are copied or the follower has the whole log.
func replicate(from, to *Log, max, steps int) error {
	for range steps {
		at := to.Ends().LogEnd
		s, ok, err := from.ReadSpanMemory(at, max)
		if !ok {
			s, err = from.ReadSpan(at, max)
		}
		if err != nil {
			return err
		}
		if s.End == s.Start {
			return nil
		}
		a := Append{PrevEnd: s.Start, Batches: slices.Concat(s.Parts...)}
		if s.Gap() {
			a.GapEnd, a.GapEpoch = s.End, s.Epoch
		}
		s.Release()
		if got := appendFrame(to, a); got.Err != nil || got.Next != s.End {
			return fmt.Errorf("append of [%d, %d): next %d, %w", s.Start, s.End, got.Next, got.Err)
		}
	}
	return nil
}

// diverges returns what differs if a follower is compared with its leader by its last epoch and its
// end, "" if it may continue there.
func diverges(from, to *Log) string {
	to.SetLeaderEpoch(followEpoch, false)
	epoch, end := to.LastEpoch()
	e, until := from.EpochEnd(epoch)
	if end > 0 && (e != epoch || end > until) {
		return fmt.Sprintf("the follower ends at %d in epoch %d, the leader's epoch %d at %d", end, epoch, e, until)
	}
	return ""
}

// differ returns the first difference of two logs, "" if they are equal.
func differ(a, b *Log) (diff string) {
	err := guard(func() error {
		w := &world{rng: newRandom(1), logs: []*mlog{{l: a, compacted: true}, {l: b, compacted: true}}}
		x, y := w.content(a), w.content(b)
		if len(x) != len(y) {
			return fmt.Errorf("%d and %d batches", len(x), len(y))
		}
		for i := range x {
			if x[i].base != y[i].base || !bytes.Equal(x[i].data, y[i].data) {
				return fmt.Errorf("batches at %d and %d", x[i].base, y[i].base)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err.Error()
	case a.Ends().LogEnd != b.Ends().LogEnd:
		return fmt.Sprintf("ends %+v and %+v", a.Ends(), b.Ends())
	case !slices.Equal(began(a), began(b)):
		return fmt.Sprintf("epochs %v and %v", began(a), began(b))
	}
	return ""
}

// began returns the epochs of a log that have records or gaps.
func began(l *Log) []epochs.Entry {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	below := l.epochs.Below(l.logEnd.Load())
	return below.Entries()
}

// compactedLog fills a log like a leader's that was compacted: offsets are missing between batches,
// at the end, and where whole epochs were.
func compactedLog(t testing.TB, l *Log, rng *rand.Rand) {
	t.Helper()
	end, epoch := int64(0), int32(1)
	for range 3 + rng.IntN(12) {
		hole, a := int64(rng.IntN(2)*rng.IntN(6)), Append{PrevEnd: end}
		switch rng.IntN(4) {
		case 0:
			epoch += int32(1 + rng.IntN(2))
		case 1:
			a.GapEnd, a.GapEpoch = end+hole+1, epoch
		}
		if a.GapEnd == 0 {
			a.Batches = at(t, end+hole, epoch, make([]int64, 1+rng.IntN(3))...)
		}
		got := appendFrame(l, a)
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if end = got.Next; rng.IntN(8) == 0 {
			synced(t, l)
			must(t, l.flushAndSync())
			l.dir.memory.evictCached([]*Log{l})
		}
	}
	synced(t, l)
}

// A follower that copies a log with gaps gets the same batches, epochs and end. After any crash it
// has a prefix of them, and its last epoch and end show the leader where to continue.
func TestAFollowerGetsItsLeadersEpochsAndEnd(t *testing.T) {
	for seed := range uint64(40) {
		if err := copyAndCrash(t, seed, broken{}); err != "" {
			t.Fatalf("seed %d: %s", seed, err)
		}
	}
}

// copyAndCrash copies a log with gaps to a follower that crashes on the way.
func copyAndCrash(t *testing.T, seed uint64, b broken) (wrong string) {
	rng := rand.New(rand.NewPCG(seed, 5))
	leader := makeLogs(t, mustOpen(t, crashfs.New(seed), "sync"), 1, "sync")[0]
	compactedLog(t, leader, rng)
	profile := []string{"sync", "os"}[rng.IntN(2)]
	disk := crashfs.New(seed)
	d := mustOpen(t, disk, profile, func(o *Options) { o.broken = b })
	l := makeLogs(t, d, 1, profile)[0]
	for range 3 {
		if err := replicate(leader, l, 1+rng.IntN(300), rng.IntN(12)); err != nil {
			return err.Error()
		}
		synced(t, l)
		if rng.IntN(2) == 0 {
			must(t, l.flushAndSync())
		}
		if rng.IntN(2) == 0 {
			must(t, d.checkpoint(nil))
		}
		end := l.Ends().LogEnd
		modes := crashfs.Modes()
		disk = disk.PowerLossImage(modes[rng.IntN(len(modes))], seed)
		d = mustOpen(t, disk, profile, func(o *Options) { o.broken = b })
		l = byPartition(t, d, 0)
		if got := l.Ends().LogEnd; got != end {
			return fmt.Sprintf("the follower ended at %d, and at %d after a crash", end, got)
		}
		if wrong := diverges(leader, l); wrong != "" {
			return "after a crash " + wrong
		}
	}
	if err := replicate(leader, l, 1+rng.IntN(300), 1000); err != nil {
		return err.Error()
	}
	return differ(leader, l)
}

// A power loss at any system call while a leader's records arrive leaves a prefix of them. The
// follower continues there, and ends with the leader's log.
func TestPowerLossAtEveryCallOfAFollower(t *testing.T) {
	t.Parallel()
	leader := makeLogs(t, mustOpen(t, crashfs.New(1), "sync"), 1, "sync")[0]
	compactedLog(t, leader, rand.New(rand.NewPCG(4, 5)))
	for call := 1; ; call += points(7) {
		disk := crashfs.New(uint64(call))
		disk.CrashAt(call)
		promised := int64(0)
		if d, err := openDir(disk, "sync"); err == nil {
			if logs, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: testConfig("sync")}}); err == nil {
				for i := 0; i < 30 && !disk.Crashed(); i++ {
					if replicate(leader, logs[0], 100, 1) != nil {
						break
					}
					eventually(t, "it is durable", func() bool {
						return disk.Crashed() || logs[0].Err() != nil || logs[0].AckEnd() == logs[0].Ends().LogEnd
					})
					if i%4 == 3 {
						_ = logs[0].flushAndSync()
						_ = d.checkpoint(nil)
					}
				}
				promised = logs[0].AckEnd()
			}
			_ = d.Close()
		}
		for i, m := range crashfs.Modes() {
			d := mustOpen(t, disk.PowerLossImage(m, uint64(i)), "sync")
			if len(d.Logs()) == 0 && promised == 0 {
				continue
			}
			l := byPartition(t, d, 0)
			if wrong := diverges(leader, l); wrong != "" || l.Ends().LogEnd < promised {
				t.Fatalf("call %d: %s; the log ends at %d, and %d was acknowledged", call, wrong, l.Ends().LogEnd, promised)
			}
			if err := replicate(leader, l, 100, 1000); err != nil {
				t.Fatalf("call %d: %v", call, err)
			}
			if wrong := differ(leader, l); wrong != "" {
				t.Fatalf("call %d: %s", call, wrong)
			}
			_ = d.Close()
		}
		if !disk.Crashed() {
			return
		}
	}
}
