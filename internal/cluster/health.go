package cluster

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/pause"
)

const (
	// healthEvery is the interval at which each connected broker is asked. With that of the checks,
	// it bounds how long a finding stays unknown to the others.
	healthEvery = time.Second
	// healthTime bounds the wait for an answer. A broker is not asked again before.
	healthTime = 3 * time.Second
	// forgetAfter is the age from which the report of a broker is forgotten.
	forgetAfter = time.Hour
)

// others holds the newest reports of other brokers.
type others struct {
	mu    sync.Mutex
	heard map[int32]health.Heard
	asked map[int32]bool // a request waits for its answer; false: which is about a former state
}

// Reports returns the newest reports of the other brokers, by broker. It does not block.
func (c *Cluster) Reports() (list []health.Heard) {
	c.others.mu.Lock()
	defer c.others.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.others.heard)) {
		list = append(list, c.others.heard[id])
	}
	return list
}

// askHealth asks the other brokers for their reports until Close. One that does not answer delays
// none of the others.
func (c *Cluster) askHealth() {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for pause.Sleep(c.ctx, healthEvery) == nil {
		for node, p := range c.book.connections() {
			if node != c.o.Node && c.others.begin(node) {
				waiting.Go(func() { c.others.end(node, c.askReport(node, p)) })
			}
		}
		c.others.forget(time.Now())
	}
}

// askReport asks a broker for its report; nil if it does not answer with one. The request has the
// digest of the last report, and the answer is only that if the broker would say the same again.
func (c *Cluster) askReport(node int32, p asker) *health.Heard {
	ctx, cancel := context.WithTimeout(c.ctx, healthTime)
	defer cancel()
	last := c.others.last(node)
	answer, err := p.Call(ctx, methodHealth, last.Digest)
	at := time.Now()
	if err == nil && last.Report != nil && bytes.Equal(answer, last.Digest) {
		return last.Again(at)
	}
	if r := (*link.RemoteError)(nil); errors.As(err, &r) && r.Code != link.CodeBusy {
		return &health.Heard{Broker: node, At: at, Mute: true}
	}
	var report *health.Report
	if err == nil {
		report, err = health.Decode(answer)
	}
	if err != nil {
		c.o.Log.Debug("no health report", zap.Int32("node", node), zap.Error(err))
		return nil
	}
	return &health.Heard{Broker: node, At: at, Report: report, Digest: health.Digest(answer)}
}

// asker is the part of link.Peer that askReport needs.
type asker interface {
	Call(ctx context.Context, method uint16, body []byte) ([]byte, error)
}

// last returns the newest report of a broker, which is empty if there is none.
func (o *others) last(node int32) health.Heard {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.heard[node]
}

// begin reports whether a broker may be asked: the answer to the last request does not stand out.
func (o *others) begin(node int32) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, waits := o.asked[node]; waits {
		return false
	}
	o.asked[node] = true
	return true
}

// end notes the answer of a broker, nil for none.
func (o *others) end(node int32, h *health.Heard) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h != nil && o.asked[node] {
		o.heard[node] = *h
	}
	delete(o.asked, node)
}

// changed removes the reports of brokers that have started, or become active, since they reported:
// what a former process said, or a starting one, is not true of it. That of a broker which was
// fenced stays, because it may explain why.
func (o *others) changed(prev, next *metadata.Image) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range next.Brokers() {
		before, known := prev.Broker(b.ID)
		was, _ := prev.Liveness(b.ID)
		is, _ := next.Liveness(b.ID)
		if known && before.Epoch == b.Epoch && (is == was || is != metadata.Active) {
			continue
		}
		delete(o.heard, b.ID)
		if _, waits := o.asked[b.ID]; waits {
			o.asked[b.ID] = false
		}
	}
}

// forget removes the reports of brokers that were not heard for a long time.
func (o *others) forget(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.heard, func(_ int32, h health.Heard) bool { return now.Sub(h.At) >= forgetAfter })
}

// answerHealth answers another broker's request for the report of this one. known is the digest of
// the last one that it has.
func (c *Cluster) answerHealth(ctx context.Context, known []byte) ([]byte, error) {
	if c.o.Health == nil {
		return nil, errors.New("this process has no health report")
	}
	report := *c.o.Health(ctx)
	report.Checks = []health.Examined{} // what they saw, each time something else, is asked of the broker itself
	p, err := report.Encode(health.MaxBytes)
	if digest := health.Digest(p); err == nil && bytes.Equal(digest, known) {
		return digest, nil
	}
	return p, err
}

// connections returns the connections to other brokers, by node.
func (b *book) connections() map[int32]*link.Peer {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[int32]*link.Peer{}
	add := func(p *link.Peer) {
		if p == nil {
			return
		}
		if h, ok := p.Hello(); ok {
			all[h.Node] = p
		}
	}
	for _, s := range b.seeds {
		add(s.peer)
	}
	for _, o := range b.others {
		add(o.peer)
	}
	return all
}
