package network

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/protocol"
)

// log is what a Handler adds to the batch, like a partition: requests wait in a queue until a
// Commit answers them.
type log struct {
	name  string
	mu    sync.Mutex
	queue []*Request
	did   func(name string)
}

func (l *log) Commit(*groupcommit.Batch) {
	l.mu.Lock()
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	if l.did != nil {
		l.did(l.name)
	}
	for _, r := range queue {
		r.Respond(body(r.Body))
	}
}

func (l *log) add(r *Request) {
	r.Batch().Add(l) // first: once it is in the queue, any Commit may answer it
	l.mu.Lock()
	l.queue = append(l.queue, r)
	l.mu.Unlock()
}

// What the requests of several connections add to the batch runs once, after all of them were
// handled and before the poller sleeps.
func TestBatchRunsOnceForAllPolledRequests(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	see := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, what)
	}
	logs := []*log{{name: "commit 0", did: see}, {name: "commit 1", did: see}}
	f := startPolled(t, func(r *Request) {
		if !byPoller(r) {
			t.Errorf("%d was not handled by the poller", r.CorrelationID)
		}
		see("handle")
		logs[r.CorrelationID%2].add(r)
	}, nil)
	defer f.end(t)
	p := []*polled{f.dial(t)}
	for range 4 {
		p = append(p, f.dialOnSamePoller(t, p[0]))
	}
	defer func() {
		for _, p := range p {
			p.Close()
		}
	}()
	resume := f.hold(t, p[0], protocol.KeyProduce)
	for _, p := range p[1:] {
		burst := append(frame(protocol.KeyProduce, 3, 0, nil), frame(protocol.KeyProduce, 3, 1, nil)...)
		p.send(t, burst)
		p.arrived(t, len(burst))
	}
	resume()
	for _, p := range p[1:] {
		p.want(t, 0)
		p.want(t, 1)
	}
	mu.Lock()
	if want := append(slices.Repeat([]string{"handle"}, 8), "commit 0", "commit 1"); !slices.Equal(seen, want) {
		t.Errorf("seen %q", seen)
	}
	seen = nil
	mu.Unlock()
	p[0].send(t, frame(protocol.KeyProduce, 3, 2, nil)) // nothing else arrives, and it is answered
	p[0].want(t, 2)
}

// mixed answers requests in one of several ways.
type mixed struct {
	rnd  *rand.Rand
	mu   sync.Mutex // guards rnd
	logs []*log
	wg   sync.WaitGroup
}

func (m *mixed) n(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rnd.IntN(n)
}

func (m *mixed) handle(r *Request) {
	switch way := m.n(8); {
	case r.Key != protocol.KeyProduce && way%2 == 0, way == 0:
		echo(r)
	case way == 1:
		r.RespondRaw([][]byte{bytes.Clone(r.Body[:len(r.Body)/2]), bytes.Clone(r.Body[len(r.Body)/2:])}, nil)
	case way < 4:
		pause := time.Duration(m.n(300)) * time.Microsecond
		m.wg.Go(func() {
			time.Sleep(pause)
			echo(r)
		})
	case way == 4:
		r.ExpireAt(time.Now().Add(time.Duration(m.n(300))*time.Microsecond), func() { echo(r) })
	default:
		m.logs[m.n(len(m.logs))].add(r)
	}
}

// Whatever is sent, in whatever pieces, and however it is answered, a client gets whole answers in
// the order of its requests.
func TestI1ResponseOrderOfPolledConnections(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		m := &mixed{rnd: rand.New(rand.NewPCG(seed, 0)), logs: []*log{{}, {}, {}}}
		f := startPolled(t, m.handle, func(o *Options) {
			o.ConnectionRequests = rapid.IntRange(1, 30).Draw(rt, "requests")
			o.ConnectionBytes = rapid.Int64Range(1, 50_000).Draw(rt, "bytes")
			o.ProduceBytes = rapid.Int64Range(1, 200_000).Draw(rt, "budget")
			o.UnwrittenBytes = rapid.IntRange(1, 50_000).Draw(rt, "unwritten")
		})
		small := rapid.SampledFrom([]int{100, 3000, 8000}).Draw(rt, "small")
		large := rapid.SampledFrom([]int{0, 0, 5_000, 20_000, 70_000}).Draw(rt, "large")
		dials := dial
		if rapid.Bool().Draw(rt, "small buffers") {
			f.narrow(t)
			dials = dialSmall
		}
		var failed atomic.Bool // of this attempt: earlier ones may have failed t
		var wg sync.WaitGroup
		for i := range rapid.IntRange(1, 5).Draw(rt, "connections") {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(i)+1))
				p := dials(t, f.addr)
				defer p.Close()
				if err := talk(p, rnd, small, large); err != nil {
					failed.Store(true)
					t.Errorf("%v\n%s", err, f.state())
					p.Close()
				}
			})
		}
		wg.Wait()
		f.end(t)
		m.wg.Wait()
		if failed.Load() {
			rt.FailNow()
		}
	})
}

// talk sends requests in pieces, with pauses, and checks their answers. It has patience for each
// answer, because small sockets and slow machines make a talk arbitrarily long.
func talk(p *client, rnd *rand.Rand, small, large int) error {
	const n = 25
	body := func(i int32) []byte {
		size := int(i) * 7 % 23 * small / 23
		if i%9 == 8 {
			size = large
		}
		return bytes.Repeat([]byte{byte(i)}, size)
	}
	var sent sync.WaitGroup
	defer sent.Wait()
	sent.Go(func() {
		var all []byte
		for i := range int32(n) {
			key := protocol.KeyProduce
			if rnd.IntN(12) == 0 {
				key = keyMetadata
			}
			all = append(all, frame(key, 3, i, body(i))...)
			if rnd.IntN(3) == 0 { // otherwise more come with it
				continue
			}
			for len(all) > 0 {
				piece := len(all)
				if rnd.IntN(4) == 0 {
					piece = 1 + rnd.IntN(piece)
				}
				if _, err := p.Write(all[:piece]); err != nil {
					return
				}
				if all = all[piece:]; rnd.IntN(2) == 0 {
					time.Sleep(time.Duration(rnd.IntN(200)) * time.Microsecond)
				}
			}
		}
		_, _ = p.Write(all)
	})
	for i := range int32(n) {
		if i%5 == 4 { // reads slowly
			time.Sleep(time.Millisecond)
		}
		if err := p.SetDeadline(time.Now().Add(patience)); err != nil { // the deadline of writing, too
			return err
		}
		got, answer, err := p.receive()
		if err != nil {
			return fmt.Errorf("answer %d on %s: %w", i, p.LocalAddr(), err)
		}
		if got != i || !bytes.Equal(answer, body(i)) {
			return fmt.Errorf("answer %d on %s: %d bytes for %d", i, p.LocalAddr(), len(answer), got)
		}
	}
	return nil
}
