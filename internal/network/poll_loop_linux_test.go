package network

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
)

// disk hangs while it is held, and then answers what waits for it.
type disk struct {
	entered, release chan struct{}

	mu      sync.Mutex
	waiting []*Request
}

func (d *disk) handle(r *Request) {
	d.mu.Lock()
	d.waiting = append(d.waiting, r)
	d.mu.Unlock()
	r.Batch().Add(d)
}

func newDisk() *disk { return &disk{entered: make(chan struct{}, 8), release: make(chan struct{})} }

func (d *disk) Commit(batch *groupcommit.Batch) { batch.AddSync(d) }
func (d *disk) Wake()                           {}

func (d *disk) WriteGroup() {
	d.entered <- struct{}{}
	<-d.release
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.waiting {
		r.Respond(body("late"))
	}
	d.waiting = nil
}

// While the commit of a poller waits for a disk, its other connections are served, and answers from
// other goroutines are written.
func TestStalledPollLoopIsReplaced(t *testing.T) {
	d, q := newDisk(), newParked()
	f := startPolled(t, func(r *Request) {
		switch {
		case r.CorrelationID == 100:
			d.handle(r)
		case r.CorrelationID >= 50:
			q.handle(r)
		default:
			if !byPoller(r) {
				t.Errorf("%d was not handled by the poller", r.CorrelationID)
			}
			echo(r)
		}
	}, nil)
	defer f.end(t)
	defer close(d.release) // a failed test must leave no goroutine waiting
	p := f.dial(t)
	defer p.Close()
	beside, parked := f.dialOnSamePoller(t, p), f.dialOnSamePoller(t, p)
	defer beside.Close()
	defer parked.Close()
	for round := range int32(3) {
		first := p.c.poll.by.loop.Load()
		parked.send(t, frame(protocol.KeyProduce, 3, 50+round, nil))
		r := q.next()
		p.send(t, frame(protocol.KeyProduce, 3, 100, nil))
		<-d.entered
		r.Respond(body("meanwhile"))
		parked.want(t, 50+round)
		for i := range int32(5) {
			beside.send(t, frame(protocol.KeyProduce, 3, i, nil))
			beside.want(t, i)
		}
		if p.c.poll.by.loop.Load() == first {
			t.Error("the shift that waits for the disk was not relieved")
		}
		d.release <- struct{}{}
		p.want(t, 100)
	}
}

// Shutdown ends with its context, not with the disk.
func TestShutdownWhileACommitHangs(t *testing.T) {
	d := newDisk()
	f := startPolled(t, d.handle, nil)
	p := f.dial(t)
	p.send(t, frame(protocol.KeyProduce, 3, 1, nil))
	<-d.entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.Shutdown(ctx); err == nil {
		t.Error("Shutdown says that all was answered")
	}
	d.release <- struct{}{}
	p.Close()
	f.loops.Wait()
	f.end(t)
}

func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

// A connection that a poller reads for a while gives up its net.Conn and gets another one when it
// has to wait for its client; no descriptor is left over.
func TestDetached(t *testing.T) {
	before := openFiles(t)
	const large = 100 // answers from this correlation id on are too large for a flusher
	f := startPolled(t, func(r *Request) {
		if r.CorrelationID >= large {
			r.Respond(body(string(make([]byte, 2*copyLimit))))
			return
		}
		echo(r)
	}, nil)
	ask := func(p *polled, key int16, ids ...int32) {
		t.Helper()
		for _, i := range ids {
			p.send(t, frame(key, 3, i, nil))
			p.want(t, i)
			if key == protocol.KeyProduce {
				p.awaitRole(t, connlife.Offered)
			}
		}
	}
	detached := func(p *polled, want bool) {
		t.Helper()
		p.await(t, "detached or not", func(c *conn) bool { return (c.sock.nc == nil) == want })
	}
	train := func(p *polled) {
		t.Helper()
		for i := range int32(detachAfter + 1) {
			ask(p, protocol.KeyProduce, i)
		}
		detached(p, true)
	}
	var all []*polled
	for range 5 {
		p := f.dial(t)
		detached(p, false)
		all = append(all, p)
		train(p)
		ask(p, keyMetadata, 1, 2) // by the reader
		detached(p, false)
		train(p)
		ask(p, protocol.KeyProduce, large) // by the writer
		detached(p, false)
		train(p)
	}
	all[0].Close()
	all[1].closeWrite(t)
	all[1].wantClosed(t)
	all[1].Close()
	all[2].reset(t)
	all[3].c.recall()
	ask(all[3], keyMetadata, 1)
	all[3].Close()
	f.awaitConnections(t, 1)
	if err := f.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	all[4].wantClosed(t)
	all[4].Close()
	f.end(t)
	await(t, "all descriptors are closed", func() bool { return openFiles(t) <= before })
}
