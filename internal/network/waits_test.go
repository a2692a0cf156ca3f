package network

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/view"
)

// waitsAt returns the row with a step, once there is one.
func (f *fixture) waitsAt(t testing.TB, step view.Step) (w view.Wait) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(time.Millisecond) {
		for _, w := range f.Waits(view.MaxWaits).List {
			if w.Steps[0].Step == step {
				return w
			}
		}
	}
	t.Fatalf("no request waits at %s", step)
	return w
}

// A request without a Waiter is with its handler; one with a Waiter says where it is.
func TestRequestsSayWhereTheyWait(t *testing.T) {
	parked := make(chan *Request, 1)
	f := start(t, func(r *Request) { parked <- r }, nil)
	defer f.end(t)
	w := dial(t, f.tcp(t))
	defer w.Close()
	w.send(t, named(frame(keyMetadata, 3, 1, nil)))
	r := <-parked
	if got := f.waitsAt(t, view.StepHandler); got.Request != "Metadata" || got.ClientID != "orders" || got.Principal != Anonymous ||
		got.Address != w.LocalAddr().String() || got.Listener != "test" || got.Version != 3 {
		t.Errorf("%+v", got)
	}
	at := &Waiter{Idle: true, Named: true, Steps: func(about string, list []view.WaitStep) []view.WaitStep {
		for range view.MaxWaitSteps + 3 {
			list = append(list, view.WaitStep{Step: view.StepGroup, For: about})
		}
		return list
	}}
	r.WaitsAt(at, "billing")
	got := f.waitsAt(t, view.StepGroup)
	if !got.Idle || got.Steps[0].For != "billing" || len(got.Steps) != view.MaxWaitSteps || got.More != 3 {
		t.Errorf("%+v", got)
	}
	r.WaitsAt(nil, "")
	f.waitsAt(t, view.StepHandler)
	echo(r)
	w.want(t, 1)
	// The writer notes that an answer is written after the client may have read it.
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		all := f.Waits(9)
		if all.Waiting == 0 && len(all.List) == 0 && all.List != nil {
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("%+v", all)
		}
	}
}

// The list is bounded, and has the oldest.
func TestWaitsListsTheOldest(t *testing.T) {
	const all = 50
	parked := make(chan *Request, all)
	f := start(t, func(r *Request) { parked <- r }, nil)
	defer f.end(t)
	addr := f.tcp(t)
	var list []*Request
	for i := range int32(all) {
		w := dial(t, addr)
		t.Cleanup(func() { _ = w.Close() })
		p := frame(keyMetadata, 3, i, nil)
		if i == 0 {
			p = named(p)
		}
		w.send(t, p)
		list = append(list, <-parked)
	}
	if got := f.Waits(0); len(got.List) != 0 || got.Waiting != all {
		t.Errorf("%+v", got)
	}
	for most := 1; most < all; most += 7 {
		got := f.Waits(most)
		if len(got.List) != most || got.Waiting != all || got.List[0].ClientID != "orders" {
			t.Fatalf("%d of %d: %+v", len(got.List), most, got.List[0])
		}
		if !slices.IsSortedFunc(got.List, func(a, b view.Wait) int { return int(1000 * (b.AgeMs - a.AgeMs)) }) {
			t.Errorf("not in order: %+v", got.List)
		}
	}
	for _, r := range list {
		echo(r)
	}
}

// A connection that is not read is shown with the reason.
func TestConnectionsThatAreNotReadSayWhy(t *testing.T) {
	parked := make(chan *Request, 10)
	f := start(t, func(r *Request) { parked <- r }, func(o *Options) { o.ProduceBytes = 1000 })
	defer f.end(t)
	addr := f.tcp(t)
	first, second := dial(t, addr), dial(t, addr)
	defer first.Close()
	defer second.Close()
	first.send(t, frame(protocol.KeyProduce, 3, 1, make([]byte, 900)))
	r := <-parked
	second.send(t, frame(protocol.KeyProduce, 3, 2, make([]byte, 900)))
	if got := f.waitsAt(t, view.StepMemory); got.Request != "" || !strings.Contains(got.Steps[0].For, "produce") {
		t.Errorf("%+v", got)
	}
	r.conn.mute(time.Now().Add(time.Hour))
	if got := f.waitsAt(t, view.StepThrottle); got.Connection != r.Connection || !strings.Contains(got.Steps[0].For, "quota") {
		t.Errorf("%+v", got)
	}
	r.conn.muteUntil.Store(0)
	echo(r)
	first.want(t, 1)
	echo(<-parked)
	second.want(t, 2)
	for begun := time.Now(); len(f.Waits(9).List) > 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("still waits: %+v", f.Waits(9))
		}
	}
}

