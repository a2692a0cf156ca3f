package network

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

func TestAbsentProducersAreForgottenAfterOneToTwoWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newProducers(time.Second)
		c.markAbsent(time.Now())
		time.Sleep(1500 * time.Millisecond)
		late := c.markAbsent(time.Now())
		if n := c.Absent(); n != 2 {
			t.Errorf("%d absent, want both", n)
		}
		time.Sleep(time.Second)
		if n := c.Absent(); n != 1 {
			t.Errorf("%d absent, want the one of the last window", n)
		}
		c.markPresent(late)
		if n := c.Absent(); n != 0 {
			t.Errorf("%d absent", n)
		}
		time.Sleep(time.Hour) // no goroutine runs meanwhile
		c.markPresent(late)
		c.markPresent(0)
		first := c.markAbsent(time.Now())
		if n := c.Absent(); n != 1 {
			t.Errorf("%d absent after an hour, want the new one", n)
		}
		c.markPresent(first)
	})
}

func TestConnectionsAreAbsentProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParked()
		f := start(t, p.handle, nil)
		defer f.end(t)
		absent := func(want int, when string) {
			t.Helper()
			if n := f.Producers().Absent(); n != want {
				t.Errorf("%s: %d absent, want %d", when, n, want)
			}
		}
		a, b := f.pipe.dial(), f.pipe.dial()
		defer b.Close()
		absent(0, "no connection has produced")
		a.send(t, frame(protocol.KeyProduce, 3, 1, nil))
		ra := p.next()
		b.send(t, frame(protocol.KeyProduce, 3, 1, nil))
		rb := p.next()
		absent(0, "both are in")
		ra.Respond(body(nil))
		a.want(t, 1)
		absent(1, "one was answered")
		rb.Respond(body(nil))
		b.want(t, 1)
		absent(2, "both were answered")
		b.send(t, frame(protocol.KeyProduce, 3, 2, nil))
		rb = p.next()
		absent(1, "one came back")
		rb.Respond(body(nil))
		b.want(t, 2)
		a.Close()
		synctest.Wait()
		absent(1, "the other left")
		time.Sleep(3 * time.Second)
		absent(0, "long ago")
	})
}

func TestAbsentProducersAreCountedUnderContention(t *testing.T) {
	c := newProducers(time.Millisecond) // windows change all the time
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20_000 {
				c.markPresent(c.markAbsent(time.Now()))
			}
		})
	}
	wg.Wait()
	if n := c.Absent(); n != 0 {
		t.Errorf("%d absent, all came back", n)
	}
}

func BenchmarkCensus(b *testing.B) {
	c := newProducers(time.Second)
	now := time.Now()
	for b.Loop() {
		c.markPresent(c.markAbsent(now))
	}
}
