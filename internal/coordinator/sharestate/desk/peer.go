package desk

import (
	"context"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/outbound"
)

const (
	// maxWaiting bounds the items that wait for a broker or are on the way to it.
	maxWaiting = 100_000
	// maxCall bounds the items of a call, callBytes the bytes of all but its last item, and
	// maxOpens the opens among them: their answers have whole states.
	maxCall   = 1000
	callBytes = 1 << 20
	maxOpens  = 100
	// calls is how many calls to a broker are under way: one waits for the slowest of its shards.
	calls = 4
	// callTime bounds a call.
	callTime = 10 * time.Second
)

// peer is another broker, as this one asks it.
type peer struct {
	d     *Desk
	node  int32
	queue *outbound.Queue[*job]
}

func (d *Desk) peer(node int32) *peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.peers[node]
	if p == nil {
		p = &peer{d: d, node: node}
		p.queue = outbound.NewQueue(d.work, calls, maxWaiting, maxCall, p.send)
		d.peers[node] = p
	}
	return p
}

// Waiting returns how many items wait for each other broker, those on the way included.
func (d *Desk) Waiting() map[int32]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := make(map[int32]int, len(d.peers))
	for node, p := range d.peers {
		n[node] = p.queue.Waiting()
	}
	return n
}

// send sends items in as few calls as their sizes allow, and waits for the results.
func (p *peer) send(list []*job) {
	live := list[:0]
	for _, j := range list {
		if j.op == opChanged || !j.over() {
			live = append(live, j)
		}
	}
	for len(live) > 0 {
		n, size, opens := 0, 0, 0
		for n < len(live) && size < callBytes && opens < maxOpens {
			size += live[n].size()
			if live[n].op == opOpen {
				opens++
			}
			n++
		}
		p.sendSome(live[:n])
		live = live[n:]
	}
}

func (p *peer) sendSome(list []*job) {
	requests := mapped(list, func(j *job) *request { return &j.request })
	ctx, cancel := context.WithTimeout(p.d.work.Context(), callTime)
	defer cancel()
	version := versionOf(requests)
	answer, err := p.d.opt.Call(ctx, p.node, encodeCall(version, requests))
	if err != nil && strings.Contains(err.Error(), refusal) {
		answer, err = p.d.opt.Call(ctx, p.node, encodeCall(formerVersion, requests))
	}
	var results []response
	if err == nil {
		results, err = decodeAnswer(answer, requests)
	}
	if p.d.outcomes.Note(p.node, len(list), err); err != nil {
		results = mapped(list, func(*job) response { return response{err: kerr.NetworkException} })
	}
	p.d.answered(list, results)
}