// A trace has the steps of one request, and no others.
func TestATraceHasTheStepsOfARequest(t *testing.T) {
	parked := make(chan *Request, 2)
	f := start(t, func(r *Request) { parked <- r }, nil)
	defer f.end(t)
	addr := f.tcp(t)
	w, other := dial(t, addr), dial(t, addr)
	defer w.Close()
	defer other.Close()
	other.send(t, frame(keyMetadata, 3, 1, nil))
	r := <-parked
	defer echo(r)
	w.send(t, named(frame(keyMetadata, 3, 1, nil)))
	r = <-parked
	trace := newFollower(f.Server, "orders")
	for i, step := range []view.Step{view.StepPlace, view.StepPlace, view.StepDisk} {
		r.WaitsAt(At(view.WaitStep{Step: step, For: strings.Repeat("x", i)}), "")
		if ended := trace.ended(trace.inspect(time.Now())); len(ended) != 0 {
			t.Fatalf("ended at %s: %+v", step, ended)
		}
	}
	echo(r)
	w.want(t, 1)
	ended := trace.ended(trace.inspect(time.Now()))
	if len(ended) != 1 || len(trace.of) != 0 {
		t.Fatalf("%+v, still %+v", ended, trace.of)
	}
	for _, got := range ended {
		if len(got.Seen) != 2 || got.Seen[0].Steps[0].Step != view.StepPlace || got.Seen[1].Steps[0].Step != view.StepDisk ||
			got.Seen[0].AtMs > got.Seen[1].AtMs || got.Request != "Metadata" || got.ClientID != "orders" {
			t.Errorf("%+v", got)
		}
	}
}

// Trace returns the first request that takes long enough, and counts the others.
func TestATraceSkipsFastRequests(t *testing.T) {
	parked := make(chan *Request, 1)
	f := start(t, func(r *Request) { parked <- r }, nil)
	defer f.end(t)
	w := dial(t, f.tcp(t))
	defer w.Close()
	ended := make(chan view.Trace)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		got, _ := f.Trace(ctx, "orders", time.Second)
		ended <- got
	}()
	for i := int32(0); ; i++ {
		w.send(t, named(frame(keyMetadata, 3, i, nil)))
		r := <-parked
		r.conn.mu.Lock()
		r.Received = r.Received.Add(-time.Duration(i%20) * 100 * time.Millisecond) // as if it had waited
		r.conn.mu.Unlock()
		select {
		case got := <-ended:
			if got.TookMs < 1000 || got.Request != "Metadata" {
				t.Errorf("%+v", got)
			}
			echo(r)
			w.want(t, i)
			return
		case <-time.After(time.Millisecond):
		}
		echo(r)
		w.want(t, i)
	}
}

// What a client chose is cut.
func TestCutBoundsTexts(t *testing.T) {
	for _, s := range []string{"", "shop", strings.Repeat("é", view.MaxWaitText/2), strings.Repeat("é", 5000),
		strings.Repeat("\xff", 5000)} {
		got, long := view.Cut(s), len(s) > view.MaxWaitText
		if len(got) > view.MaxWaitText || !long && got != s || long && !strings.HasSuffix(got, "…") {
			t.Errorf("%q", got)
		}
	}
}

// The list may still ask where a request waited, as for a place, while the request gets its name.
func TestANameIsReadOnlyByWaitersThatUseIt(t *testing.T) {
	c, r := &conn{}, &Request{}
	r.WaitsAt(At(view.WaitStep{Step: view.StepPlace}), "")
	asked := make(chan []view.WaitStep)
	go func() { asked <- c.steps(r, time.Now()) }()
	r.about = "g" // as WaitsAt does before it stores the next one; the race detector sees a read
	if list := <-asked; len(list) != 1 || list[0].Step != view.StepPlace {
		t.Errorf("%+v", list)
	}
}
