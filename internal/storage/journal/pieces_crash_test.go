package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// A large entry begins the next file and is dropped before a byte of it is written. The next
// datasync of that file makes no header durable: no checkpoint may name the file.
func TestDropBeforeTheFirstPiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, o := crashing(t, 1), newRecorder()
		fsys := errfs.New(disk)
		j := open(t, fsys, nil)
		defer j.Close()
		small, bulk := newStream(1), newStream(2)
		for i := range int64(6) {
			ok(t, j.Submit(nil, entry(small, i, 100, eager, o)))
			synctest.Wait()
		}
		ok(t, j.Submit(nil, entry(small, 6, 100, loose, o))) // its file must be synced before the next one begins
		synctest.Wait()
		held := fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1,
			When:   func(c errfs.Call) bool { return c.Path == testDir+"/"+fileName(j.at.File) },
			Before: func(errfs.Call) { j.Drop(bulk); j.Sync() }})
		ok(t, j.Submit(nil, entry(bulk, 0, 14<<10, eager, o)))
		synctest.Wait()
		if held.Hits() != 1 || j.space.cur.seq == j.at.File || j.space.cur.begun {
			t.Fatalf("the journal is in file %d, begun: %t", j.space.cur.seq, j.space.cur.begun)
		}
		redo := j.Oldest(j.Notified() + 1)
		j.Release(redo)
		_, ext, err := frames(disk.PowerLossImage(crashfs.DropUnsynced, 1), redo)
		if ok(t, err); ext.Next != j.Notified()+1 {
			t.Errorf("the journal ends at %d, and %d was reported", ext.Next, j.Notified())
		}
	})
}

// Two streams have large entries, and one of them always has another. They take turns.
func TestLargeEntriesOfTwoStreamsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, fsys := newRecorder(), errfs.New(memory(t))
		j, _ := inPieces(t, fsys, o)
		defer j.Close()
		hold := make(chan struct{})
		fsys.Add(errfs.Rule{Ops: errfs.Write, Count: 1, Before: func(errfs.Call) { <-hold }})
		a, b := newStream(2), newStream(3)
		var many []*Entry
		for i := range int64(8) {
			many = append(many, entry(a, i, 40<<10, eager, o))
		}
		other := entry(b, 0, 40<<10, eager, o)
		ok(t, j.Submit(nil, many...))
		synctest.Wait()
		ok(t, j.Submit(nil, other))
		close(hold)
		synctest.Wait()
		if other.LSN > many[2].LSN { // two of them were ready before it
			t.Errorf("LSN %d after those up to %d of the other stream", other.LSN, many[7].LSN)
		}
	})
}

// A large entry that does not wait for others is synced as soon as it is written, whatever patient
// entries are queued.
func TestALargeEntryIsNotHeldUpByPatientOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, fsys := newRecorder(), errfs.New(memory(t))
		j, _ := inPieces(t, fsys, o)
		defer j.Close()
		synced := map[LSN]bool{}
		fsys.Add(errfs.Rule{Ops: errfs.Datasync, Before: func(errfs.Call) { synced[j.Assigned()] = true }})
		patient := newStream(3)
		fsys.Add(errfs.Rule{Ops: errfs.Write, Count: 1, Before: func(errfs.Call) {
			for i := range int64(20) { // none of them is small
				ok(t, j.Submit(nil, entry(patient, i, 20<<10, high, o)))
			}
		}})
		large := entry(newStream(2), 0, 100<<10, eager, o)
		ok(t, j.Submit(nil, large))
		synctest.Wait()
		if !synced[large.LSN] {
			t.Errorf("no datasync followed LSN %d, only %v", large.LSN, synced)
		}
	})
}

const piecesRuns = 32

