package format

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// test is what the helpers need of a *testing.T or a *rapid.T.
type test interface {
	Helper()
	Fatal(args ...any)
}

func store(t test) *faultstore.Store {
	t.Helper()
	fsys := vfs.Memory()
	must.OK(t, fsys.MkdirAll("/store"))
	s, err := dirstore.Open(fsys, "/store")
	must.OK(t, err)
	return faultstore.New(s)
}

// logged is a log object in a store, with the batches that it has.
type logged struct {
	s       *faultstore.Store
	facts   Facts
	batches []record.Batch
	bytes   []byte
	run     Run
}

const prefix = "cluster/"

// put builds and puts a log object of batches.
func put(t test, f Facts, batches []record.Batch) *logged {
	t.Helper()
	x := &logged{s: store(t), facts: f, batches: batches}
	for _, b := range batches {
		x.bytes = append(x.bytes, b...)
	}
	o, err := Build(f, bytes.NewReader(x.bytes), int64(len(x.bytes)))
	must.OK(t, err)
	x.run = o.Run(nonce(1))
	must.OK(t, x.s.Put(context.Background(), prefix+x.run.Name(f.ID), o))
	return x
}

// sizes returns a log object whose batches have values of these sizes.
func sizes(t test, values ...int) *logged {
	t.Helper()
	var batches []record.Batch
	for i, n := range values {
		batches = append(batches, batch(t, int64(i), 1, n, 1, int64(i)))
	}
	return put(t, Facts{ID: orders, End: int64(len(values)), Epochs: []epochs.Entry{{Epoch: 1}}}, batches)
}

// A log object of any batches has them unchanged, as a whole, in chunks and in parts. Its indexes
// lead to the batches that they are asked for.
func TestLogObjectsAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Facts{ID: drawID(t), Base: rapid.Int64Range(0, 1<<40).Draw(t, "base")}
		offset, epoch := f.Base+rapid.Int64Range(0, 3).Draw(t, "hole at the beginning"), int32(3)
		f.Epochs = []epochs.Entry{{Epoch: epoch, Start: max(offset-5, 0)}}
		var batches []record.Batch
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			if rapid.IntRange(0, 3).Draw(t, "next epoch") == 0 && offset > f.Base {
				epoch++
				f.Epochs = append(f.Epochs, epochs.Entry{Epoch: epoch, Start: offset})
			}
			records := rapid.IntRange(1, 3).Draw(t, "records")
			size := rapid.SampledFrom([]int{0, 100, 30 << 10, 70 << 10, 600 << 10}).Draw(t, "size")
			batches = append(batches, batch(t, offset, records, size, epoch, rapid.Int64Range(0, 50).Draw(t, "time")))
			offset += int64(records) + rapid.Int64Range(0, 2).Draw(t, "hole")
		}
		f.End = max(offset, batches[len(batches)-1].LastOffset()+1)
		x := put(t, f, batches)
		l, err := OpenLog(context.Background(), x.s, prefix, f.ID, &x.run)
		must.OK(t, err)
		if !slices.Equal(l.Epochs, f.Epochs) {
			t.Fatalf("the footer is %+v", l)
		}
		x.verifyChunks(t, l)
		x.verifyLookups(t, l)
		x.verifyParts(t, rapid.IntRange(0, len(batches)-1).Draw(t, "first"))
	})
}

func (x *logged) verifyChunks(t *rapid.T, l *Log) {
	var all []byte
	p := make([]byte, ChunkSize)
	for i := range l.Chunks {
		b, err := l.ReadChunk(context.Background(), x.s, prefix+x.run.Name(x.facts.ID), i, p)
		must.OK(t, err)
		all = append(all, b...)
	}
	if !bytes.Equal(all, x.bytes) {
		t.Fatalf("the chunks have %d bytes, and the batches %d", len(all), len(x.bytes))
	}
}

func (x *logged) verifyLookups(t *rapid.T, l *Log) {
	starts := map[Position]bool{}
	pos := int64(0)
	for _, b := range x.batches {
		starts[Position{b.BaseOffset(), pos}] = true
		pos += int64(b.Size())
	}
	pos = 0
	for _, b := range x.batches {
		for _, offset := range []int64{b.BaseOffset(), b.LastOffset()} {
			at := l.Before(offset)
			if !starts[at] || at.Base > offset || pos-at.Pos >= indexEvery {
				t.Fatalf("a search for %d, whose batch is at position %d, begins at %+v", offset, pos, at)
			}
		}
		pos += int64(b.Size())
	}
	for ts := int64(0); ts < 52; ts++ {
		from, found := l.BeforeTime(ts)
		first := slices.IndexFunc(x.batches, func(b record.Batch) bool { return b.MaxTimestamp() >= ts })
		if found != (first >= 0) {
			t.Fatalf("records of %d: %v", ts, found)
		}
		if found && x.batches[first].BaseOffset() < from {
			t.Fatalf("the first record of %d is at %d, the search begins at %d", ts, x.batches[first].BaseOffset(), from)
		}
	}
}

