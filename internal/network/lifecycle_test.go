package network

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/view"
)

const raceOrInvariants = bufpool.Invariants

// inUse returns the memory of heap and stacks after a collection.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func TestIdleConnectionIsClosedAndABusyOneIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParked()
		f := start(t, p.handle, nil)
		defer f.end(t)
		c := f.pipe.dial()
		defer c.Close()
		c.send(t, frame(keyMetadata, 1, 1, nil))
		time.Sleep(time.Hour) // the answer takes that long
		p.next().Respond(body("ok"))
		c.want(t, 1)
		began := time.Now()
		c.wantClosed(t)
		if idle := time.Since(began); idle < 9*time.Minute || idle > 21*time.Minute {
			t.Errorf("closed after %v", idle)
		}
	})
}

// An overdue request waits for those before it.
func TestExpiryIsTheOldestsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var expired []time.Duration
		f := start(t, func(r *Request) {
			after := 30 * time.Second
			if r.CorrelationID == 1 {
				after = 10 * time.Second
			}
			id := r.CorrelationID
			r.ExpireAt(began.Add(after), func() {
				expired = append(expired, time.Since(began))
				if id != 2 {
					r.Respond(body("timed out"))
				} // 2 is answered later; its expiry is not called again
			})
			if id == 2 {
				time.AfterFunc(time.Minute, func() { r.Respond(body("late")) })
			}
		}, nil)
		defer f.end(t)
		c := f.pipe.dial()
		defer c.Close()
		for i := range int32(4) {
			c.send(t, frame(protocol.KeyProduce, 3, i, nil))
		}
		for i := range int32(4) {
			c.want(t, i)
		}
		want := []time.Duration{30 * time.Second, 30 * time.Second, 30 * time.Second, time.Minute}
		for i := range want {
			if expired[i] != want[i] {
				t.Fatalf("expired at %v, want %v", expired, want)
			}
		}
	})
}

// A stuck request releases what it holds at its deadline, whether its client is connected or not.
func TestExpiryWithoutConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParked()
		f := start(t, p.handle, nil)
		c := f.pipe.dial()
		for i := range int32(4) {
			c.send(t, frame(protocol.KeyProduce, 3, i, nil))
		}
		first, early, late, answered := p.next(), p.next(), p.next(), p.next()
		expire := func(r *Request) func() { return func() { r.Respond(body("dropped")) } }
		early.ExpireAt(time.Now().Add(10*time.Second), expire(early))
		answered.ExpireAt(time.Now().Add(10*time.Second), func() { t.Error("expired after its answer") })
		c.Close()
		first.Respond(body("shows that the client is gone"))
		synctest.Wait()
		late.ExpireAt(time.Now().Add(20*time.Second), expire(late))
		answered.Respond(body("dropped"))
		if n := f.Stats().Orphans; n != 2 {
			t.Errorf("%d orphans", n)
		}
		time.Sleep(21 * time.Second)
		synctest.Wait()
		f.end(t)
	})
}

func TestShutdownFinishesWhatWasHandedOver(t *testing.T) {
	p := newParked()
	f := start(t, p.handle, nil)
	c, idle := dial(t, f.tcp(t)), f.pipe.dial()
	defer c.Close()
	defer idle.Close()
	c.send(t, frame(protocol.KeyProduce, 3, 1, nil), frame(protocol.KeyProduce, 3, 2, nil))
	a, b := p.next(), p.next()
	done := make(chan error)
	go func() { done <- f.Shutdown(context.Background()) }()
	idle.wantClosed(t)
	c.send(t, frame(protocol.KeyProduce, 3, 3, nil)) // is not read
	b.Respond(body("b"))
	a.Respond(body("a"))
	c.want(t, 1)
	c.want(t, 2)
	c.wantClosed(t)
	c.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(p.ch) != 0 {
		t.Error("a request was read during the drain")
	}
	if err := f.Serve(&f.name, newPipeListener()); !errors.Is(err, ErrClosed) {
		t.Errorf("serves after shutdown: %v", err)
	}
	f.end(t)
}

// A Shutdown that ends with its context names the requests that have no answer.
func TestShutdownEndsWithItsContext(t *testing.T) {
	p := newParked()
	f := start(t, p.handle, nil)
	c := dial(t, f.tcp(t))
	defer c.Close()
	c.send(t, frame(protocol.KeyProduce, 3, 1, nil))
	r := p.next()
	r.WaitsAt(At(view.WaitStep{Step: view.StepReplication, Partition: "t-0", For: "broker 2"}), "")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := f.Shutdown(ctx)
	if want := "at the step replication of t-0 (for broker 2)"; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), want) {
		t.Errorf("Shutdown says %v, not %q", err, want)
	}
	c.wantClosed(t)
	r.Respond(body("late"))
	f.end(t)
}

// A handler that blocks delays neither the end of the context nor, when it resumes, the release of
// its memory.
func TestShutdownDoesNotWaitForAHungDisk(t *testing.T) {
	entered, free := make(chan struct{}), make(chan struct{})
	f := start(t, func(r *Request) {
		if r.Key == keyMetadata && r.MayBlock() {
			close(entered)
			<-free
		}
		echo(r)
	}, nil)
	addr := f.tcp(t)
	c, idle := dial(t, addr), dial(t, addr)
	defer c.Close()
	defer idle.Close()
	for _, c := range []*client{c, idle} { // both are known to a poller
		c.send(t, frame(protocol.KeyProduce, 3, 1, nil))
		c.want(t, 1)
	}
	c.send(t, frame(keyMetadata, 3, 1, nil))
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	done := make(chan error, 1)
	go func() { done <- f.Shutdown(ctx) }()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 handlers of API 3 still block") {
			t.Errorf("Shutdown says %v", err)
		}
	case <-time.After(patience):
		t.Error("Shutdown waits for a handler that blocks")
	}
	idle.wantClosed(t)
	c.wantClosed(t)
	close(free)
	f.end(t)
}

