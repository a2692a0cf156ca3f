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
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/metadata"
)

// fakeStates keeps requests until a test ends them.
type fakeStates struct {
	ShareStates // groups ask for nothing else

	log    []string
	done   []func()
	atOnce bool
	codes  []*kerr.Error // the results, nil for success of all
}

func (f *fakeStates) add(ctx context.Context, what string, n int, done func([]*kerr.Error)) {
	f.log = append(f.log, what)
	end := func() { done(append(slices.Clone(f.codes), make([]*kerr.Error, n-len(f.codes))...)) }
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

func (f *fakeStates) Delete(ctx context.Context, items []sharestate.Deleting, done func([]*kerr.Error)) {
	what := "delete " + items[0].Key.Group
	for _, x := range items {
		what += fmt.Sprint(" ", x.Key.Topic[0], "/", x.Key.Partition)
	}
	f.add(ctx, what, len(items), done)
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

// What cannot be begun is said when it fails again, and not with each try.
func TestStatesThatCannotBeBegunAreSaid(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	a := newAsker()
	a.failures.log, a.failures.image = zap.New(core), func() *metadata.Image { return image(t, 1, map[string]int32{"a": 1}) }
	id := image(t, 1, map[string]int32{"a": 1}).Topic("a").ID
	said := func() (list []string) {
		for _, e := range logged.TakeAll() {
			m := e.ContextMap()
			list = append(list, fmt.Sprintf("%s: %s; %v %v %v %v", e.Level, e.Message, m["group"], m["topic"], m["partitions"], m["code"]))
		}
		return list
	}
	ask := func(codes ...*kerr.Error) []string {
		e := group.InitializeShares{Group: "g", StateEpoch: 7}
		for i := range codes {
			e.Partitions = append(e.Partitions, group.SharePartition{Topic: id, Partition: int32(i)})
		}
		a.results, a.codes = nil, codes
		a.ask("", e)
		return said()
	}
	a.atOnce = true
	full, gone := kerr.CoordinatorLoadInProgress, kerr.UnknownTopicOrPartition
	if got := slices.Concat(ask(gone), ask(nil), ask(gone), ask(nil), ask(full, nil, full)); got != nil {
		t.Errorf("single failures are said: %q", got)
	}
	want := []string{"warn: states of a share group cannot be begun, trying again; g a [0 2] COORDINATOR_LOAD_IN_PROGRESS"}
	if got := ask(full, nil, full); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	ask(full)
	var more []string
	for range 100 {
		more = append(more, ask(full)...)
	}
	if len(more) > 6 {
		t.Errorf("%d lines of 100 tries", len(more))
	}
	ask(nil)
	ask(kerr.FencedLeaderEpoch)
	if got := ask(kerr.FencedLeaderEpoch); got != nil {
		t.Errorf("a former coordinator says %q", got)
	}
	a.stop()
	if got := slices.Concat(ask(full), ask(full)); got != nil {
		t.Errorf("a coordinator that stops says %q", got)
	}
}

// A former coordinator of a group still has requests on their way when the next one removes the
// states and begins them again. The share coordinator is real, and each coordinator has a queue of
// its own to it.
func TestLateRequestsOfAFormerCoordinatorChangeNothing(t *testing.T) {
	first := initializing("g", 0)
	deletion := group.DeleteShares{Group: "g", Partitions: first.Partitions}
	altered, added := first, first
	altered.StateEpoch, altered.Starts = 9, []int64{500}
	added.Added = true
	for what, late := range map[string]any{"delete": deletion, "initialize": first, "added": added, "alter": altered} {
		t.Run(what, func(t *testing.T) {
			exists := &known{epoch: 1}
			shard := sharestate.New(sharestate.Config{SnapshotUpdates: 3, Memory: coordinator.NewMemoryBudget(1 << 20)})
			shard.Handle(time.Now(), 0, sharestate.TopicsChanged{Topics: exists}, &coordinator.Effects{})
			queue := func(epoch int32) *delayed {
				d := &delayed{shard: shard, epoch: epoch}
				d.requests = newShareRequests(d)
				t.Cleanup(d.requests.stop)
				return d
			}
			former, next := queue(1), queue(2)
			former.ask(first)
			former.arrive(t, "[<nil>]")
			former.ask(late)
			exists.epoch = 2
			next.ask(deletion)
			next.arrive(t, "[<nil>]")
			before := summary(shard)
			if before.Err != kerr.InvalidRequest {
				t.Fatalf("after the deletion: %+v", before)
			}
			again := *former // what is on the wire may arrive twice
			former.arrive(t, "["+kerr.NotCoordinator.Error()+"]")
			if got := summary(shard); got != before {
				t.Errorf("a late request makes a state: %+v", got)
			}
			begun := first
			begun.StateEpoch = 8
			next.ask(begun)
			next.arrive(t, "[<nil>]")
			before = summary(shard)
			again.carryOut()
			if got := summary(shard); got != before || got.StateEpoch != 8 {
				t.Errorf("a late request makes %+v of %+v", got, before)
			}
		})
	}
}

// known is a cluster with one partition, and group coordinators with a leader epoch.
type known struct{ epoch int32 }

func (k *known) LeaderEpoch([16]byte, int32) int32 { return 0 }
func (k *known) GroupEpoch(string) int32           { return k.epoch }

func summary(shard *sharestate.Shard) sharestate.Summary {
	var out coordinator.Effects
	shard.Handle(time.Now(), 1, sharestate.Summarize{{Group: "g", Topic: [16]byte{1}}}, &out)
	return out.Replies[0].Response.([]sharestate.Summary)[0]
}

// delayed is a group coordinator whose requests wait until a test lets them arrive.
type delayed struct {
	ShareStates // groups ask for nothing else

	requests *shareRequests
	shard    *sharestate.Shard
	epoch    int32
	event    any // on its way
	done     func([]*kerr.Error)
	result   string
}

func (d *delayed) Initialize(_ context.Context, items []sharestate.Initializing, done func([]*kerr.Error)) {
	d.event, d.done = sharestate.Initialize(items), done
}

func (d *delayed) Delete(_ context.Context, items []sharestate.Deleting, done func([]*kerr.Error)) {
	d.event, d.done = sharestate.Delete(items), done
}

func (d *delayed) ask(request any) {
	d.requests.send(0, d.epoch, request, nil, func(result any) {
		switch r := result.(type) {
		case group.SharesInitialized:
			d.result = fmt.Sprint(r.Errs)
		case group.SharesDeleted:
			d.result = fmt.Sprint(r.Errs)
		}
	})
}

func (d *delayed) carryOut() []*kerr.Error {
	var out coordinator.Effects
	d.shard.Handle(time.Now(), 1, d.event, &out)
	return out.Replies[0].Response.([]*kerr.Error)
}

// arrive carries out what is on its way, and checks the result that the machine gets.
func (d *delayed) arrive(t *testing.T, want string) {
	t.Helper()
	d.done(d.carryOut())
	if d.result != want {
		t.Errorf("%+v: %s, want %s", d.event, d.result, want)
	}
}