// Streams with entries of 0 to 100 KB, many of which are about as large as the sizes that tell them
// apart, and all profiles or none, dropped at any time; the power, a write or a datasync fails at
// any call.
func TestPiecesWhateverFails(t *testing.T) {
	for seed := range uint64(piecesRuns) {
		if err := piecesRun(t, seed, Broken{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// piecesRun returns what a run with a seed has found to be wrong.
func piecesRun(t *testing.T, seed uint64, broken Broken) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &pieceWork{disk: crashing(t, seed), rng: rand.New(rand.NewPCG(seed, 23)), o: newRecorder(), first: map[*Entry]int{}}
		w.fs = errfs.New(w.disk)
		size := int64(256 << 10) // pieces of a block
		if seed%2 == 0 {
			// Of 9 to 31 blocks, as on a small disk.
			size = 256 * block * (9 + w.rng.Int64N(23))
		}
		w.j = open(t, w.fs, func(o *Options) { o.FileSize, o.MaxBytes, o.Broken = size, 16*size, broken })
		w.redo = w.j.at
		for n := range 6 {
			p := []*durability.Profile{eager, eager, low, high, loose, ticks, nil}[w.rng.IntN(7)]
			w.streams = append(w.streams, &pieceStream{s: newStream(n), profile: p})
		}
		if seed%3 != 0 {
			w.disk.CrashDuring(w.disk.Ops() + 1 + w.rng.IntN(250))
		} else {
			ops := []errfs.Op{errfs.Write, errfs.Datasync}[w.rng.IntN(2)]
			w.fs.Add(errfs.Rule{Ops: ops, From: 1 + w.rng.IntN(120), Count: 1, Err: syscall.EIO, Short: w.rng.IntN(9000)})
		}
		w.fs.Add(errfs.Rule{Ops: errfs.Write, Before: func(errfs.Call) { w.meanwhile() }})
		err = w.run(t, seed)
	})
	return err
}

// pieceWork is a workload and the known state of its entries.
type pieceWork struct {
	disk    *crashfs.FS
	fs      *errfs.FS
	j       *opened
	o       *recorder
	redo    Position // as a checkpoint would hold it
	streams []*pieceStream
	all     []*Entry

	mu    sync.Mutex // guards rng, streams and all
	rng   *rand.Rand
	first map[*Entry]int // number of drops of its stream before it was submitted
}

type pieceStream struct {
	s       *Stream
	profile *durability.Profile
	next    int64
	drops   []LSN // what was assigned when Drop had returned
}

// submit adds entries to a random stream.
func (w *pieceWork) submit(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.streams[w.rng.IntN(len(w.streams))]
	for range n {
		size := w.rng.IntN(1800)
		switch w.rng.IntN(8) {
		case 0:
			size = 2000 + w.rng.IntN(6000)
		case 1, 2:
			size = 8000 + w.rng.IntN(92_000)
		case 3:
			z := w.j.sizes
			size = int([]int64{z.tiny, z.small, z.piece, z.large, z.most}[w.rng.IntN(5)]) - frameHeader - 8 + w.rng.IntN(5) - 2
		}
		e := entry(s.s, s.next, size, s.profile, w.o)
		if w.j.Submit(nil, e) != nil {
			return
		}
		s.next++
		w.first[e] = len(s.drops)
		w.all = append(w.all, e)
	}
}

func (w *pieceWork) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.streams[w.rng.IntN(len(w.streams))]
	if p := w.j.partStream(); p != nil && w.rng.IntN(2) == 0 {
		for _, s = range w.streams {
			if s.s == p {
				break
			}
		}
	}
	w.j.Drop(s.s)
	s.drops = append(s.drops, w.j.Assigned())
}

// partStream returns the stream of the entry of which pieces are written.
func (j *Journal) partStream() *Stream {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.part == nil {
		return nil
	}
	return j.part.entry.Stream
}

// meanwhile happens during writes.
func (w *pieceWork) meanwhile() {
	w.mu.Lock()
	n := w.rng.IntN(40)
	w.mu.Unlock()
	switch {
	case n < 15:
		w.submit(1)
	case n == 15:
		w.drop()
	}
}