func TestAbortClosesAfterEarlierAnswers(t *testing.T) {
	p := newParked()
	f := start(t, p.handle, nil)
	defer f.end(t)
	c := dial(t, f.tcp(t))
	defer c.Close()
	for i := range int32(3) {
		c.send(t, frame(protocol.KeyProduce, 3, i, nil))
	}
	first, second, third := p.next(), p.next(), p.next()
	second.Abort(errors.New("acks=0 and an error"))
	third.Respond(body("never seen"))
	first.Respond(body("seen"))
	c.want(t, 0)
	c.wantClosed(t)
}

// A client can tell a reset from the end of a connection.
func TestAResetIsSeenAsOne(t *testing.T) {
	for name, end := range map[string]func(*Request, error){"reset": (*Request).Reset, "end": (*Request).Abort} {
		p := newParked()
		f := start(t, p.handle, nil)
		c := dial(t, f.tcp(t))
		c.send(t, frame(keyMetadata, 1, 0, nil))
		end(p.next(), errors.New("starting"))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, syscall.ECONNRESET) != (name == "reset") {
			t.Errorf("%s: %v", name, err)
		}
		_ = c.Close()
		f.end(t)
	}
}

func TestRespondNoneIsSilentAndKeepsTheOrder(t *testing.T) {
	f := start(t, func(r *Request) {
		if r.CorrelationID%2 == 0 {
			r.RespondNone()
		} else {
			echo(r)
		}
	}, nil)
	defer f.end(t)
	c := dial(t, f.tcp(t))
	defer c.Close()
	for i := range int32(6) {
		c.send(t, frame(protocol.KeyProduce, 3, i, nil))
	}
	for _, i := range []int32{1, 3, 5} {
		c.want(t, i)
	}
}

func TestThrottleStopsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(r *Request) {
			if r.CorrelationID == 1 {
				r.Throttle(5 * time.Second)
			}
			echo(r)
		}, nil)
		defer f.end(t)
		c := f.pipe.dial()
		defer c.Close()
		began := time.Now()
		c.sendAsync(frame(keyMetadata, 1, 1, nil), frame(keyMetadata, 1, 2, nil))
		c.want(t, 1)
		if time.Since(began) != 0 {
			t.Error("the throttled answer itself was delayed")
		}
		c.want(t, 2)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the next was read after %v", took)
		}
	})
}

func TestSoftwareIsRememberedForTheConnection(t *testing.T) {
	seen := make(chan Software, 2)
	f := start(t, func(r *Request) {
		seen <- r.Software
		if r.Key == protocol.KeyApiVersions {
			r.SetSoftware(Software{"kgo", "1"})
		}
		r.Respond(body(nil))
	}, nil)
	defer f.end(t)
	c := f.pipe.dial()
	defer c.Close()
	c.send(t, frame(protocol.KeyApiVersions, 3, 1, nil))
	c.want(t, 1)
	c.send(t, frame(keyMetadata, 1, 2, nil))
	c.want(t, 2)
	if a, b := <-seen, <-seen; a != (Software{}) || b != (Software{"kgo", "1"}) {
		t.Errorf("%v, then %v", a, b)
	}
}

func TestFrameMayOutliveItsRequest(t *testing.T) {
	kept := make(chan *bufpool.Buffer, 1)
	f := start(t, func(r *Request) {
		r.Frame().Retain()
		kept <- r.Frame()
		r.ReleaseBody()
		r.RespondNone()
	}, nil)
	c := f.pipe.dial()
	c.send(t, frame(protocol.KeyProduce, 3, 1, []byte("payload")))
	b := <-kept
	if got := b.Bytes(); string(got[len(got)-7:]) != "payload" {
		t.Errorf("%q", got)
	}
	b.Release()
	c.Close()
	f.end(t)
}

func TestSecondAnswerIsFound(t *testing.T) {
	if !bufpool.Invariants {
		t.Skip("panics with -race or -tags invariants only")
	}
	again := make(chan any, 1)
	f := start(t, func(r *Request) {
		r.RespondNone()
		defer func() { again <- recover() }()
		r.RespondNone()
	}, nil)
	defer f.end(t)
	c := f.pipe.dial()
	defer c.Close()
	c.send(t, frame(protocol.KeyProduce, 3, 1, nil))
	if <-again == nil {
		t.Error("not noticed")
	}
}

// Clients take the end of a connection before its first answer for one to a port with TLS or SASL,
// and give up. A reset is no such end.
func TestShutdownResetsWhomItHasNotServed(t *testing.T) {
	f := start(t, echo, nil)
	addr := f.tcp(t)
	fresh, introduced, served := dial(t, addr), dial(t, addr), dial(t, addr)
	introduced.send(t, frame(protocol.KeyApiVersions, 0, 1, nil))
	introduced.want(t, 1)
	served.send(t, frame(keyMetadata, 1, 1, nil))
	served.want(t, 1)
	for f.Stats().Connections < 3 {
		runtime.Gosched()
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Shutdown(t.Context()) }()
	for _, c := range []struct {
		name string
		conn *client
		want error
	}{{"fresh", fresh, syscall.ECONNRESET}, {"introduced", introduced, syscall.ECONNRESET}, {"served", served, io.EOF}} {
		must(t, c.conn.SetDeadline(time.Now().Add(patience)))
		if _, err := c.conn.Read(make([]byte, 1)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		c.conn.Close()
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
