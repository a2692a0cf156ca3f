package desk

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

// in runs a test with a cluster, and time that passes when all goroutines wait.
func in(t *testing.T, ids []int32, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ids...)
		defer w.close()
		f(t, w)
	})
}

// Every kind of request reaches coordinators on this broker and on others in the same way.
func TestARequestReachesEveryCoordinator(t *testing.T) {
	for _, ids := range [][]int32{{1}, {1, 2, 3}} {
		in(t, ids, func(t *testing.T, w *world) {
			n := w.nodes[1]
			keys := []format.Key{keyOn(0, 0), keyOn(1, 1), keyOn(2, 2), keyOn(3, 3)}
			begin(t, n, keys...)
			peeks := send(t.Context(), n.Peek, keys...).now(t)
			var opens []sharestate.Opening
			for i, p := range peeks {
				if p.Err != nil || p.ID.StateEpoch != 1 || p.Leader != -1 || !p.Started {
					t.Errorf("%+v", p)
				}
				opens = append(opens, sharestate.Opening{Key: keys[i], ID: p.ID, Recorded: -1, Leader: 7, Cut: -1,
					Epochs: sharetest.Epochs(7)})
			}
			for _, o := range send(t.Context(), n.Open, opens...).now(t) {
				if o.Err != nil || o.Stored.Start != 0 || o.Stored.Marks != nil {
					t.Errorf("%+v", o)
				}
			}
			marks := []window.Mark{{First: 3, Last: 5, State: window.Acknowledged, Count: 1}, {First: 9, Last: 9, Count: 2}}
			var writes []sharestate.Writing
			for i, o := range opens {
				writes = append(writes, sharestate.Writing{Key: keys[i], ID: o.ID, Leader: 7, Start: 2, Complete: 3, Marks: marks})
			}
			for _, err := range send(t.Context(), n.Write, writes...).now(t) {
				if err != nil {
					t.Error(err)
				}
			}
			opens[0].Recorded, opens[0].Leader, opens[0].Epochs = 7, 8, sharetest.Epochs(8)
			o := send(t.Context(), n.Open, opens[0]).now(t)[0]
			if o.Err != nil || o.Stored.Start != 2 || !slices.Equal(o.Stored.Marks, marks) {
				t.Errorf("%+v", o)
			}
			writes[0].ID.Created++
			if err := send(t.Context(), n.Write, writes[0]).now(t)[0]; err != kerr.FencedStateEpoch {
				t.Errorf("a write to another state: %v", err)
			}
			for i, s := range send(t.Context(), n.Summarize, keys...).now(t) {
				want := sharestate.Summary{StateEpoch: 1, Leader: 7, Start: 2, Complete: 3}
				if i == 0 {
					want.Leader = 8
				}
				if s != want {
					t.Errorf("%+v, want %+v", s, want)
				}
			}
			deletes := mapped(keys, func(k format.Key) sharestate.Deleting { return sharestate.Deleting{Key: k} })
			if errs := send(t.Context(), n.Delete, deletes...).now(t); !slices.Equal(errs, make([]*kerr.Error, 4)) {
				t.Error(errs)
			}
			for _, p := range send(t.Context(), n.Peek, keys...).now(t) {
				if p.Err != kerr.InvalidRequest {
					t.Errorf("after the end: %+v", p)
				}
			}
			if n.items.Load() != 0 {
				t.Errorf("%d items are counted", n.items.Load())
			}
		})
	}
}

// A request without items is answered.
func TestNothingIsAskedFor(t *testing.T) {
	in(t, []int32{1}, func(t *testing.T, w *world) {
		if a := send(t.Context(), w.nodes[1].Peek); a.now(t) == nil || a.n != 1 {
			t.Error("no answer")
		}
	})
}