func (w *pieceWork) run(t *testing.T, seed uint64) error {
	for i := range 30 {
		w.mu.Lock()
		n, pause := 1+w.rng.IntN(4), w.rng.IntN(3) > 0
		w.mu.Unlock()
		w.submit(n)
		if n == 4 && i%3 == 0 {
			w.drop()
		}
		if pause {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		if len(w.j.failed) > 0 && !w.disk.Crashed() {
			if err := <-w.j.failed; !errors.Is(err, syscall.EIO) {
				return errors.Join(fmt.Errorf("the journal failed without a fault: %w", err), w.j.Close())
			}
			w.j.begin(t, 0)
			w.redo = w.j.at
		}
		if i%4 == 3 && !w.disk.Crashed() { // a checkpoint: everything so far is in segments
			w.redo = w.j.Oldest(w.j.Notified() + 1)
			w.j.Release(w.redo)
		}
	}
	time.Sleep(time.Second)
	synctest.Wait()
	notified, last := w.j.Notified(), w.disk.KillImage(1) // entries may still wait for others
	if err := w.j.Close(); err != nil && !w.disk.Crashed() {
		return err
	}
	if err := w.reports(); err != nil {
		return err
	}
	durable := w.j.Durable()
	if err := w.verify(last, notified); err != nil {
		return fmt.Errorf("killed: %w", err)
	}
	modes := allModes()
	for i := range 2 {
		m := modes[(int(seed)+i*2)%len(modes)]
		if err := w.verify(w.disk.PowerLossImage(m, seed), durable); err != nil {
			return fmt.Errorf("power loss, %v: %w", m, err)
		}
	}
	return nil
}

// reports checks that each entry was reported once, and each stream in order.
func (w *pieceWork) reports() error {
	if w.o.twice || w.o.count() != len(w.all) {
		return fmt.Errorf("%d of %d entries are reported, twice: %t", w.o.count(), len(w.all), w.o.twice)
	}
	at := map[*Stream]*Entry{}
	for _, e := range w.o.entries {
		if w.o.errs[e] != nil {
			continue
		}
		if p := at[e.Stream]; p != nil && (p.LSN >= e.LSN || p.PrevEnd >= e.PrevEnd) {
			return fmt.Errorf("LSN %d of offset %d is reported after LSN %d of offset %d", e.LSN, e.PrevEnd, p.LSN, p.PrevEnd)
		}
		at[e.Stream] = e
	}
	return nil
}

// verify checks that a start finds the entries that were reported up to an LSN, and no others than
// those that were given and not dropped, in order.
func (w *pieceWork) verify(fsys *crashfs.FS, through LSN) error {
	all, ext, err := frames(fsys, w.redo)
	if err != nil {
		return fmt.Errorf("false alarm: %w", err)
	}
	found, given, at := map[LSN]bool{}, map[LSN]*Entry{}, map[StreamID]int64{}
	for _, e := range w.all {
		given[e.LSN] = e
	}
	for _, f := range all {
		e := given[f.LSN]
		if f.LSN < w.redo.LSN {
			continue
		}
		if e == nil || e.Stream.id != f.Stream || !bytes.Equal(e.Payload, f.Payload) || f.LSN >= ext.Above {
			return fmt.Errorf("frame %d was never submitted, or does not count: %+v", f.LSN, ext)
		}
		if last, some := at[f.Stream]; some && f.PrevEnd <= last {
			return fmt.Errorf("frame %d: offset %d after %d", f.LSN, f.PrevEnd, last)
		}
		for _, s := range w.streams {
			if n := w.first[e]; s.s == e.Stream && n < len(s.drops) && s.drops[n] < f.LSN {
				return fmt.Errorf("frame %d was dropped when %d was assigned", f.LSN, s.drops[n])
			}
		}
		found[f.LSN], at[f.Stream] = true, f.PrevEnd
	}
	for _, e := range w.all {
		acked := w.o.errs[e] == nil && e.LSN >= w.redo.LSN && e.LSN <= through
		if acked && !found[e.LSN] {
			return fmt.Errorf("LSN %d of %d bytes is missing, %d frames, %+v", e.LSN, len(e.Payload), len(all), ext)
		}
		if errors.Is(w.o.errs[e], ErrDropped) && e.LSN != 0 {
			return fmt.Errorf("LSN %d was dropped", e.LSN)
		}
	}
	return nil
}
