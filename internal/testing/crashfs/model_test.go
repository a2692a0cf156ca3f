package crashfs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/testing/vfstest"
	"github.com/chronik-io/chronik/internal/vfs"
)

// modelFile is a file as the list of its states: states[0] is durable, and reads see the last one.
type modelFile struct {
	states []string
	cut    bool   // a truncation is among the changes; it may end inside a sector
	writes []span // since the last sync
}

func (m *modelFile) now() string { return m.states[len(m.states)-1] }

// machine runs an FS and a model of one directory, /d.
type machine struct {
	fs      *FS
	now     map[string]*modelFile
	durable map[string]*modelFile // by the last SyncDir
	// past has, for every name, the files that had this name since that SyncDir; nil for none.
	past map[string][]*modelFile
}

func newMachine() *machine {
	return &machine{now: map[string]*modelFile{}, durable: map[string]*modelFile{}, past: map[string][]*modelFile{}}
}

func drawName(t *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, label)
}

func (m *machine) touch(name string) { m.past[name] = append(m.past[name], m.now[name]) }

func (m *machine) file(t *rapid.T) (string, *modelFile, vfs.File) {
	name := drawName(t, "file")
	if m.now[name] == nil {
		h, err := m.fs.Create("/d/" + name)
		check(t, err)
		m.now[name] = &modelFile{states: []string{""}}
		m.touch(name)
		return name, m.now[name], h
	}
	h, err := m.fs.Open("/d/" + name)
	check(t, err)
	return name, m.now[name], h
}

func check(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) Write(t *rapid.T) {
	_, f, h := m.file(t)
	off := rapid.IntRange(0, 2000).Draw(t, "off")
	n := rapid.IntRange(1, 1500).Draw(t, "n")
	p := strings.Repeat(string(rune('A'+rapid.IntRange(0, 25).Draw(t, "letter"))), n)
	_, err := h.WriteAt([]byte(p), int64(off))
	check(t, err)
	old := f.now()
	if len(old) < off+n {
		old += strings.Repeat("\x00", off+n-len(old))
	}
	f.states = append(f.states, old[:off]+p+old[off+n:])
	f.writes = append(f.writes, span{int64(off), int64(n)})
}

func (m *machine) Truncate(t *rapid.T) {
	_, f, h := m.file(t)
	size := rapid.IntRange(0, 3000).Draw(t, "size")
	check(t, h.Truncate(int64(size)))
	f.states = append(f.states, resized(f.now(), size))
	f.cut = true
}

func (m *machine) Allocate(t *rapid.T) {
	_, f, h := m.file(t)
	size := rapid.IntRange(1, 3000).Draw(t, "size")
	check(t, h.Allocate(0, int64(size)))
	f.states = append(f.states, resized(f.now(), max(size, len(f.now()))))
}

func resized(s string, size int) string {
	return s[:min(size, len(s))] + strings.Repeat("\x00", max(0, size-len(s)))
}

func (m *machine) Datasync(t *rapid.T) {
	_, f, h := m.file(t)
	check(t, h.Datasync())
	f.states, f.cut, f.writes = []string{f.now()}, false, nil
}

func (m *machine) SyncDir(t *rapid.T) {
	check(t, m.fs.SyncDir("/d"))
	m.durable = maps.Clone(m.now)
	m.past = map[string][]*modelFile{}
}

func (m *machine) Remove(t *rapid.T) {
	name, _, _ := m.file(t)
	check(t, m.fs.Remove("/d/"+name))
	delete(m.now, name)
	m.touch(name)
}

func (m *machine) Rename(t *rapid.T) {
	from, f, _ := m.file(t)
	to := drawName(t, "to")
	check(t, m.fs.Rename("/d/"+from, "/d/"+to))
	if from == to {
		return
	}
	delete(m.now, from)
	m.now[to] = f
	m.touch(from)
	m.touch(to)
}

func (m *machine) Kill(*rapid.T) { m.fs = m.fs.Kill() }

