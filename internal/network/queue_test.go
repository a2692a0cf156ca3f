package network

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

// countedQueue is a queue next to a list of its requests, from which each count follows.
type countedQueue struct {
	queue
	open    []*Request // not written, in the order of arrival
	with    []*Request // of these, with the handler
	being   []*Request // of these, being written
	job     answers
	dropped bool
}

func (m *countedQueue) check(t *testing.T) {
	t.Helper()
	var want queue
	var waiting []*Request
	for _, r := range m.open {
		want.n++
		if slices.Contains(m.with, r) {
			want.unready++
			if r.Key == protocol.KeyProduce {
				want.produces++
				want.produceBytes += int64(r.size)
			}
		} else {
			want.unwritten += r.outSize
			want.encoded += len(r.head)
			want.raw += r.raw
		}
		if !slices.Contains(m.being, r) && !m.dropped {
			waiting = append(waiting, r)
		}
	}
	q := &m.queue
	if m.dropped {
		want.n = q.n
	}
	if q.n != want.n || q.unready != want.unready || q.produces != want.produces || q.produceBytes != want.produceBytes ||
		q.unwritten != want.unwritten || q.encoded != want.encoded || q.raw != want.raw {
		t.Fatalf("the queue counts %+v, its requests are %+v", *q, want)
	}
	var chain []*Request
	for r := q.oldest; r != nil; r = r.next {
		chain = append(chain, r)
	}
	if !slices.Equal(chain, waiting) || len(chain) > 0 && q.newest != chain[len(chain)-1] {
		t.Fatalf("%d requests in the queue, want %d", len(chain), len(waiting))
	}
}

// mayAdd computes in a loop over the requests what requestQueue keeps as counters.
func (m *countedQueue) mayAdd(o *Options, key int16, size int) bool {
	bytes, unwritten := int64(size), 0
	for _, r := range m.open {
		if !slices.Contains(m.with, r) {
			unwritten += r.outSize
			continue
		}
		if key != protocol.KeyProduce || r.Key != protocol.KeyProduce {
			return false
		}
		bytes += int64(r.size)
	}
	return len(m.open) < o.ConnectionRequests && unwritten <= o.UnwrittenBytes && (bytes == int64(size) || bytes <= o.ConnectionBytes)
}

func (m *countedQueue) answer(i int, now time.Time) {
	r := m.with[i]
	r.outSize = len(r.head) + r.size%7
	m.handled(r, now)
	m.with = slices.Delete(m.with, i, i+1)
	if m.dropped {
		m.open = slices.DeleteFunc(m.open, func(o *Request) bool { return o == r })
		return
	}
	m.ready(r)
}

func TestAQueueCountsItsRequests(t *testing.T) {
	o := &Options{ConnectionRequests: 6, UnwrittenBytes: 60, ConnectionBytes: 50}
	now := time.Unix(1e9, 0)
	refused := 0
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := &countedQueue{}
		for range 200 {
			switch rnd.IntN(4) {
			case 0, 1:
				r := &Request{size: 1 + rnd.IntN(30), head: make([]byte, rnd.IntN(20))}
				if rnd.IntN(4) == 0 {
					r.Key = 3 // Metadata
				}
				may := m.queue.mayAdd(o, r.Key, r.size)
				if may != m.mayAdd(o, r.Key, r.size) {
					t.Fatalf("seed %d: a request of API %d may start: %v", seed, r.Key, may)
				}
				if !may {
					refused++
					break
				}
				m.add(r)
				m.open, m.with = append(m.open, r), append(m.with, r)
			case 2:
				if len(m.with) > 0 {
					m.answer(rnd.IntN(len(m.with)), now)
				}
			case 3:
				m.write(rnd)
			}
			m.check(t)
		}
		if len(m.being) > 0 {
			m.write(rnd)
		}
		m.drop()
		m.dropped = true
		m.open = slices.Clone(m.with)
		for m.check(t); len(m.with) > 0; m.check(t) {
			m.answer(0, now)
		}
	}
	if refused == 0 {
		t.Error("no request was refused")
	}
}

// write takes answers, or ends the write of those that were taken.
func (m *countedQueue) write(rnd *rand.Rand) {
	if m.being != nil {
		m.wrote(m.job)
		m.open = slices.DeleteFunc(m.open, func(r *Request) bool { return slices.Contains(m.being, r) })
		m.being = nil
		return
	}
	if m.oldest == nil || !m.oldest.ready {
		return
	}
	m.job = m.take(1 + rnd.IntN(40))
	for r := m.job.first; r != nil; r = r.next {
		m.being = append(m.being, r)
	}
}

// The client has a second for every lagBytes, and lagTime.
func TestASlowWriteHasTimeForItsBytes(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, size := range []int{1, 10 * lagBytes} {
		q := queue{writing: writing{bytes: size}}
		end := now.Add(lagTime + time.Duration(size)*time.Second/lagBytes)
		if q.slow(now) || q.slow(end) || !q.slow(end.Add(1)) {
			t.Errorf("%d bytes: slow at %v, want the first moment after %v", size, []bool{q.slow(now), q.slow(end)}, end.Sub(now))
		}
		if q.wrote(answers{}); q.slow(end.Add(time.Hour)) {
			t.Error("the next write has no time of its own")
		}
	}
}
