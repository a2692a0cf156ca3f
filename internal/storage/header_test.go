package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// stood is a batch in a sealed segment.
type stood struct {
	file    string
	pos     int64
	data    []byte
	segment int64 // its base offset
	gap     int64 // offsets before it that are gone
}

// withEpochs stops a directory with a log of several sealed segments and several leader epochs,
// compacted or not, and returns the batches of one of them.
func withEpochs(t *testing.T, compact bool) (*crashfs.FS, []stood) {
	t.Helper()
	disk := crashfs.New(1)
	d, l := compactLog(t, disk, "sync")
	epoch := int32(3)
	put(t, l, 1, 10) // then an offset one lower is within the previous batch
	for i := range 90 {
		if i%8 == 0 {
			epoch += 2
			l.SetLeaderEpoch(epoch, true)
		}
		key := fmt.Sprint("key ", i%25)
		if i%3 == 0 { // every segment keeps a few
			key = fmt.Sprint("kept ", i)
		}
		if a := send(l, twoKeyed(t, key, strings.Repeat("v", 50+i))); a.Err != nil {
			t.Fatal(a.Err)
		}
		if i%30 == 29 {
			flushedAndSynced(t, l)
		}
	}
	if compact {
		compactAll(t, d)
	}
	put(t, l, 1, 10) // a segment without records is not the active one after a start
	must(t, l.flushAndSync())
	var best []stood
	for _, s := range l.segments[:len(l.segments)-1] {
		all, epochs, gaps := storedIn(t, disk, s)
		if len(all) > len(best) && epochs > 1 && gaps > 0 == compact {
			best = all
		}
	}
	if err := d.Close(); err != nil || len(best) < 4 {
		t.Fatalf("%d batches, %v", len(best), err)
	}
	return disk, best
}

// twoKeyed returns a batch of two records with one key.
func twoKeyed(t *testing.T, key, value string) []byte {
	t.Helper()
	w := record.NewBuilder(record.BatchOptions{})
	for range 2 {
		w.Append(1, []byte(key), []byte(value), nil)
	}
	b, err := w.Build()
	must(t, err)
	return b
}

// storedIn returns the batches of a segment, and the number of their epochs and of the gaps.
func storedIn(t *testing.T, disk vfs.FS, s *segment.Segment) (all []stood, epochs, gaps int) {
	t.Helper()
	text, next, epoch := readFile(t, disk, s.Path()), s.Base(), int32(-1)
	for pos := int64(0); pos < s.Size(); {
		b, _, err := record.Next(text[pos:])
		must(t, err)
		all = append(all, stood{s.Path(), pos, slices.Clone(b), s.Base(), b.BaseOffset() - next})
		if b.BaseOffset() > next {
			gaps++
		}
		if b.LeaderEpoch() != epoch {
			epochs, epoch = epochs+1, b.LeaderEpoch()
		}
		pos, next = pos+int64(len(b)), b.LastOffset()+1
	}
	return all, epochs, gaps
}

// ways are the ways in which the bytes of a sealed segment leave it or are examined.
var ways = map[string]func(l *Log, x *stood) (got []byte, err error){
	"scrub": func(l *Log, x *stood) ([]byte, error) {
		s, _ := l.sealedAt(x.segment)
		l.dir.scrubSegment(l, s)
		return nil, l.Damaged()
	},
	"consumer": func(l *Log, x *stood) ([]byte, error) {
		for at := x.segment; at <= record.Batch(x.data).LastOffset(); {
			s, err := l.Read(at, l.Ends().LogEnd, 1, true)
			if err != nil {
				return nil, err
			}
			got := bytes.Clone(s.Parts[0])
			s.Release()
			if record.Batch(got).BaseOffset() != at {
				return got, nil
			}
			at = record.Batch(got).LastOffset() + 1
		}
		return nil, nil
	},
	"read": func(l *Log, x *stood) ([]byte, error) {
		s, err := l.Read(record.Batch(x.data).BaseOffset(), l.Ends().LogEnd, 1, true)
		defer s.Release()
		return bytes.Clone(bytes.Join(s.Parts, nil)), err
	},
	"follower": func(l *Log, x *stood) ([]byte, error) {
		at := record.Batch(x.data).BaseOffset()
		s, err := l.ReadSpan(at, 1)
		defer s.Release()
		return bytes.Clone(bytes.Join(s.Parts, nil)), err
	},
}

// outcome is what became of a changed bit.
type outcome int