// verifyParts reads the batches from a number on, and those before it.
func (x *logged) verifyParts(t *rapid.T, n int) {
	at := int64(0)
	for _, b := range x.batches[:n] {
		at += int64(b.Size())
	}
	cut := x.batches[n].BaseOffset()
	for _, p := range []Part{
		Whole(x.run, 9), {Base: cut, End: x.run.End, From: at, To: x.run.Len, Run: x.run}, {Base: x.run.Base, End: cut, To: at, Run: x.run},
	} {
		var got []byte
		must.OK(t, ReadPart(context.Background(), x.s, prefix, x.facts.ID, &p, func(b []byte) error {
			got = append(got, b...)
			return nil
		}))
		if !bytes.Equal(got, x.bytes[p.From:p.To]) {
			t.Fatalf("%d bytes of part %+v", len(got), p)
		}
	}
}

// A change of any byte of a log object, and a missing end, are found by who reads it.
func TestDamageOfALogObjectIsFound(t *testing.T) {
	x := sizes(t, 100, ChunkSize, 200)
	ctx, name := context.Background(), prefix+x.run.Name(orders)
	l, err := OpenLog(ctx, x.s, prefix, orders, &x.run)
	must.OK(t, err)
	part, p := Whole(x.run, 1), make([]byte, ChunkSize)
	ignore := func([]byte) error { return nil }
	for at := x.run.Len; at < x.run.Size; at++ { // footer and trailer
		fault := x.s.Add(faultstore.Rule{Ops: faultstore.Get, Alter: func(_ faultstore.Call, b []byte) []byte {
			b[at-x.run.Len] ^= 16
			return b
		}})
		if _, err := OpenLog(ctx, x.s, prefix, orders, &x.run); !errors.Is(err, objects.ErrDamaged) {
			t.Errorf("byte %d of the object: %v", at, err)
		}
		fault.Off()
	}
	for what, alter := range map[string]func(faultstore.Call, []byte) []byte{
		"a bit":   func(_ faultstore.Call, b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"the end": func(_ faultstore.Call, b []byte) []byte { return b[:len(b)-1] },
		"nothing": func(faultstore.Call, []byte) []byte { return nil },
	} {
		fault := x.s.Add(faultstore.Rule{Ops: faultstore.Get, Alter: alter})
		for i := range l.Chunks {
			if _, err := l.ReadChunk(ctx, x.s, name, i, p); !errors.Is(err, objects.ErrDamaged) {
				t.Errorf("%s, chunk %d: %v", what, i, err)
			}
		}
		if err := ReadPart(ctx, x.s, prefix, orders, &part, ignore); !errors.Is(err, objects.ErrDamaged) {
			t.Errorf("%s, all batches: %v", what, err)
		}
		if _, err := OpenLog(ctx, x.s, prefix, orders, &x.run); !errors.Is(err, objects.ErrDamaged) {
			t.Errorf("%s, footer: %v", what, err)
		}
		fault.Off()
	}
	if _, err := l.ReadChunk(ctx, x.s, name, len(l.Chunks), p); err == nil {
		t.Error("a chunk above the last was read")
	}
}

// An object that is intact, but another than the reference names, is not taken for it.
func TestAnotherLogObjectIsNotTakenForIt(t *testing.T) {
	x, ctx := sizes(t, 100, 200), context.Background()
	for what, change := range map[string]func(*Run){
		"checksum": func(r *Run) { r.Sum++ },
		"length":   func(r *Run) { r.Len -= 8 },
	} {
		r := x.run
		change(&r)
		if _, err := OpenLog(ctx, x.s, prefix, orders, &r); !errors.Is(err, objects.ErrDamaged) {
			t.Errorf("another %s: %v", what, err)
		}
	}
	other := ID{Topic: orders.Topic, Partition: 9}
	if _, err := OpenLog(ctx, x.s, prefix, other, &x.run); !errors.Is(err, objects.ErrNotFound) {
		t.Errorf("an object that is missing: %v", err)
	}
	must.OK(t, x.s.Copy(ctx, objects.Info{Name: prefix + x.run.Name(orders)}, prefix+x.run.Name(other)))
	if _, err := OpenLog(ctx, x.s, prefix, other, &x.run); !errors.Is(err, objects.ErrDamaged) {
		t.Errorf("the object of another partition: %v", err)
	}
}

// A reader of segments reads the batches of a log object and ends at the footer, as at an end of
// file within a batch.
func TestALogObjectIsReadAsASegment(t *testing.T) {
	x := sizes(t, 100, 200, 0)
	object := make([]byte, x.run.Size)
	_, err := x.s.Get(context.Background(), prefix+x.run.Name(orders), 0, object)
	must.OK(t, err)
	n, rest := 0, object
	for {
		b, next, err := record.Next(rest)
		if errors.Is(err, record.ErrShort) {
			break
		}
		must.OK(t, err)
		must.OK(t, b.CheckCRC())
		n, rest = n+1, next
	}
	if n != 3 || !strings.HasPrefix(string(rest), footerMark) {
		t.Errorf("%d batches, then %q", n, rest[:20])
	}
}

func TestFactsThatDoNotFitAreRefused(t *testing.T) {
	b := slices.Concat(batch(t, 10, 2, 3, 4, 5), batch(t, 14, 1, 0, 5, 6))
	good := func() Facts {
		return Facts{ID: orders, Base: 10, End: 16, Epochs: []epochs.Entry{{Epoch: 4, Start: 10}, {Epoch: 5, Start: 13}}}
	}
	for what, change := range map[string]func(*Facts){
		"no epochs":           func(f *Facts) { f.Epochs = nil },
		"an epoch too late":   func(f *Facts) { f.Epochs[1].Start = 15 },
		"a missing epoch":     func(f *Facts) { f.Epochs = f.Epochs[:1] },
		"another epoch":       func(f *Facts) { f.Epochs[0].Epoch = 3 },
		"an epoch out of it":  func(f *Facts) { f.Epochs = append(f.Epochs, epochs.Entry{Epoch: 6, Start: 16}) },
		"epochs out of order": func(f *Facts) { slices.Reverse(f.Epochs) },
		"a lower end":         func(f *Facts) { f.End = 14 },
		"a higher base":       func(f *Facts) { f.Base = 11 },
		"a wrong partition":   func(f *Facts) { f.ID.Partition = -1 },
	} {
		f := good()
		change(&f)
		if _, err := Build(f, bytes.NewReader(b), int64(len(b))); !errors.Is(err, ErrContradiction) && !errors.Is(err, ErrBatches) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Build(good(), bytes.NewReader(b), int64(len(b))+1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that is shorter: %v", err)
	}
	if _, err := Build(good(), bytes.NewReader(b), int64(len(b))); err != nil {
		t.Error(err)
	}
}

// A body of a log object can be read in any pieces, and is the same each time.
func TestABodyIsReadInPieces(t *testing.T) {
	b := batch(t, 0, 1, 50, 0, 0)
	o, err := Build(Facts{ID: orders, End: 1, Epochs: []epochs.Entry{{}}}, bytes.NewReader(b), int64(len(b)))
	must.OK(t, err)
	whole, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
	must.OK(t, err)
	for off := range len(whole) {
		for n := 1; n < 60; n += 7 {
			p := make([]byte, n)
			got, err := o.ReadAt(p, int64(off))
			want := min(n, len(whole)-off)
			if got != want || !bytes.Equal(p[:got], whole[off:off+want]) || (err != nil) != (want < n) {
				t.Fatalf("%d bytes at %d: %d, %v", n, off, got, err)
			}
		}
	}
	if _, err := o.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("a read before the beginning")
	}
}

// Batches that change between their first read and the upload, as on a disk that fails, get into no
// object.
func TestBatchesThatChangeAreNotPut(t *testing.T) {
	b := slices.Concat(batch(t, 0, 1, ChunkSize, 0, 0), batch(t, 1, 1, ChunkSize, 0, 0))
	for _, at := range []int{0, 12, ChunkSize / 2, ChunkSize + 5, len(b) - 1} { // 12 is in a field without a checksum of the batch
		o, err := Build(Facts{ID: orders, End: 2, Epochs: []epochs.Entry{{}}}, bytes.NewReader(b), int64(len(b)))
		must.OK(t, err)
		must.OK(t, second(o.ReadAt(make([]byte, 10), ChunkSize)))
		b[at] ^= 1
		s := store(t)
		if err := s.Put(context.Background(), "x", o); !errors.Is(err, ErrBatches) {
			t.Errorf("a change of byte %d: %v", at, err)
		}
		b[at] ^= 1
		if err := s.Put(context.Background(), "x", o); err != nil {
			t.Errorf("after it: %v", err)
		}
	}
}