// PowerLoss compares the image with the model and continues with the image.
func (m *machine) PowerLoss(t *rapid.T) {
	mode := rapid.SampledFrom(append(Modes(), GarbleSectors)).Draw(t, "mode")
	m.fs = m.fs.PowerLoss(mode)
	left := map[string]*modelFile{}
	for _, name := range []string{"a", "b", "c"} {
		stood := append([]*modelFile{m.durable[name]}, m.past[name]...)
		switch mode {
		case DropUnsynced:
			stood = stood[:1]
		case KeepAll:
			stood = stood[len(stood)-1:]
		}
		got := "nothing"
		if has(t2(t), m.fs, "/d/"+name) {
			content := vfstest.Get(t2(t), m.fs, "/d/"+name)
			left[name] = &modelFile{states: []string{content}}
			got = fmt.Sprintf("%d bytes", len(content))
		}
		if !slices.ContainsFunc(stood, func(f *modelFile) bool { return possible(f, left[name], mode) }) {
			t.Fatalf("%v left %s under %s, which is not a possible state of the %d files that had this name", mode, got, name, len(stood))
		}
	}
	m.now, m.durable, m.past = left, maps.Clone(left), map[string][]*modelFile{}
}

// t2 makes the test helpers of this package usable inside a property.
func t2(t *rapid.T) testing.TB { return tb{TB: nil, t: t} }

type tb struct {
	testing.TB
	t *rapid.T
}

func (b tb) Helper()                   { b.t.Helper() }
func (b tb) Fatal(args ...any)         { b.t.Fatal(args...) }
func (b tb) Fatalf(s string, a ...any) { b.t.Fatalf(s, a...) }

// possible reports whether a power loss in this mode can turn f into left.
func possible(f, left *modelFile, mode Mode) bool {
	if f == nil || left == nil {
		return f == nil && left == nil
	}
	got := left.now()
	switch mode {
	case DropUnsynced:
		return got == f.states[0]
	case KeepAll:
		return got == f.now()
	case KeepPrefix:
		return slices.ContainsFunc(f.states, func(s string) bool { return s == got }) || tornPrefix(f.states, got)
	}
	unit := sectorSize
	if f.cut || mode == GarbleWrites {
		unit = 1
	}
	if !slices.ContainsFunc(f.states, func(s string) bool { return len(s) == len(got) }) {
		return false
	}
	for at := 0; at < len(got); at += unit {
		end := min(at+unit, len(got))
		seen := slices.ContainsFunc(f.states, func(s string) bool { return resized(s, len(got))[at:end] == got[at:end] })
		if !seen && !(f.cut && got[at] == 0) && !f.atRisk(at, mode) {
			return false
		}
	}
	return true
}

// atRisk reports whether the mode may have put random bytes at a position.
func (m *modelFile) atRisk(at int, mode Mode) bool {
	unit := int64(sectorSize)
	switch mode {
	case GarbleWrites:
		unit = 1
	case GarbleSectors:
	default:
		return false
	}
	return slices.ContainsFunc(m.writes, func(w span) bool {
		return int64(at)/unit >= w.off/unit && int64(at)/unit <= (w.off+w.n-1)/unit
	})
}

// tornPrefix reports whether got is a state with some sectors of the next one.
func tornPrefix(states []string, got string) bool {
	for i := range len(states) - 1 {
		for cut := 0; cut <= len(states[i+1]); cut += sectorSize {
			s := states[i+1][:cut]
			if len(states[i]) > cut {
				s += states[i][cut:]
			}
			if s == got {
				return true
			}
		}
	}
	return false
}

// Check compares the visible content with the model.
func (m *machine) Check(t *rapid.T) {
	list, err := m.fs.List("/d")
	check(t, err)
	if len(list) != len(m.now) {
		t.Fatalf("%d files, want %d", len(list), len(m.now))
	}
	for name, f := range m.now {
		if vfstest.Get(t2(t), m.fs, "/d/"+name) != f.now() {
			t.Fatalf("%s does not have the written content", name)
		}
	}
}

func TestModelOfWhatSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		m.fs = New(rapid.Uint64().Draw(t, "seed"))
		check(t, m.fs.MkdirAll("/d"))
		check(t, m.fs.SyncDir("/"))
		t.Repeat(map[string]func(*rapid.T){
			"Write": m.Write, "Write again": m.Write, "Truncate": m.Truncate, "Allocate": m.Allocate, "Datasync": m.Datasync,
			"SyncDir": m.SyncDir, "Remove": m.Remove, "Rename": m.Rename, "Kill": m.Kill, "PowerLoss": m.PowerLoss, "": m.Check,
		})
	})
}
