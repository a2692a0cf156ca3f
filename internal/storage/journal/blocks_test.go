package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// A power loss during the write of a group ruins nothing acknowledged earlier: neither the groups
// before it nor the file's header.
func TestAcknowledgedFramesSurviveALossOfPowerDuringTheNextGroup(t *testing.T) {
	for _, size := range []int{1, 350, 3000, block - frameHeader, block, 3 * block} {
		synctest.Test(t, func(t *testing.T) {
			disk := crashing(t, 1)
			fsys := errfs.New(disk)
			j := open(t, fsys, nil)
			s, o := newStream(1), newRecorder()
			var acked []*Entry
			for i := range 5 {
				acked = append(acked, entry(s, int64(i), size, eager, o))
				ok(t, j.Submit(nil, acked[i]))
				synctest.Wait()
			}
			hold := make(chan struct{})
			fsys.Add(errfs.Rule{Ops: errfs.Datasync, Before: func(errfs.Call) { <-hold }})
			ok(t, j.Submit(nil, entry(s, 5, size, eager, o)))
			synctest.Wait() // the group is written and not synced
			for seed := range uint64(20) {
				image := disk.PowerLossImage(crashfs.GarbleSectors, seed)
				all, _, err := frames(image, j.at)
				if err != nil {
					t.Fatalf("%d bytes, image %d: false alarm: %v", size, seed, err)
				}
				for _, e := range acked {
					if err := holds(all, e); err != nil {
						t.Fatalf("%d bytes, image %d: LSN %d: %v", size, seed, e.LSN, err)
					}
				}
			}
			close(hold)
			ok(t, j.Close())
		})
	}
}

// For any entries and any recycling of files, no write touches a block that holds synced frames or
// a synced header of the file's current use.
func TestNoWriteTouchesASyncedBlock(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			fsys := &guarded{FS: memory(t), files: map[string]*life{}}
			j := open(t, fsys, func(o *Options) { o.MaxBytes = 16 << 20 })
			rng := rand.New(rand.NewPCG(seed, 1))
			streams, at := []*Stream{newStream(0), newStream(1), newStream(2)}, make([]int64, 3)
			o := newRecorder()
			for range 120 {
				for range 1 + rng.IntN(4) {
					n := rng.IntN(3)
					p := []*durability.Profile{eager, eager, low}[rng.IntN(3)]
					size := []int{0, 100, 900, 4000, 9000, 20_000, 90_000}[min(rng.IntN(12), rng.IntN(7))]
					ok(t, j.give(rng.IntN(3), entry(streams[n], at[n], size, p, o)))
					at[n]++
				}
				o.wait(int(at[0] + at[1] + at[2]))
				switch rng.IntN(12) {
				case 0, 1, 2:
					j.Release(j.Oldest(j.Notified() + 1))
				case 3:
					_, err := j.Rotate()
					ok(t, err)
					ok(t, j.Resume())
				}
			}
			ok(t, j.Close())
			o.verify(t)
			if len(fsys.touched) > 0 || fsys.recycled == 0 {
				t.Errorf("seed %d, %d files were recycled: %q", seed, fsys.recycled, fsys.touched)
			}
		})
	}
}

// guarded is a file system that detects writes to blocks covered by a completed Datasync. Blocks of
// zeros hold nothing, and a rename begins a new use of the file.
type guarded struct {
	vfs.FS
	mu       sync.Mutex
	files    map[string]*life
	recycled int
	touched  []string
}

// life is what a file's blocks hold since the file got its name.
type life struct{ written, synced []int64 }

func (g *guarded) Create(name string) (vfs.File, error) {
	f, err := g.FS.Create(name)
	return &guardedFile{File: f, fs: g, name: name}, err
}

func (g *guarded) Open(name string) (vfs.File, error) {
	f, err := g.FS.Open(name)
	return &guardedFile{File: f, fs: g, name: name}, err
}

func (g *guarded) Rename(from, to string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.files, from)
	g.recycled++
	return g.FS.Rename(from, to)
}

// of returns the life of a file. The caller must hold the lock.
func (g *guarded) of(name string) *life {
	if g.files[name] == nil {
		g.files[name] = new(life)
	}
	return g.files[name]
}

type guardedFile struct {
	vfs.File
	fs   *guarded
	name string
}

func (f *guardedFile) WriteAt(p []byte, off int64) (int, error) {
	return f.WriteVecAt([][]byte{p}, off)
}

func (f *guardedFile) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	f.fs.mu.Lock()
	l := f.fs.of(f.name)
	p := bytes.Join(bufs, nil)
	for at := off &^ (block - 1); at < off+int64(len(p)); at += block {
		if slices.Contains(l.synced, at) {
			f.fs.touched = append(f.fs.touched, fmt.Sprintf("%s: %d+%d", f.name, off, len(p)))
		}
		part := p[max(at-off, 0):min(at-off+block, int64(len(p)))]
		if len(bytes.Trim(part, "\x00")) > 0 {
			l.written = append(l.written, at)
		}
	}
	f.fs.mu.Unlock()
	return f.File.WriteVecAt(bufs, off)
}

func (f *guardedFile) Datasync() error {
	f.fs.mu.Lock()
	l := f.fs.of(f.name)
	before := slices.Clone(l.written)
	f.fs.mu.Unlock()
	err := f.File.Datasync()
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err == nil {
		l.synced = append(l.synced, before...)
		l.written = l.written[len(before):]
	}
	return err
}