// Items that come at one moment for one broker are few calls, and in them few events.
func TestItemsShareCalls(t *testing.T) {
	in(t, []int32{1, 2}, func(t *testing.T, w *world) {
		n := w.nodes[1]
		var sent atomic.Int64
		w.link = func(ctx context.Context, from, to int32, body []byte) ([]byte, error) {
			sent.Add(1)
			time.Sleep(time.Millisecond)
			return w.deliver(ctx, from, to, body)
		}
		var all []*asks[sharestate.Peeked]
		for range 500 {
			all = append(all, send(t.Context(), n.Peek, keyOn(1, 1)))
		}
		time.Sleep(time.Second)
		for _, a := range all {
			if a.now(t) == nil {
				t.Fatal("no answer")
			}
		}
		if sent := sent.Load(); sent > 2*calls || len(w.nodes[2].events) > int(sent) {
			t.Errorf("%d calls with %d events", sent, len(w.nodes[2].events))
		}
	})
}

// What no coordinator has accepted or refused is repeated until one has: it moves, it loads, it has
// no leader, the link breaks, its disk hangs.
func TestItemsAreRepeated(t *testing.T) {
	for _, ids := range [][]int32{{1}, {2, 1}} { // the coordinator is the first one
		in(t, ids, func(t *testing.T, w *world) {
			n, at := w.nodes[1], w.nodes[ids[0]]
			k := keyOn(0, 0)
			begin(t, n, k)
			at.refuse(coordinator.ErrLoading, coordinator.ErrBusy, coordinator.ErrNotCoordinator, coordinator.ErrRefused, errLink)
			a := send(t.Context(), n.Peek, k)
			if a.now(t) != nil {
				t.Error("an answer of a coordinator that refuses")
			}
			time.Sleep(10 * time.Second)
			if list := a.now(t); len(list) != 1 || list[0].Err != nil {
				t.Errorf("%+v", list)
			}
			w.lead(-1, -1, -1, -1)
			if a = send(t.Context(), n.Peek, k); a.now(t) != nil {
				t.Error("an answer without a coordinator")
			}
			w.lead(1, 1, 1, 1)
			time.Sleep(2 * time.Second)
			if list := a.now(t); len(list) != 1 || list[0].Err != nil {
				t.Errorf("after an election: %+v", list)
			}
		})
	}
}

// A lost answer, a broken link and a coordinator that hangs end in a repetition, and the write is
// stored once.
func TestALostAnswerIsRepeated(t *testing.T) {
	in(t, []int32{1, 2}, func(t *testing.T, w *world) {
		n, k := w.nodes[1], keyOn(1, 1)
		begin(t, n, k)
		id := send(t.Context(), n.Peek, k).now(t)[0].ID
		send(t.Context(), n.Open, sharestate.Opening{Key: k, ID: id, Recorded: -1, Leader: 7, Cut: -1,
			Epochs: sharetest.Epochs(7)}).now(t)
		for i, lost := range []func(){
			func() {
				w.link = func(ctx context.Context, from, to int32, body []byte) ([]byte, error) {
					_, _ = w.deliver(ctx, from, to, body)
					return nil, errLink
				}
			},
			func() { w.link = func(context.Context, int32, int32, []byte) ([]byte, error) { return nil, errLink } },
			func() {
				w.link = func(ctx context.Context, _, _ int32, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }
			},
			func() {
				w.link = func(ctx context.Context, from, to int32, body []byte) ([]byte, error) {
					answer, err := w.deliver(ctx, from, to, body)
					return answer[:len(answer)-1], err
				}
			},
			func() {
				w.nodes[2].mu.Lock()
				w.nodes[2].silent = true
				w.nodes[2].mu.Unlock()
			},
		} {
			lost()
			w.logged.TakeAll()
			a := send(t.Context(), n.Write, sharestate.Writing{Key: k, ID: id, Leader: 7, Complete: 1,
				Marks: []window.Mark{{First: 3, Last: 3, State: window.Acknowledged, Count: 1}}})
			if time.Sleep(3 * time.Second); a.now(t) != nil {
				t.Error("an answer that was lost")
			}
			w.mu.Lock()
			w.link = w.deliver
			w.mu.Unlock()
			w.nodes[2].mu.Lock()
			w.nodes[2].silent = false
			w.nodes[2].mu.Unlock()
			time.Sleep(callTime + 2*time.Second)
			// The broker answers for shards that do not.
			if said := w.logged.FilterMessage("requests of share groups to a broker fail; they are repeated"); said.Len() == 0 && i < 4 {
				t.Errorf("%d: nothing was logged", i)
			}
			if list := a.now(t); len(list) != 1 || list[0] != nil {
				t.Errorf("%v", list)
			}
		}
	})
}

