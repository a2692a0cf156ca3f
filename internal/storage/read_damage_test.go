package storage

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// damagedAt returns a log of 20 one-record batches whose directory was started after bytes of one
// batch had been overwritten.
func damagedAt(t *testing.T, offset, at int64, with []byte) *Log {
	t.Helper()
	image := served(t, "sync")
	size := int64(len(readFile(t, image, firstSegment))) / 20
	change(t, image, firstSegment, offset*size+at, with)
	return byPartition(t, mustOpen(t, image, "sync"), 0)
}

// damagedOffsets reads at every offset and returns the damaged ones.
func damagedOffsets(t *testing.T, l *Log) (bad []int64) {
	t.Helper()
	for at := l.Ends().LogStart; at < l.Ends().LogEnd; at++ {
		s, err := l.Read(at, l.Ends().LogEnd, 1, true)
		if errors.Is(err, ErrCorrupt) {
			bad = append(bad, at)
		} else if err != nil || s.Size == 0 {
			t.Errorf("read at %d: %d bytes, %v", at, s.Size, err)
		}
		s.Release()
	}
	return bad
}

// A batch with a destroyed header affects no other batch, and the log reports the lost offsets and
// the next readable one.
func TestDamageIsABoundedRange(t *testing.T) {
	l := damagedAt(t, 5, 8, binary.BigEndian.AppendUint32(nil, 1<<30)) // its length
	if d := l.Damages(); len(d) > 0 {
		t.Errorf("known before a read: %v", d)
	}
	// A read behind the damage finds it.
	if s, err := l.Read(7, 20, 1, true); err != nil || s.Size == 0 {
		t.Errorf("read behind the damage: %d bytes, %v", s.Size, err)
	} else {
		s.Release()
	}
	if bad := damagedOffsets(t, l); !slices.Equal(bad, []int64{5}) {
		t.Errorf("offsets %v are damaged, want 5", bad)
	}
	d := l.Damages()
	if len(d) != 1 || d[0].From != 5 || d[0].Next != 6 || d[0].File != firstSegment || d[0].Position == 0 {
		t.Errorf("damages: %+v", d)
	}
	if !l.DamagedAt(5) || l.DamagedAt(4) || l.DamagedAt(6) {
		t.Error("DamagedAt does not agree with Damages")
	}
	put(t, l, 2, 100)
	if bad := damagedOffsets(t, l); !slices.Equal(bad, []int64{5}) {
		t.Errorf("after more appends offsets %v are damaged, want 5", bad)
	}
}

// The offset of a batch is not part of its checksum. An offset beyond all others of the log does
// not look like the end of the log: it can be one only.
func TestABatchBeyondTheEndIsRenumbered(t *testing.T) {
	l := damagedAt(t, 5, 0, binary.BigEndian.AppendUint64(nil, 1<<40))
	if bad := damagedOffsets(t, l); len(bad) > 0 || len(l.Damages()) > 0 {
		t.Errorf("offsets %v are damaged: %+v", bad, l.Damages())
	}
	holds(t, l, 20)
}

// Damage is forgotten when its bytes have left the log, at its end or at its start.
func TestDamageLeavesWithItsBytes(t *testing.T) {
	for name, remove := range map[string]func(l *Log) error{
		"truncated":           func(l *Log) error { return l.Truncate(5) },
		"below the log start": func(l *Log) error { return l.SetLogStart(6) },
	} {
		l := damagedAt(t, 5, 200, []byte{0xff})
		l.Observe(idle{})
		if bad := damagedOffsets(t, l); !slices.Equal(bad, []int64{5}) {
			t.Fatalf("%s: offsets %v are damaged, want 5", name, bad)
		}
		must(t, remove(l))
		if d := l.Damages(); len(d) > 0 || l.Damaged() != nil {
			t.Errorf("%s: still known: %v", name, d)
		}
		put(t, l, 3, 100)
		if bad := damagedOffsets(t, l); len(bad) > 0 {
			t.Errorf("%s: offsets %v are damaged", name, bad)
		}
	}
}

// A lookup by time and the cleaner find damage like a read, and count it each time.
func TestLookupsFindDamage(t *testing.T) {
	image := served(t, "sync")
	size := int64(len(readFile(t, image, firstSegment))) / 20
	change(t, image, firstSegment, 0*size+200, []byte{0xff})
	m := metrics.NewStorage(nil)
	l := byPartition(t, mustOpen(t, image, "sync", func(o *Options) { o.Metrics = m }), 0)
	for range 2 {
		if _, err := l.FindTime(1, 20); !errors.Is(err, ErrCorrupt) {
			t.Errorf("lookup: %v", err)
		}
	}
	if d := l.Damages(); len(d) != 1 || d[0].From != 0 || d[0].Next != 1 {
		t.Errorf("damages: %+v", d)
	}
	if n := testutil.ToFloat64(m.SegmentErrors.WithLabelValues("/d")); n < 2 {
		t.Errorf("%v meetings are counted", n)
	}
}