const (
	unnoticed outcome = iota
	reported
	corrected
)

// passOver changes one bit of a batch, lets one of the ways pass over it, and returns what it did.
func passOver(t *testing.T, disk *crashfs.FS, way string, x *stood, bit int, b broken) outcome {
	t.Helper()
	image := disk.KillImage(1)
	changed := x.data[bit/8] ^ 1<<(bit%8)
	change(t, image, x.file, x.pos+int64(bit/8), []byte{changed})
	d, l := compactLog(t, image, "sync", func(o *Options) { o.broken = b })
	defer d.Close()
	got, err := ways[way](l, x)
	after := readFile(t, image, x.file)
	same := bytes.Equal(after, readFile(t, disk, x.file))
	if after[x.pos+int64(bit/8)] = x.data[bit/8]; !bytes.Equal(after, readFile(t, disk, x.file)) {
		t.Errorf("bit %d of the batch at %d: %s changed other bytes", bit, record.Batch(x.data).BaseOffset(), way)
	}
	switch {
	case err != nil && !errors.Is(err, ErrCorrupt):
		t.Fatal(err)
	case same && (err != nil || l.Damaged() != nil || len(got) > 0 && !bytes.Equal(got, x.data)):
		t.Errorf("bit %d of the batch at %d: corrected, but %s: %v, %d bytes", bit, record.Batch(x.data).BaseOffset(), way, err, len(got))
	case same:
		return corrected
	case err != nil:
		return reported
	}
	return unnoticed
}

// checksummed is the position in a batch from which on a checksum covers the bytes, except for that
// of the length.
const (
	lengthAt, epochAt, magicAt = 8, 12, 16
	checksummed                = 17
)

// Whichever bit of the bytes of a batch changes that no checksum covers, in a log without gaps each
// way of reading the segment finds it, and corrects what only one value can be.
func TestEveryBitOfAHeader(t *testing.T) {
	disk, all := withEpochs(t, false)
	for _, i := range []int{0, len(all) / 2, len(all) - 1} {
		for bit := range checksummed * 8 {
			want := corrected
			if at := bit / 8; at >= lengthAt && at < epochAt || at == magicAt {
				want = reported
			}
			for way := range ways {
				if got := passOver(t, disk, way, &all[i], bit, broken{}); got != want {
					t.Errorf("batch %d of %d, byte %d, bit %d, %s: %d, want %d", i, len(all), bit/8, bit%8, way, got, want)
				}
			}
		}
		for at := checksummed; at < len(all[i].data); at += 3 {
			if got := passOver(t, disk, "scrub", &all[i], 8*at+at%8, broken{}); got != reported {
				t.Errorf("batch %d of %d, byte %d: %d", i, len(all), at, got)
			}
		}
	}
}

// Next to the gaps of a compaction, a leader epoch has one value only. A base offset has several.
// It is never corrected wrongly, and another offset is unnoticed only within the gap.
func TestEveryBitOfAHeaderBetweenGaps(t *testing.T) {
	disk, all := withEpochs(t, true)
	count, tight := map[outcome]int{}, 0
	for i := range all {
		b, end := record.Batch(all[i].data), int64(1<<40)
		if i+1 < len(all) {
			end = record.Batch(all[i+1].data).BaseOffset()
		}
		if all[i].gap == 0 && b.LastOffset()+1 == end {
			tight++
		}
		for bit := range checksummed * 8 {
			got := passOver(t, disk, "scrub", &all[i], bit, broken{})
			at, wrong := bit/8, slices.Clone(b)
			wrong[at] ^= 1 << (bit % 8)
			inGap := wrong.BaseOffset() >= b.BaseOffset()-all[i].gap && wrong.LastOffset() < end
			ok := got == corrected
			switch {
			case at < lengthAt:
				count[got]++
				ok = got != unnoticed || inGap
			case at < epochAt, at == magicAt:
				ok = got == reported
			}
			if !ok {
				t.Errorf("batch %d of %d, byte %d, bit %d: %d", i, len(all), at, bit%8, got)
			}
		}
	}
	// How many batches stand next to gaps, and to how large ones, depends on where the schedule cut
	// the segments.
	if count[reported] == 0 || tight > 0 && count[corrected] == 0 || count[unnoticed] > len(all)*lengthAt*8/20 {
		t.Errorf("base offsets: %v, %d batches have no gap beside them", count, tight)
	}
}

