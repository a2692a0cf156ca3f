package checkpoint

import (
	"errors"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A whole state that is written while changes are appended may have logs as they were later than it
// began, or not: each change since then counts after it, with its own producers.
func TestChangesCountAfterAWholeStateThatBeganBefore(t *testing.T) {
	fsys := errfs.New(vfs.Memory())
	one, two := full(1), full(2)
	s := begun(t, fsys, one, two)
	w, err := s.Begin(header(1))
	must(t, err)
	if s.Knows(one.ID) || s.NeedsAll() {
		t.Error("a change may refer to producers that a later state replaces")
	}
	if err := s.Append(&Change{Header: header(2), Logs: []Update{{Log: &one, SameProducers: true}}}); !errors.Is(err, errPartial) {
		t.Errorf("a change without its producers: %v", err)
	}
	must(t, s.Append(&Change{Header: header(2), Logs: []Update{{Log: &one}}}))
	later, third := one, full(3)
	later.Producers, later.Offset = []byte("of later records"), one.Offset+50
	must(t, s.Append(&Change{Header: header(3), Logs: []Update{{Log: &third}}}))
	must(t, w.Write(each([]Log{later, two})))
	wantState(t, fsys, &State{header(3), []Log{one, two, third}})
	must(t, s.Finish(w, nil))
	wantState(t, fsys, &State{header(3), []Log{one, two, third}})
	must(t, s.Append(&Change{Header: header(4), Logs: []Update{{Log: &one, SameProducers: true}}}))
	wantState(t, fsys, &State{header(4), []Log{one, two, third}})

	for _, op := range []errfs.Op{errfs.Write, errfs.Rename} { // of the state, while changes are appended
		w, err = s.Begin(header(4))
		must(t, err)
		fsys.Add(errfs.Rule{Ops: op, Path: "*.snapshot*", Count: 1, Err: syscall.EIO})
		if err := s.Finish(w, w.Write(each([]Log{one}))); !errors.Is(err, syscall.EIO) || s.NeedsAll() {
			t.Errorf("%v fails: %v", op, err)
		}
		must(t, s.Append(&Change{Header: header(5), Logs: []Update{{Log: &two}}}))
		wantState(t, fsys, &State{header(5), []Log{one, two, third}})
	}
}
