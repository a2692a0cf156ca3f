package network

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

// recorder records the calls of an Observer.
type recorder struct {
	mu   sync.Mutex
	told []string
	sent int
}

func (o *recorder) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, fmt.Sprintf(format, args...))
}

// count is how many answers were sent.
func (o *recorder) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent
}

func (o *recorder) Opened(l *Listener)                  { o.add("%s opened", l.Name) }
func (o *recorder) Closed(l *Listener, why CloseReason) { o.add("%s closed: %s", l.Name, why) }
func (o *recorder) Refused(l *Listener, _ netip.Addr, why RefuseReason) {
	o.add("%s refused: %s", l.Name, why)
}
func (o *recorder) Throttled(key int16, d time.Duration) { o.add("throttled %d: %v", key, d) }
func (o *recorder) BudgetWait(name string)               { o.add("waits for %s", name) }
func (o *recorder) Handshake(e *HandshakeEvent)          { o.add("%s handshake: %s", e.Listener.Name, e.Result) }

func (o *recorder) Login(e *LoginEvent) {
	o.add("%s login with %s as %s, failed: %v", e.Listener.Name, e.Mechanism, e.Session.Principal, e.Err != nil)
}

func (o *recorder) Logout(e *LogoutEvent) { o.add("%s logged out: %s", e.Session.Principal, e.Reason) }

func (o *recorder) Sent(key int16, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if key == protocol.KeyProduce && took >= 0 && took < time.Minute {
		o.sent++ // counted separately: it comes after the client has its answer
	}
}
func (o *recorder) Answered(r *Request, n int, _ time.Duration) {
	o.add("answered %d: code %d, %d in, %d out", r.Key, r.Code, r.FrameSize(), n)
}

func TestObserverIsToldInOrder(t *testing.T) {
	o := &recorder{}
	f := start(t, func(r *Request) {
		r.Code = int16(r.CorrelationID)
		if r.Code == 3 {
			r.Throttle(time.Millisecond)
		}
		r.Respond(body("1234567890"))
	}, func(opts *Options) { opts.Observer, opts.Limits.Connections = o, 1 })
	c := f.pipe.dial()
	for _, code := range []int32{0, 3} {
		c.send(t, frame(protocol.KeyProduce, 3, code, nil))
		c.want(t, code)
	}
	refused := f.pipe.dial()
	refused.wantClosed(t)
	c.Close()
	for begun := time.Now(); f.Stats().Connections != 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("%+v: a connection is never closed", f.Stats())
		}
	}
	f.end(t)
	want := []string{"test opened", "answered 0: code 0, 10 in, 18 out", "throttled 0: 1ms", "answered 0: code 3, 10 in, 18 out",
		"test refused: total", "test closed: client"}
	if !slices.Equal(o.told, want) {
		t.Errorf("told\n%q, want\n%q", o.told, want)
	}
	if o.sent != 2 {
		t.Errorf("%d answers were sent, want 2", o.sent)
	}
}
