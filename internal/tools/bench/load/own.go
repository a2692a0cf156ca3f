package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// Own is the load of clients with their own connections: each sends one record at a time in a
// prebuilt request and waits for its response, or has up to Pipeline of them in flight. A worker is
// one goroutine that writes the allowed requests, reads the available responses, and repeats; with
// a rate it is two goroutines (paced.go).
type Own struct{ workers []*producer }

// producer is one worker of Own. Only paced workers use it from two goroutines; then the receiver
// accesses only fields whose comment says "both".
type producer struct {
	link     link
	o        *Options
	window   *meter.Window
	recorder *meter.Recorder // both
	account  *Account        // both; nil without a ledger
	requests *wire.Requests
	value    []byte // of every record; stamped if Stamped is set
	index    uint32

	turn        int
	correlation uint32 // of the next request
	// ring holds the in-flight requests by correlation id; its length is a power of two.
	ring    []flight
	pending int
	// failed means that a request failed, so the worker pauses. stale means that the broker is not
	// the leader, so the worker looks for the leader.
	failed, stale atomic.Bool // both
	// broken is the name of the failure that ended the connection of a paced worker.
	broken atomic.Pointer[string] // both
}

// flight is a request without a response.
type flight struct {
	began       time.Duration
	sequence    uint64
	correlation uint32
	partition   int32
	size        int // of the request
}

// NewOwn connects the workers.
func NewOwn(ctx context.Context, o Options, m *meter.Meter) (*Own, error) {
	version, err := o.Cluster.produceVersion(ctx)
	if err != nil {
		return nil, err
	}
	g := &Own{}
	for i := range o.Concurrency {
		p, err := newProducer(&o, m, i, version)
		if err == nil {
			g.workers = append(g.workers, p)
			err = p.link.connect(ctx)
		}
		if err != nil {
			g.Close()
			return nil, err
		}
	}
	return g, nil
}

func newProducer(o *Options, m *meter.Meter, i int, version int16) (*producer, error) {
	slots := 1
	for slots < o.Pipeline {
		slots *= 2
	}
	p := &producer{
		link: link{cluster: o.Cluster, index: i, of: o.Concurrency}, o: o, window: m.Window(), recorder: m.NewRecorder(),
		index: uint32(i), ring: make([]flight, slots), value: text(uint64(i), o.MessageSize),
	}
	if o.Ledger != nil {
		p.account = o.Ledger.Worker(i)
	}
	var err error
	p.requests, err = wire.NewRequests(wire.Produce{
		Version: version, Topic: o.Cluster.Topic, Acks: o.Acks, Timeout: produceTimeout,
		Compression: o.Compression, ClientID: o.ClientID, Value: p.value,
	}, o.Pipeline)
	return p, err
}

