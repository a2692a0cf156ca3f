package inspect_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// putLarge appends a batch that the journal writes in pieces if other logs have small ones.
func putLarge(t testing.TB, l *storage.Log) {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: 7, Sequence: int32(l.Ends().LogEnd)}})
	b.Append(1, nil, bytes.Repeat([]byte("0123456789"), 1200), nil)
	putBatch(t, l, b)
	eventually(t, l.String()+" counts", func() bool { return l.AckEnd() >= l.Ends().LogEnd })
}

// withPieces returns a directory as a killed broker leaves it, in whose journal frames follow a
// frame that was written in pieces, and the position of the skip frame in the list of all frames.
func withPieces(t *testing.T) (disk *crashfs.FS, skip int) {
	t.Helper()
	live := crashfs.New(1)
	d := opened(t, live)
	logs := create(t, d)
	for _, name := range topics {
		put(t, logs[name], 1)
	}
	eventually(t, "a frame is written in pieces", func() bool {
		put(t, logs["b"], 2)
		putLarge(t, logs["a"])
		put(t, logs["a"], 2) // and nothing shows that other logs have lost nothing
		put(t, logs["b"], 2)
		disk = live.KillImage(1)
		all := (&site{TB: t, fs: disk}).frames()
		skip = slices.IndexFunc(all, func(f frame) bool { return f.at.Skips() })
		return skip > 0 && skip < len(all)-2
	})
	return disk, skip
}

// Damage near a frame that was written in pieces costs the records of the damaged frame and no
// others. Verify says so, and a repair.
func TestDamageNearAFrameInPieces(t *testing.T) {
	image, at := withPieces(t)
	whole := content(t, opened(t, image.KillImage(9)))
	for i, p := range []struct {
		name     string
		frame    int   // relative to the skip frame
		position int64 // in the frame
		lost     bool
	}{
		{"the skip frame's next position", 0, 73, false},
		{"the skip frame's checksum", 0, 5, false},
		{"a piece", 1, 5000, true},
		{"the last piece", 1, 12_000, true},
		{"the first block", 1, 3000, true},
		{"the checksum of the frame in pieces", 1, 6, true},
		{"the small frame before the skip frame", -1, 100, true},
	} {
		t.Run(p.name, func(t *testing.T) {
			s := &site{TB: t, fs: image.KillImage(uint64(100 + i))}
			f := s.frames()[at+p.frame]
			s.flip(f.file, f.at.Pos+p.position)
			var want []inspect.Loss
			if p.lost {
				n := slices.IndexFunc(topics, func(name string) bool { return idOf(slices.Index(topics, name)) == f.at.Stream })
				want = append(want, inspect.Loss{Topic: topics[n], From: f.at.PrevEnd, To: f.at.NextEnd})
			}
			r := begin(t, s.fs)
			defer func() { _ = r.Close() }()
			if got := r.Inspection().Missing(); !slices.Equal(got, want) {
				t.Errorf("missing %v, want %v", got, want)
			}
			if !slices.ContainsFunc(r.Inspection().Findings, func(f inspect.Finding) bool {
				return f.Kind == inspect.JournalFrameDamaged
			}) {
				t.Errorf("findings: %+v", r.Inspection().Findings)
			}
			if got := r.Plan().Loses(); !slices.Equal(got, want) {
				t.Errorf("the plan loses %v, want %v", got, want)
			}
			must.OK(t, r.Do(context.Background(), "/backup"))
			_ = r.Close()
			lossy(t, s.fs, want)
			came(t, s.fs, whole, want)
		})
	}
}

// A dump shows a skip frame as one, and only if no log is selected. Its damage is shown, and it is
// said that it has no records.
func TestDumpOfASkipFrame(t *testing.T) {
	image, at := withPieces(t)
	skips := func(o inspect.DumpOptions) (n, damaged int) {
		opt := inspect.Options{FS: image, Locations: []storage.Location{location}}
		err := inspect.Dump(context.Background(), opt, o, func(it *inspect.Item) error {
			switch {
			case it.Frame == nil || it.Frame.Type != "skip":
				if it.Frame != nil && strings.HasPrefix(it.Frame.Type, "type") {
					t.Errorf("frame %+v", it.Frame)
				}
			case it.What == "damage":
				damaged++
			default:
				if n++; it.Partition != nil || it.Offset != nil || it.Frame.To <= it.Position {
					t.Errorf("item %+v, frame %+v", it, it.Frame)
				}
			}
			return nil
		})
		must.OK(t, err)
		return n, damaged
	}
	s := &site{TB: t, fs: image}
	want := 0
	for _, f := range s.frames() {
		if f.at.Type == journal.Skip {
			want++
		}
	}
	if n, damaged := skips(inspect.DumpOptions{Journal: true, Partition: -1}); n != want || damaged != 0 {
		t.Errorf("%d skip frames of %d, %d damaged", n, want, damaged)
	}
	if n, _ := skips(inspect.DumpOptions{Journal: true, Topic: "a", Partition: -1}); n != 0 {
		t.Errorf("%d skip frames of a topic", n)
	}
	f := s.frames()[at]
	s.flip(f.file, f.at.Pos+73)
	if n, damaged := skips(inspect.DumpOptions{Journal: true, Topic: "a", Partition: -1, Records: true}); n != 0 || damaged != 1 {
		t.Errorf("%d skip frames, %d damaged", n, damaged)
	}
}