// The end of its context ends a request, once, whatever comes later.
func TestTheEndOfTheContextEndsARequest(t *testing.T) {
	in(t, []int32{1, 2}, func(t *testing.T, w *world) {
		n, here, there := w.nodes[1], keyOn(0, 0), keyOn(1, 1)
		begin(t, n, here, there)
		block := make(chan struct{})
		w.link = func(ctx context.Context, from, to int32, body []byte) ([]byte, error) {
			<-block
			return w.deliver(ctx, from, to, body)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a := send(ctx, n.Peek, here, there)
		if a.now(t) != nil {
			t.Error("one item has no result")
		}
		time.Sleep(time.Second)
		if list := a.now(t); len(list) != 2 || list[0].Err != nil || list[1].Err != kerr.CoordinatorNotAvailable {
			t.Errorf("%+v", list)
		}
		close(block)
		time.Sleep(time.Second)
		if a.now(t); n.items.Load() != 0 {
			t.Errorf("%d items are counted", n.items.Load())
		}
		ended := send(ctx, n.Peek, there)
		if list := ended.now(t); len(list) != 1 {
			t.Errorf("%+v", list)
		}
	})
}

// After Close, requests are answered.
func TestRequestsEndWithTheDesk(t *testing.T) {
	in(t, []int32{1, 2}, func(t *testing.T, w *world) {
		n, k := w.nodes[1], keyOn(1, 1)
		w.link = func(ctx context.Context, _, _ int32, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }
		before := send(t.Context(), n.Peek, k)
		synctest.Wait()
		n.Close()
		after := send(t.Context(), n.Peek, k, keyOn(0, 0))
		time.Sleep(2 * time.Second)
		for _, a := range []*asks[sharestate.Peeked]{before, after} {
			for _, p := range a.now(t) {
				if p.Err != kerr.CoordinatorNotAvailable {
					t.Errorf("%+v", p)
				}
			}
			if a.n != 1 {
				t.Error("no answer")
			}
		}
	})
}

// Only Initialize creates the topic. What follows something that was answered waits for metadata
// that is behind.
func TestOnlyInitializeCreatesTheTopic(t *testing.T) {
	in(t, []int32{1}, func(t *testing.T, w *world) {
		n, k := w.nodes[1], keyOn(0, 0)
		n.setBehind(w.imageOf([]int32{1, 1, 1, 1}, orders))
		if p := send(t.Context(), n.Peek, k).now(t); p[0].Err != kerr.InvalidRequest {
			t.Errorf("%+v", p)
		}
		if s := send(t.Context(), n.Summarize, k).now(t); s[0].Err != kerr.InvalidRequest || len(n.creating) > 0 {
			t.Errorf("%+v, the topic is being created: %v", s, len(n.creating) > 0)
		}
		deleted := send(t.Context(), n.Delete, sharestate.Deleting{Key: keyOn(1, 1)})
		written := send(t.Context(), n.Write, sharestate.Writing{Key: keyOn(1, 1)})
		time.Sleep(time.Minute)
		if deleted.now(t) != nil || written.now(t) != nil || len(n.creating) > 0 {
			t.Error("answered without a topic, or it is created")
		}
		a := send(t.Context(), n.Initialize, sharestate.Initializing{Key: k, StateEpoch: 1})
		if a.now(t) != nil || len(n.creating) != 1 {
			t.Fatalf("%v, the topic is created %d times", a.list, len(n.creating))
		}
		n.creating[0](errLink)
		time.Sleep(time.Second)
		if a.now(t) != nil || len(n.creating) != 2 {
			t.Fatalf("%v, the topic is created %d times", a.list, len(n.creating))
		}
		n.setBehind(nil)
		n.creating[1](nil)
		time.Sleep(2 * time.Second)
		if list := a.now(t); len(list) != 1 || list[0] != nil {
			t.Errorf("%v", list)
		}
		d, p := deleted.now(t), written.now(t)
		if !slices.Equal(d, []*kerr.Error{nil}) || !slices.Equal(p, []*kerr.Error{kerr.InvalidRequest}) {
			t.Errorf("%v, %v", d, p)
		}
	})
}

// A group coordinator asks for the removal of a state while the share coordinator loads. Then
// another one has its group, removes the state, and begins it again. The share coordinator refuses
// what the former one repeats, and the state is that of the present one.
func TestWhatAFormerGroupCoordinatorRepeatsIsRefused(t *testing.T) {
	for _, owner := range []int32{1, 2, 3} { // the coordinators of the group are on brokers 1 and 2
		in(t, []int32{1, 2, 3}, func(t *testing.T, w *world) {
			k := keyOn(0, owner-1)
			at := w.nodes[owner]
			begin(t, w.nodes[1], k)
			at.refuse(coordinator.ErrLoading)
			late := send(t.Context(), w.nodes[1].Delete, sharestate.Deleting{Key: k})
			at.refuse(coordinator.ErrLoading)
			altered := send(t.Context(), w.nodes[1].Initialize, sharestate.Initializing{Key: k, StateEpoch: 9, Start: 50})
			if late.now(t) != nil || altered.now(t) != nil {
				t.Fatalf("%v, %v", late.list, altered.list)
			}
			w.mu.Lock()
			w.coordinators = 1
			w.mu.Unlock()
			deleted := send(t.Context(), w.nodes[2].Delete, sharestate.Deleting{Key: k, Coordinator: 1}).now(t)
			again := sharestate.Initializing{Key: k, StateEpoch: 2, Start: 7, Coordinator: 1}
			begun := send(t.Context(), w.nodes[2].Initialize, again).now(t)
			if !slices.Equal(deleted, []*kerr.Error{nil}) || !slices.Equal(begun, []*kerr.Error{nil}) {
				t.Fatalf("%v, %v", deleted, begun)
			}
			time.Sleep(time.Second)
			want := []*kerr.Error{kerr.FencedLeaderEpoch}
			if !slices.Equal(late.now(t), want) || !slices.Equal(altered.now(t), want) {
				t.Errorf("%v, %v", late.list, altered.list)
			}
			if s := send(t.Context(), w.nodes[2].Summarize, k).now(t)[0]; s.Err != nil || s.StateEpoch != 2 || s.Start != 7 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Metadata that do not show the leader epoch of a group coordinator are behind: until they do, what
// it asks for waits.
func TestAGroupCoordinatorWaitsForTheMetadata(t *testing.T) {
	in(t, []int32{1, 2}, func(t *testing.T, w *world) {
		k := keyOn(0, 1)
		a := send(t.Context(), w.nodes[1].Initialize, sharestate.Initializing{Key: k, StateEpoch: 1, Coordinator: 1})
		time.Sleep(time.Minute)
		if a.now(t) != nil {
			t.Fatalf("%v", a.list)
		}
		w.mu.Lock()
		w.coordinators = 1
		w.mu.Unlock()
		time.Sleep(2 * time.Second)
		if list := a.now(t); !slices.Equal(list, []*kerr.Error{nil}) {
			t.Errorf("%v", list)
		}
	})
}

// A broker that knows only the former version of calls gets what that has. A call that it refuses
// for another reason is not made weaker.
func TestAnOlderBrokerGetsTheFormerVersion(t *testing.T) {
	in(t, []int32{1, 2}, func(t *testing.T, w *world) {
		k := keyOn(0, 1)
		var versions []byte
		other := 1
		w.link = func(ctx context.Context, from, to int32, body []byte) ([]byte, error) {
			if from == 2 { // a notification
				return w.deliver(ctx, from, to, body)
			}
			versions = append(versions, body[0])
			switch {
			case body[0] > formerVersion && other > 0:
				other--
				return nil, errLink
			case body[0] > formerVersion: // as a broker of version 2 says it
				return nil, fmt.Errorf("%w: version %d, this broker knows 2; upgrade the older broker", errWire, body[0])
			}
			return w.deliver(ctx, from, to, body)
		}
		a := send(t.Context(), w.nodes[1].Initialize, sharestate.Initializing{Key: k, StateEpoch: 1})
		time.Sleep(time.Second)
		if list := a.now(t); !slices.Equal(list, []*kerr.Error{nil}) {
			t.Errorf("%v", list)
		}
		if want := []byte{3, 3, 2}; !slices.Equal(versions, want) {
			t.Errorf("calls of the versions %v, want %v", versions, want)
		}
		versions = nil
		if p := send(t.Context(), w.nodes[1].Peek, k).now(t)[0]; p.Err != nil || !slices.Equal(versions, []byte{2}) {
			t.Errorf("%+v, calls of the versions %v", p, versions)
		}
	})
}

// The leader of the data partition is notified, on whatever broker, of changes that are not its
// own.
func TestLeadersAreNotified(t *testing.T) {
	in(t, []int32{1, 2, 3}, func(t *testing.T, w *world) {
		k := keyOn(2, 1) // broker 3 leads it, broker 2 has the state
		begin(t, w.nodes[1], k)
		id := send(t.Context(), w.nodes[3].Peek, k).now(t)[0].ID
		send(t.Context(), w.nodes[3].Open, sharestate.Opening{Key: k, ID: id, Recorded: -1, Leader: 7, Cut: -1,
			Epochs: sharetest.Epochs(7)}).now(t)
		send(t.Context(), w.nodes[3].Write, sharestate.Writing{Key: k, ID: id, Leader: 7,
			Marks: []window.Mark{{First: 5, Last: 6, State: window.Acknowledged, Count: 1}}}).now(t)
		send(t.Context(), w.nodes[3].Open, sharestate.Opening{Key: k, ID: id, Recorded: 7, Leader: 8, Cut: 6,
			Epochs: sharetest.Epochs(8)}).now(t)
		send(t.Context(), w.nodes[1].Delete, sharestate.Deleting{Key: k}).now(t)
		synctest.Wait()
		want := []sharestate.Changed{{Key: k, ID: id, Leader: -1}, {Key: k, ID: id, Leader: 8}, {Key: k, Leader: -1}}
		if got := w.nodes[3].changed; !slices.Equal(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
		here := keyOn(1, 1) // of broker 2 itself
		begin(t, w.nodes[1], here)
		if got := w.nodes[2].changed; len(got) != 1 || got[0].Key != here {
			t.Errorf("%+v", got)
		}
		w.nodes[1].Notify(sharestate.Changed{Key: format.Key{Group: "g", Topic: [16]byte{9}}}) // there is no such topic
		w.nodes[1].Notify(sharestate.Changed{Key: format.Key{Group: "g", Topic: idOf(orders), Partition: 9}})
		if synctest.Wait(); len(w.nodes[1].changed) > 0 {
			t.Errorf("%+v", w.nodes[1].changed)
		}
	})
}

// What is under way has a bound.
func TestItemsHaveABound(t *testing.T) {
	in(t, []int32{1}, func(t *testing.T, w *world) {
		n := w.nodes[1]
		n.silent = true
		n.items.Store(maxItems - 2)
		if send(t.Context(), n.Peek, keyOn(0, 0), keyOn(1, 0)).now(t) != nil {
			t.Error("an answer")
		}
		if list := send(t.Context(), n.Peek, keyOn(0, 0)).now(t); len(list) != 1 || list[0].Err != kerr.CoordinatorNotAvailable {
			t.Errorf("%+v", list)
		}
		if got := n.items.Load(); got != maxItems {
			t.Errorf("%d items are counted, want %d", got, maxItems)
		}
	})
}

// Clients choose how many states begin, and how many are described. While these wait, leaders reach
// the coordinators.
func TestItemsOfClientsLeaveRoomForLeaders(t *testing.T) {
	in(t, []int32{1}, func(t *testing.T, w *world) {
		n := w.nodes[1]
		n.silent = true
		begins := make([]sharestate.Initializing, maxBegins+1)
		for i := range begins {
			begins[i].Key = keyOn(0, int32(i%partitions))
		}
		if list := send(t.Context(), n.Initialize, begins...).now(t); len(list) != maxBegins+1 || list[0] != kerr.CoordinatorNotAvailable {
			t.Errorf("%d results", len(list))
		}
		if send(t.Context(), n.Initialize, begins[1:]...).now(t) != nil {
			t.Error("an answer")
		}
		described := make([]format.Key, maxOthers-maxBegins+1)
		if list := send(t.Context(), n.Summarize, described...).now(t); len(list) == 0 || list[0].Err != kerr.CoordinatorNotAvailable {
			t.Errorf("%d results", len(list))
		}
		if send(t.Context(), n.Summarize, described[1:]...).now(t) != nil || send(t.Context(), n.Peek, keyOn(0, 0)).now(t) != nil {
			t.Error("an answer")
		}
		if n.items.Load() != maxOthers+1 || n.others.Load() != maxOthers || n.begins.Load() != maxBegins {
			t.Errorf("%d, %d and %d items", n.items.Load(), n.others.Load(), n.begins.Load())
		}
	})
}

// A state for which its coordinator has no memory does not wait in the desk until there is some.
func TestAStateWithoutMemoryIsRefusedSoon(t *testing.T) {
	in(t, []int32{1}, func(t *testing.T, w *world) {
		n := w.nodes[1]
		w.shards[0] = sharestate.New(sharestate.Config{SnapshotUpdates: 3, Memory: coordinator.NewMemoryBudget(1)})
		w.shards[0].Handle(time.Now(), 0, sharestate.TopicsChanged{Topics: w}, &coordinator.Effects{})
		asked := send(t.Context(), n.Initialize, sharestate.Initializing{Key: keyOn(0, 0), StateEpoch: 1, Start: -1})
		time.Sleep(5 * time.Second)
		list := asked.now(t)
		if len(list) != 1 || list[0] != kerr.CoordinatorLoadInProgress || n.items.Load() != 0 || n.begins.Load() != 0 {
			t.Errorf("%v, %d items", list, n.items.Load())
		}
	})
}

// States that do not fit into one answer come in several.
func TestLargeStatesComeInSeveralAnswers(t *testing.T) {
	in(t, []int32{1, 2}, func(t *testing.T, w *world) {
		marks := make([]window.Mark, sharestate.MaxMarks)
		for i := range marks {
			marks[i] = window.Mark{First: int64(i) * 2, Last: int64(i) * 2, State: window.Acknowledged, Count: 1}
		}
		items := make([]request, 5)
		results := make([]response, 5)
		for i := range items {
			items[i], results[i] = request{op: opOpen}, response{marks: marks}
		}
		body := encodeAnswer(items, results)
		list, err := decodeAnswer(body, []*request{&items[0], &items[1], &items[2], &items[3], &items[4]})
		if err != nil || len(body) > 2*answerBytes {
			t.Fatalf("%d bytes, %v", len(body), err)
		}
		whole := 0
		for _, r := range list {
			if r.err == nil {
				whole++
			} else if !temporary(r.err) {
				t.Error(r.err)
			}
		}
		if whole == 0 || whole == 5 || !slices.Equal(list[0].marks, marks) {
			t.Error(fmt.Sprint(whole, " states are in the answer"))
		}
	})
}

// The leader of the data partition is asked, on whatever broker, also if there are no states yet.
func TestLeadersAreInspected(t *testing.T) {
	in(t, []int32{1, 2, 3}, func(t *testing.T, w *world) {
		for self, n := range w.nodes {
			n.WatchLeader(func(k format.Key) sharestate.Led {
				if leader, _ := n.leaderOf(k); leader != self {
					return sharestate.Led{Err: kerr.NotLeaderForPartition}
				}
				return sharestate.Led{High: int64(100*self + k.Partition), Loaded: self == 2}
			})
		}
		w.nodes[1].setBehind(w.imageOf([]int32{1, 2, 3, 1}, orders))
		a, b := keyOn(1, 0), keyOn(2, 1)
		none := format.Key{Group: "g", Topic: [16]byte{9}}
		got := send(t.Context(), w.nodes[1].Inspect, a, b, keyOn(0, 2), none).now(t)
		want := []sharestate.Led{{High: 201, Loaded: true}, {High: 302}, {High: 100}, {Err: kerr.UnknownTopicOrPartition}}
		if !slices.Equal(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
		w.nodes[1].setBehind(w.imageOf([]int32{1, 3, 2, 1}, orders)) // a broker that does not lead is asked again
		late := send(t.Context(), w.nodes[1].Inspect, a)
		time.Sleep(500 * time.Millisecond)
		w.nodes[1].setBehind(nil)
		time.Sleep(time.Minute) // longer than any pause between two attempts
		if got := late.now(t); got[0] != want[0] {
			t.Errorf("%+v", got)
		}
	})
}

// An operator's request gets to the leader on whatever broker. A change that a leader may have got
// is not repeated, and one that no leader has carried out is.
func TestOperatorsReachLeaders(t *testing.T) {
	in(t, []int32{1, 2, 3}, func(t *testing.T, w *world) {
		var mu sync.Mutex
		asked := map[string]int{}
		silent := false
		for self, n := range w.nodes {
			n.WatchOperator(func(x sharestate.Operating, changes bool, done func(sharestate.Operated)) {
				mu.Lock()
				asked[fmt.Sprint(string(x.Body), changes)]++
				silent := silent
				mu.Unlock()
				switch leader, _ := n.leaderOf(x.Key); {
				case leader != self:
					done(sharestate.Operated{Err: kerr.NotLeaderForPartition})
				case !silent:
					done(sharestate.Operated{Body: fmt.Appendf(nil, "%s at %d", x.Body, self)})
				}
			})
		}
		item := sharestate.Operating{Key: keyOn(1, 0), Body: []byte("x")}
		for self, n := range w.nodes {
			if got := send(t.Context(), n.InspectRecords, item).now(t); got[0].Err != nil || string(got[0].Body) != "x at 2" {
				t.Errorf("an inspection at broker %d: %+v", self, got)
			}
			if got := send(t.Context(), n.Operate, item).now(t); got[0].Err != nil || string(got[0].Body) != "x at 2" {
				t.Errorf("a change at broker %d: %+v", self, got)
			}
		}
		w.nodes[1].setBehind(w.imageOf([]int32{1, 3, 2, 1}, orders))
		late := send(t.Context(), w.nodes[1].Operate, item)
		time.Sleep(100 * time.Millisecond)
		w.nodes[1].setBehind(nil)
		time.Sleep(2 * time.Second)
		if got := late.now(t); got[0].Err != nil {
			t.Errorf("a change with old metadata: %+v", got)
		}
		mu.Lock()
		silent = true
		clear(asked)
		mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		seen, change := send(ctx, w.nodes[1].InspectRecords, item), send(ctx, w.nodes[1].Operate, item)
		time.Sleep(9 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if got := change.now(t); got[0].Err != kerr.RequestTimedOut || asked["xtrue"] != 1 {
			t.Errorf("a change without an answer, asked for %d times: %+v", asked["xtrue"], got)
		}
		if got := seen.now(t); got[0].Err != kerr.CoordinatorNotAvailable || asked["xfalse"] < 2 {
			t.Errorf("an inspection without an answer, asked for %d times: %+v", asked["xfalse"], got)
		}
	})
}
