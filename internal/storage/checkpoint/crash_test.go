package checkpoint

import (
	"iter"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// steps returns the states after each of some commits.
func steps() []*State {
	var all []*State
	logs := []Log{full(1), full(2)}
	for i := range 14 {
		switch i % 4 {
		case 0:
			logs = append(logs, full(byte(i+3)))
		case 1:
			logs[0].Point.Offset += 10
		case 2:
			logs[1].Producers = append([]byte("other "), logs[1].Producers...)
		case 3:
			logs[len(logs)-1].Deleted = !logs[len(logs)-1].Deleted
		}
		s := &State{header(uint64(i + 1)), logs}
		all = append(all, s.Clone())
		logs = s.Clone().Logs
	}
	return all
}

// change returns the change from one state of steps to the next.
func change(i int, from, to *State) *Change {
	c := &Change{Header: to.Header}
	switch i % 4 {
	case 0:
		c.Logs = []Update{{Log: &to.Logs[len(to.Logs)-1]}}
	case 1:
		c.Logs = []Update{{Log: &to.Logs[0], SameProducers: true}}
	case 2:
		c.Logs = []Update{{Log: &to.Logs[1]}}
	case 3:
		c.Logs = []Update{{Log: &to.Logs[len(to.Logs)-1], SameProducers: true}}
	}
	return c
}

// run commits the steps until the file system fails, and reopens the store in the middle. It
// returns how many commits succeeded.
func run(fsys vfs.FS, all []*State) int {
	var s *Store
	var w *Whole
	var begun []Log
	for i, state := range all {
		var err error
		if i == 0 || i == 9 {
			if s != nil && s.Close() != nil {
				return i
			}
			opts := options(fsys)
			opts.CompactBytes, w = 900, nil
			if s, _, err = Open(opts); err != nil {
				return i
			}
		}
		if s.NeedsAll() {
			err, w = s.WriteAll(state), nil
		} else {
			c := change(i, all[i-1], state)
			for j := range c.Logs {
				c.Logs[j].SameProducers = c.Logs[j].SameProducers && s.Knows(c.Logs[j].ID)
			}
			err = s.Append(c)
		}
		switch { // a whole state is written next to three changes
		case err != nil:
		case w == nil && s.Grown():
			w, err = s.Begin(state.Header)
			begun = slices.Clone(state.Logs)
		case w != nil && i%4 == 3:
			for j := range begun { // it may have a later state of some logs, whose changes come after it
				for k := range state.Logs {
					if state.Logs[k].ID == begun[j].ID && s.Knows(begun[j].ID) {
						begun[j] = state.Logs[k]
					}
				}
			}
			if err = s.Finish(w, w.Write(each(begun))); err != nil {
				_ = s.Close()
				return i + 1 // the changes are there
			}
			w = nil
		}
		if err != nil {
			_ = s.Close()
			return i
		}
	}
	_ = s.Close() // the last commit is durable already
	return len(all)
}

func each(logs []Log) iter.Seq[*Log] {
	return func(yield func(*Log) bool) {
		for i := range logs {
			if !yield(&logs[i]) {
				return
			}
		}
	}
}

// check accepts the state after the commits that succeeded, and the state after the one in
// progress.
func check(t *testing.T, what string, got *State, err error, done int, all []*State) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s, %d commits done: %v", what, done, err)
	}
	at := func(n int) *State {
		if n == 0 {
			return nil
		}
		return all[min(n, len(all))-1]
	}
	if diff(got, at(done)) != "" && diff(got, at(done+1)) != "" {
		t.Fatalf("%s, %d commits done:\n%s\nor one commit more", what, done, diff(got, at(done)))
	}
}

func TestCrashAtEverySystemCall(t *testing.T) {
	all := steps()
	whole := crashfs.New(1)
	if n := run(whole, all); n != len(all) {
		t.Fatalf("%d of %d commits without a crash", n, len(all))
	}
	for call := range whole.Ops() + 1 {
		fsys := crashfs.New(uint64(call))
		fsys.CrashDuring(call)
		done := run(fsys, all)
		images := []*crashfs.FS{fsys.KillImage(1)}
		for _, m := range crashfs.Modes() {
			images = append(images, fsys.PowerLossImage(m, 1))
		}
		for _, image := range images {
			s, got, err := Open(options(image))
			check(t, "checkpoint", got, err, done, all)
			if done > 0 {
				copied, err := Read(image, "/d/checkpoint.copy")
				check(t, "copy", copied, err, done, all)
			}
			must(t, s.WriteAll(&State{header(99), nil}))
			wantState(t, image, &State{Header: header(99)})
		}
	}
}
