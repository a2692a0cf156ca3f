package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
)

// fakeStates keeps requests until a test ends them.
type fakeStates struct {
	ShareStates // groups ask for nothing else

	log    []string
	done   []func()
	atOnce bool
}

func (f *fakeStates) add(ctx context.Context, what string, n int, done func([]*kerr.Error)) {
	f.log = append(f.log, what)
	end := func() { done(make([]*kerr.Error, n)) }
	if f.atOnce {
		end()
		return
	}
	ended := false
	f.done = append(f.done, func() {
		if !ended {
			ended = true
			end()
		}
	})
	context.AfterFunc(ctx, func() {
		if !ended {
			ended = true
			done(slices.Repeat([]*kerr.Error{kerr.CoordinatorNotAvailable}, n))
		}
	})
}

func (f *fakeStates) Initialize(ctx context.Context, items []sharestate.Initializing, done func([]*kerr.Error)) {
	what := fmt.Sprint("initialize ", items[0].Key.Group, " ", items[0].StateEpoch, " ", items[0].Start)
	for _, x := range items {
		what += fmt.Sprint(" ", x.Key.Topic[0], "/", x.Key.Partition)
	}
	f.add(ctx, what, len(items), done)
}

func (f *fakeStates) Delete(ctx context.Context, keys []format.Key, done func([]*kerr.Error)) {
	what := "delete " + keys[0].Group
	for _, k := range keys {
		what += fmt.Sprint(" ", k.Topic[0], "/", k.Partition)
	}
	f.add(ctx, what, len(keys), done)
}

// asker sends the requests of group coordinators.
type asker struct {
	*shareRequests
	*fakeStates
	results []string
}

func newAsker() *asker {
	f := &fakeStates{}
	return &asker{shareRequests: newShareRequests(f), fakeStates: f}
}

func (a *asker) ask(name string, request any) {
	a.send(0, 1, request, nil, func(result any) {
		var errs []*kerr.Error
		switch r := result.(type) {
		case group.SharesInitialized:
			errs = r.Errs
		case group.SharesDeleted:
			errs = r.Errs
		}
		for _, err := range errs {
			if err != nil {
				name += " " + err.Message
			}
		}
		a.results = append(a.results, name)
	})
}

func initializing(id string, partitions ...int32) group.InitializeShares {
	e := group.InitializeShares{Group: id, StateEpoch: 7}
	for _, p := range partitions {
		e.Partitions = append(e.Partitions, group.SharePartition{Topic: [16]byte{1}, Partition: p})
	}
	return e
}

func (a *asker) want(t *testing.T, log, results string) {
	t.Helper()
	if got := strings.Join(a.log, "; "); got != log {
		t.Errorf("asked: %s, want %s", got, log)
	}
	if got := strings.Join(a.results, "; "); got != results {
		t.Errorf("results: %s, want %s", got, results)
	}
}

// The requests of a group follow each other; those of another one do not wait for them.
func TestShareRequestsOfAGroupFollowEachOther(t *testing.T) {
	a := newAsker()
	defer a.stop()
	a.ask("first", initializing("g", 0, 1))
	a.ask("second", group.DeleteShares{Group: "g", Partitions: initializing("g", 2).Partitions})
	a.ask("third", initializing("g", 3))
	a.ask("other", initializing("h", 0))
	a.want(t, "initialize g 7 -1 1/0 1/1; initialize h 7 -1 1/0", "")
	a.done[0]()
	a.want(t, "initialize g 7 -1 1/0 1/1; initialize h 7 -1 1/0; delete g 1/2", "first")
	a.done[2]()
	a.done[3]()
	a.want(t, "initialize g 7 -1 1/0 1/1; initialize h 7 -1 1/0; delete g 1/2; initialize g 7 -1 1/3", "first; second; third")
	a.ask("last", initializing("g", 0))
	a.done[4]()
	if len(a.results) != 4 || len(a.out) != 1 {
		t.Errorf("results %v, groups with requests: %v", a.results, a.out)
	}
}

// What a former machine has sent and did not begin is dropped: its successor has sent it, too.
func TestShareRequestsOfAFormerMachineAreDropped(t *testing.T) {
	a := newAsker()
	defer a.stop()
	a.ask("first", initializing("g", 0))
	a.ask("second", initializing("g", 1, 2))
	a.ask("third", initializing("g", 3))
	for range 100 { // reloads
		a.ask("again", initializing("g", 0, 1))
	}
	if n := len(a.out["g"]); n != 2 {
		t.Errorf("%d requests wait", n)
	}
	a.done[0]()
	a.done[1]()
	a.done[2]()
	if want := "initialize g 7 -1 1/0; initialize g 7 -1 1/3; initialize g 7 -1 1/0 1/1"; strings.Join(a.log, "; ") != want {
		t.Errorf("asked: %v", a.log)
	}
	if len(a.results) != 103 {
		t.Errorf("%d results of 103", len(a.results))
	}
}

func TestShareRequestsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker()
		a.ask("late", initializing("g", 0))
		time.Sleep(shareTimeout)
		synctest.Wait()
		a.want(t, "initialize g 7 -1 1/0", "late COORDINATOR_NOT_AVAILABLE")
		a.ask("stopped", initializing("g", 0))
		a.stop()
		synctest.Wait()
		if len(a.results) != 2 || a.results[1] != "stopped COORDINATOR_NOT_AVAILABLE" {
			t.Errorf("results: %v", a.results)
		}
	})
	a := newAsker()
	defer a.stop()
	a.atOnce = true
	a.ask("now", initializing("g", 0))
	a.want(t, "initialize g 7 -1 1/0", "now")
	none := &asker{shareRequests: newShareRequests(nil), fakeStates: &fakeStates{}}
	defer none.stop()
	none.ask("none", initializing("g", 0, 1))
	none.want(t, "", "none COORDINATOR_NOT_AVAILABLE COORDINATOR_NOT_AVAILABLE")
}