// The last batch of a segment has a base offset that is too high, which no checksum covers. It
// leads no reader past the segments behind it, and makes no reader wait for records that exist.
func TestTheLastBatchOfASegmentIsMisnumbered(t *testing.T) {
	for _, base := range []int64{4, 1 << 40} {
		disk := crashfs.New(1)
		d := mustOpen(t, disk, "sync")
		l := kept(t, d, keeping("sync", -1, -1))
		putAt(t, l, 6, 700, 1) // two per segment
		must(t, d.Close())
		change(t, disk, firstSegment, int64(len(readFile(t, disk, firstSegment)))/2, binary.BigEndian.AppendUint64(nil, uint64(base)))
		l = byPartition(t, mustOpen(t, disk, "sync"), 0)
		if bad := damagedOffsets(t, l); len(bad) > 0 {
			t.Errorf("base offset %d instead of 1: offsets %v are damaged", base, bad)
		}
		for _, offset := range []int64{0, 1, 2} {
			s, err := l.Read(offset, 6, 1<<20, true)
			if err != nil || s.Size == 0 || record.Batch(s.Parts[0]).BaseOffset() != offset {
				t.Errorf("read at %d: %d bytes, %v", offset, s.Size, err)
			}
			s.Release()
		}
	}
}

// damageAfterARestart reads over a damaged batch, ends the process in one of several ways, and
// returns how many damaged ranges are known before anybody reads again.
func damageAfterARestart(t *testing.T, b broken) int {
	t.Helper()
	image := served(t, "sync")
	size := int64(len(readFile(t, image, firstSegment))) / 20
	change(t, image, firstSegment, 5*size+8, binary.BigEndian.AppendUint32(nil, 1<<30))
	d := mustOpen(t, image, "sync", func(o *Options) { o.broken = b })
	l := byPartition(t, d, 0)
	damagedOffsets(t, l)
	eventually(t, "the damage is committed", func() bool {
		state, err := checkpoint.Read(image, "/d/"+CheckpointDir)
		return b.has(forgetDamage) || err == nil && slices.ContainsFunc(state.Logs, func(l checkpoint.Log) bool { return len(l.Flaws) > 0 })
	})
	lost := byPartition(t, mustOpen(t, image.PowerLossImage(crashfs.KeepAll, 1), "sync"), 0).Damages()
	_ = d.Close()
	clean := mustOpen(t, image, "sync", func(o *Options) { o.broken = b })
	l = byPartition(t, clean, 0)
	if known := l.Damages(); len(known) != len(lost) || len(known) > 0 && (known[0].From != 5 || known[0].Next != 6) {
		t.Errorf("after a clean stop %+v is known, after a power loss %+v", known, lost)
	}
	if len(clean.Flawed()) != len(lost) {
		t.Errorf("%d damaged logs", len(clean.Flawed()))
	}
	return len(lost)
}

// Damage that was found is known after a restart.
func TestDamageIsKnownAfterARestart(t *testing.T) {
	if n := damageAfterARestart(t, broken{}); n != 1 {
		t.Errorf("%d ranges are known", n)
	}
}

// Flaws that are found while a commit waits share it.
func TestFlawsShareACommit(t *testing.T) {
	image := served(t, "sync")
	size := int64(len(readFile(t, image, firstSegment))) / 20
	for _, batch := range []int64{3, 5, 9} {
		change(t, image, firstSegment, batch*size+8, binary.BigEndian.AppendUint32(nil, 1<<30))
	}
	d := mustOpen(t, image, "sync")
	l, release := byPartition(t, d, 0), make(chan struct{})
	var busy sync.WaitGroup
	busy.Add(flushers)
	for range flushers {
		d.run(func() { busy.Done(); <-release })
	}
	busy.Wait()
	damagedOffsets(t, l)
	d.tasksMu.Lock()
	waiting := len(d.queue)
	d.tasksMu.Unlock()
	close(release)
	if n := len(l.Damages()); n != 3 || waiting != 1 {
		t.Errorf("%d commits for %d flaws", waiting, n)
	}
	eventually(t, "all of them are committed", func() bool {
		state, err := checkpoint.Read(image, "/d/"+CheckpointDir)
		return err == nil && slices.ContainsFunc(state.Logs, func(l checkpoint.Log) bool { return len(l.Flaws) == 3 })
	})
}

// Damage is forgotten when its bytes are gone: cut off, removed by retention, or mended while the
// broker was stopped.
func TestDamageThatIsGoneIsForgotten(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, l *Log, image *crashfs.FS, whole []byte){
		"emptied":     func(t *testing.T, l *Log, _ *crashfs.FS, _ []byte) { must(t, l.Reset(20)) },
		"below start": func(t *testing.T, l *Log, _ *crashfs.FS, _ []byte) { must(t, l.SetLogStart(6)) },
		"file mended": func(t *testing.T, l *Log, image *crashfs.FS, whole []byte) {
			must(t, l.dir.Close())
			change(t, image, firstSegment, 0, whole)
		},
	} {
		image := served(t, "sync")
		whole := readFile(t, image, firstSegment)
		size := int64(len(whole)) / 20
		change(t, image, firstSegment, 5*size+8, binary.BigEndian.AppendUint32(nil, 1<<30))
		d := mustOpen(t, image, "sync")
		l := byPartition(t, d, 0)
		damagedOffsets(t, l)
		end(t, l, image, whole)
		_ = d.Close()
		if known := byPartition(t, mustOpen(t, image, "sync"), 0).Damages(); len(known) > 0 {
			t.Errorf("%s: %+v is known after a restart", name, known)
		}
	}
}
