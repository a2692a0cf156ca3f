package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/groupcommit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDisk = errors.New("disk removed")

// fakeLog is a log whose appends end when the test decides.
type fakeLog struct {
	mu      sync.Mutex
	batches [][]Record
	epochs  []int32
	waiting []func(error) // unfinished appends
	held    bool          // appends wait for end; otherwise they end at once
	fail    error         // error of appends
	shut    error         // what Ready returns
	load    error         // error of loads
	loads   int
	gate    chan struct{} // if set, loads wait for it
}

func (l *fakeLog) Append(epoch int32, records []Record, _ time.Time, _ *groupcommit.Batch, done func(error)) {
	l.mu.Lock()
	if l.fail != nil {
		err := l.fail
		l.mu.Unlock()
		done(err)
		return
	}
	l.batches, l.epochs = append(l.batches, records), append(l.epochs, epoch)
	if l.held {
		l.waiting = append(l.waiting, done)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	done(nil)
}

func (l *fakeLog) Ready(int32, bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shut
}

func (l *fakeLog) Load(ctx context.Context, _ int32, apply func(Record) error) error {
	l.mu.Lock()
	l.loads++
	err, batches, gate := l.load, l.batches, l.gate
	l.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, b := range batches {
		for _, r := range b {
			if err := apply(r); err != nil {
				return err
			}
		}
	}
	return err
}

// end ends the oldest waiting appends.
func (l *fakeLog) end(errs ...error) {
	for _, err := range errs {
		l.mu.Lock()
		done := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		done(err)
	}
}

// set changes the log's behavior.
func (l *fakeLog) set(f func(*fakeLog)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

func (l *fakeLog) sizes() (list []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches {
		list = append(list, len(b))
	}
	return list
}

// tally is a machine that remembers words. "get" answers with them; "wait" is answered by the next
// event; "after 5s w" adds w after 5 s; "two x y" adds two; "freeze 5s" takes 5 s; "send x w" sends
// x and adds w; "defer w" adds w later.
type tally struct {
	words  []string
	parked []Ticket
	after  map[string]string
	ended  int
	gate   chan struct{} // for calls
	client context.Context
	epoch  int32
}

func newTally(int32) Machine { return &tally{after: map[string]string{}} }

func (m *tally) Apply(r Record) error {
	if string(r.Key) == "bad" {
		return errors.New("unknown record")
	}
	m.words = append(m.words, string(r.Key))
	return nil
}

func (m *tally) add(word string, out *Effects) {
	m.words = append(m.words, word)
	out.Emit(Record{Key: []byte(word)})
}

func (m *tally) Loaded(_ time.Time, epoch int32, out *Effects) {
	m.epoch = epoch
	out.Set(TimerKey{Kind: 9}, time.Now().Add(time.Hour))
}

func (m *tally) Writes(event any) bool {
	first, _, _ := strings.Cut(event.(string), " ")
	return !slices.Contains([]string{"get", "wait", "call", "freeze", "news", "hello", "defer", "epoch"}, first)
}

func (m *tally) End() { m.ended++ }

func (m *tally) Handle(now time.Time, to Ticket, event any, out *Effects) {
	for _, t := range m.parked {
		out.Reply(t, "woken")
	}
	m.parked = nil
	words := strings.Fields(event.(string))
	switch words[0] {
	case "get":
		out.Reply(to, "has "+strings.Join(m.words, " "))
	case "wait":
		m.parked = append(m.parked, to)
	case "after":
		d, _ := time.ParseDuration(words[1])
		m.after[words[2]] = words[2]
		out.Set(TimerKey{Kind: 1, Owner: words[2]}, now.Add(d))
		out.Reply(to, "set")
	case "always": // a timer that sets itself again, for the present
		out.Set(TimerKey{Kind: 2}, now)
		out.Reply(to, "set")
	case "never":
		out.Cancel(TimerKey{Kind: 2})
		out.Reply(to, "canceled")
	case "call": // runs until the gate opens; "called" adds the result
		gate := m.gate
		out.Call(to, func(ctx context.Context) any {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return "called " + words[1]
		})
	case "compute": // until the gate opens
		gate := m.gate
		out.CallFor(m.client, to, func(ctx context.Context) any {
			for {
				select {
				case <-gate:
					return "called " + words[1]
				case <-ctx.Done():
					return "called " + words[1] + " gone"
				case <-time.After(time.Millisecond): // it computes
					Pause(ctx)
				}
			}
		})
	case "quick":
		out.Call(to, func(context.Context) any { return "called " + words[1] })
	case "called":
		m.add(words[1], out)
		out.Reply(to, "called "+words[1])
	case "send":
		m.add(words[2], out)
		out.Send(words[1])
		if len(words) == 4 { // "send x w parked"
			m.parked = append(m.parked, to)
		} else {
			out.Reply(to, "sent "+words[1])
		}
	case "defer":
		out.Defer(words[1])
		out.Reply(to, "deferred")
	case "epoch":
		out.Reply(to, fmt.Sprint(m.epoch))
	case "freeze": // the whole shard, as if the machine hung
		d, _ := time.ParseDuration(words[1])
		time.Sleep(d)
		out.Reply(to, "thawed")
	case "cancel":
		out.Cancel(TimerKey{Kind: 1, Owner: words[1]})
		out.Reply(to, "canceled")
	case "two":
		m.add(words[1], out)
		m.add(words[2], out)
		out.Reply(to, "added")
	default:
		m.add(words[0], out)
		out.Reply(to, fmt.Sprint(len(m.words)))
	}
}

func (m *tally) Fire(now time.Time, key TimerKey, out *Effects) {
	switch key.Kind {
	case 1:
		m.add(key.Owner, out)
	case 2:
		out.Set(key, now)
	}
}

// result is the outcome of a submitted event.
type result struct {
	mu       sync.Mutex
	times    int
	response any
	err      error
}

func (r *result) done(response any, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times++
	r.response, r.err = response, err
}

func (r *result) answered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.times > 0
}

func submit(rt *Runtime, event string) *result {
	r := &result{}
	rt.Submit(0, event, r.done)
	return r
}

// want compares the outcome; "" with nil means that there is none yet.
func (r *result) want(t *testing.T, response string, err error) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got, _ := r.response.(string)
	wantTimes := 1
	if response == "" && err == nil {
		wantTimes = 0
	}
	if got != response || !errors.Is(r.err, err) || r.times != wantTimes {
		t.Fatalf("answered %d times: %q, %v; want %q, %v", r.times, got, r.err, response, err)
	}
}

// outbox carries out the requests of machines: it keeps them until the test answers.
type outbox struct {
	mu   sync.Mutex
	sent []string // "epoch request"
	done []func(any)
}

func (o *outbox) send(_, epoch int32, request any, _ *groupcommit.Batch, done func(any)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent, o.done = append(o.sent, fmt.Sprint(epoch, " ", request)), append(o.done, done)
}

// want compares all requests that were sent so far.
func (o *outbox) want(t *testing.T, sent ...string) {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.sent, sent) {
		t.Fatalf("sent %q, want %q", o.sent, sent)
	}
}

// answer gives the oldest unanswered request its result.
func (o *outbox) answer(result any) {
	o.mu.Lock()
	done := o.done[0]
	o.done = o.done[1:]
	o.mu.Unlock()
	done(result)
}

// run runs a test with a runtime that leads partition 0, in a bubble of simulated time.
func run(t *testing.T, opt Options, test func(t *testing.T, rt *Runtime, log *fakeLog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opt.New = newTally
		rt, log := NewRuntime(opt), &fakeLog{}
		defer rt.Close()
		rt.Lead(0, 1, log)
		synctest.Wait()
		test(t, rt, log)
	})
}