// Bits of two adjacent batches change, one after the other, and are corrected. Then the power
// fails. A disk that was still writing one of the corrections makes anything of it, and the batch
// is corrected again. Both at once could not be.
func TestCorrectionsOutliveAPowerLoss(t *testing.T) {
	disk, all := withEpochs(t, false)
	_, l := compactLog(t, disk, "sync")
	for i := range 2 {
		x := &all[1+i]
		change(t, disk, x.file, x.pos+7, []byte{x.data[7] ^ 1})
		if _, err := ways["scrub"](l, x); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(20) {
		d, l := compactLog(t, disk.PowerLossImage(crashfs.GarbleWrites, seed), "sync")
		for i := range 2 {
			if _, err := ways["read"](l, &all[1+i]); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
		must(t, d.Close())
	}
}

// A compaction writes one segment from several. The leader epochs of each of them are known, also
// before the next start.
func TestEveryEpochOfACompactedSegment(t *testing.T) {
	disk := crashfs.New(1)
	d, l := compactLog(t, disk, "sync")
	for i := range 8 {
		l.SetLeaderEpoch(int32(3+i), true)
		must(t, send(l, twoKeyed(t, fmt.Sprint("key ", i%6), "v")).Err)
		flushedAndSynced(t, l)
	}
	compactAll(t, d)
	s := l.segments[0]
	all, epochs, _ := storedIn(t, disk, s)
	if epochs < 3 {
		t.Fatalf("%s has %d epochs", s.Path(), epochs)
	}
	for i, x := range all {
		change(t, disk, x.file, x.pos+epochAt, []byte{x.data[epochAt] ^ 1<<6})
		_, err := ways["scrub"](l, &x)
		if got := readFile(t, disk, x.file)[x.pos:][:len(x.data)]; err != nil || !bytes.Equal(got, x.data) {
			t.Errorf("batch %d of %d, at %d: not corrected, %v", i, len(all), record.Batch(x.data).BaseOffset(), err)
		}
	}
}

// copyOfChanged changes a bit in a leader's log, and copies the log. It returns what is wrong with
// the copy.
func copyOfChanged(t *testing.T, bit int, b broken) string {
	t.Helper()
	disk, all := withEpochs(t, false)
	x := all[len(all)/2]
	change(t, disk, x.file, x.pos+int64(bit/8), []byte{x.data[bit/8] ^ 1<<(bit%8)})
	_, from := compactLog(t, disk, "sync", func(o *Options) { o.broken = b })
	to := makeLogs(t, mustOpen(t, crashfs.New(2), "sync"), 1, "sync")[0]
	if err := replicate(from, to, 1, 1000); err != nil {
		return err.Error()
	}
	return differ(from, to)
}

// A leader's disk changes the epoch of a batch. Its followers can copy the log, and get the same
// epochs. Without the rule, a lower epoch is refused each time, and a higher one makes all epochs
// behind it be refused.
func TestFollowersGetTheRightEpochs(t *testing.T) {
	for _, bit := range []int{8 * epochAt, 8*epochAt + 22, 8*(magicAt-1) + 1, 8*(magicAt-1) + 3} {
		if wrong := copyOfChanged(t, bit, broken{}); wrong != "" {
			t.Errorf("bit %d: %s", bit, wrong)
		}
	}
}

// The disk refuses the correction. The batch is damaged then; the others are served, and the log
// accepts records.
func TestAHeaderThatCannotBeCorrectedIsDamage(t *testing.T) {
	for _, fault := range []errfs.Rule{
		{Ops: errfs.Write, Err: syscall.EROFS},
		{Ops: errfs.Datasync, Err: syscall.EIO, Drop: errfs.DropCached},
	} {
		disk, all := withEpochs(t, false)
		x := all[1]
		change(t, disk, x.file, x.pos+magicAt-1, []byte{0xff})
		errs := errfs.New(disk)
		_, l := compactLog(t, errs, "sync")
		fault.Path = x.file
		failing := errs.Add(fault)
		at := record.Batch(x.data).BaseOffset()
		for range 2 {
			s, err := l.Read(at, l.Ends().LogEnd, 1, true)
			s.Release()
			if !errors.Is(err, ErrCorrupt) || !l.DamagedAt(at) || l.DamagedAt(at+2) {
				t.Errorf("%v: %v, %v", fault.Ops, err, l.Damages())
			}
		}
		if failing.Hits() != 1 || l.Err() != nil {
			t.Errorf("%v: %d calls, the log: %v", fault.Ops, failing.Hits(), l.Err())
		}
		put(t, l, 1, 10)
	}
}