// Run implements Generator.
func (g *Own) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(g.workers))
	for i, p := range g.workers {
		wg.Go(func() {
			if p.o.Rate > 0 {
				errs[i] = p.paced(ctx)
			} else {
				errs[i] = p.closed(ctx)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close implements Generator.
func (g *Own) Close() {
	for _, p := range g.workers {
		p.link.close()
	}
}

// closed is the closed loop.
func (p *producer) closed(ctx context.Context) error {
	now := p.window.Now()
	for {
		until := p.window.Until()
		if p.pending == 0 && (now >= until || ctx.Err() != nil) {
			return nil
		}
		if !p.ready(ctx) {
			now = p.window.Now()
			continue
		}
		idle := p.pending == 0
		p.requests.Reset()
		for now < until && p.pending < p.o.Pipeline && !p.stale.Load() {
			f, err := p.add(now)
			if err != nil {
				return err
			}
			p.ring[p.slot(f.correlation)] = f
			p.pending++
		}
		now = p.exchange(now, idle)
	}
}

// exchange sends the added requests and reads the available responses; it returns the time after
// that.
func (p *producer) exchange(now time.Duration, idle bool) time.Duration {
	out := p.requests.Bytes()
	if p.o.Acks == 0 {
		return p.sent(now, out)
	}
	err := p.link.exchange(now, out, idle)
	now = p.window.Now()
	for err == nil {
		frame, ok := p.link.conn.Next()
		if !ok {
			return now
		}
		if p.pending == 0 {
			err = wire.ErrOther
			p.recorder.Fail(now, now, FailureName(err), 1)
			break
		}
		if err = p.answer(p.oldest(), frame, now); err == nil {
			p.pending--
		}
	}
	p.lost(now, err)
	return now
}

// oldest returns the request of the next response: a connection responds in order.
func (p *producer) oldest() flight {
	return p.ring[p.slot(p.correlation-uint32(p.pending))]
}

func (p *producer) slot(correlation uint32) int { return int(correlation) & (len(p.ring) - 1) }

// sent writes requests that have no response.
func (p *producer) sent(now time.Duration, out []byte) time.Duration {
	err := p.link.send(now, out)
	now = p.window.Now()
	if err != nil {
		p.lost(now, err)
		return now
	}
	for ; p.pending > 0; p.pending-- {
		p.done(p.oldest(), now, 0)
	}
	return now
}

// lost closes the connection and counts its in-flight requests as failed.
func (p *producer) lost(now time.Duration, err error) {
	for ; p.pending > 0; p.pending-- {
		p.recorder.Fail(p.oldest().began, now, FailureName(err), 1)
	}
	p.link.close()
	p.failed.Store(true)
}

// add prepares the next request, whose latency counts from began.
func (p *producer) add(began time.Duration) (flight, error) {
	f := flight{began: began, correlation: p.correlation, partition: p.link.partitions[p.turn]}
	var value []byte
	if p.o.Stamped {
		value = p.value
		s := Stamp{Run: p.o.Run, Worker: p.index, Sent: began}
		if p.account != nil {
			var err error
			if s.Sequence, err = p.account.Send(); err != nil {
				return f, err
			}
		}
		f.sequence = s.Sequence
		s.Put(value)
	}
	var err error
	if f.size, err = p.requests.Add(int32(f.correlation), f.partition, value); err != nil {
		return f, err
	}
	p.correlation++
	if p.turn++; p.turn == len(p.link.partitions) {
		p.turn = 0
	}
	return f, nil
}

// answer counts a response; an error means that the connection cannot be used any longer. Both
// goroutines of a paced worker may be in answer and add.
func (p *producer) answer(f flight, frame []byte, now time.Duration) error {
	a, err := wire.ReadProduced(frame, int32(f.correlation), p.o.Cluster.Topic, f.partition)
	if err != nil {
		return err
	}
	switch {
	case a.Code != 0:
		if kerr.IsRetriable(kerr.ErrorForCode(a.Code)) {
			p.stale.Store(true)
		}
		p.refused(f, now, codeName(a.Code), len(frame))
	case a.Offset < 0:
		p.refused(f, now, noOffset, len(frame))
	default:
		if p.account != nil {
			p.account.Acked(f.sequence)
		}
		p.done(f, now, 4+len(frame))
	}
	return nil
}

func (p *producer) done(f flight, now time.Duration, answer int) {
	p.recorder.Done(f.began, now, meter.Amount{Requests: 1, Records: 1, Payload: int64(p.o.MessageSize), Wire: int64(f.size + answer)})
}

func (p *producer) refused(f flight, now time.Duration, name string, answer int) {
	p.recorder.Fail(f.began, now, name, 1)
	p.recorder.Count(now, meter.Amount{Wire: int64(f.size + 4 + answer)})
	p.failed.Store(true)
}

// ready prepares the worker for sending: after a failure it pauses, and it connects again, to the
// current leader, if the connection is lost or the broker is not the leader. It returns false, and
// counts a failure, if that does not succeed.
func (p *producer) ready(ctx context.Context) bool {
	if p.failed.Load() && p.pending == 0 {
		p.failed.Store(false)
		pause.Wait(ctx.Done(), retryPause)
		if p.stale.Load() {
			p.stale.Store(false)
			p.link.close()
		}
	}
	began := p.window.Now()
	fresh, err := p.link.ready(ctx)
	if fresh {
		p.turn = 0
	}
	if err != nil {
		p.recorder.Fail(began, p.window.Now(), FailureName(err), 1)
		p.failed.Store(true)
		return false
	}
	return true
}
