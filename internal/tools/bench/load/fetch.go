package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// ErrEmpty is returned for a topic without records to consume.
var ErrEmpty = errors.New("nothing to consume: the topic is empty; produce to it first")

// fetchWaitMillis is how long a broker may wait for the first byte.
const fetchWaitMillis = 500

// RawFetch is the load of consumers with their own connections: each reads its partitions one after
// the other from the first offset to the last, repeatedly, with one fetch in flight, and counts
// records from the headers of their batches.
type RawFetch struct{ workers []*fetcher }

type fetcher struct {
	link     link
	window   *meter.Window
	recorder *meter.Recorder
	request  *wire.FetchRequest
	topic    string
	offsets  Offsets
	idle     bool

	correlation int32
	turn        int
	// next is the next offset to fetch of each partition.
	next map[int32]int64
	// moved means that the broker is not the leader, failed that a fetch failed.
	moved, failed bool
}

// NewRawFetch connects the workers. It returns ErrEmpty if there is nothing to read and o.Idle is
// not set.
func NewRawFetch(ctx context.Context, o Options, m *meter.Meter) (*RawFetch, error) {
	if _, err := o.Cluster.version(ctx, kmsg.Fetch, wire.FetchVersion, wire.FetchVersion); err != nil {
		return nil, fmt.Errorf("raw fetch: %w", err)
	}
	offsets, err := o.Cluster.Offsets(ctx)
	if err != nil {
		return nil, err
	}
	if offsets.Empty() && !o.Idle {
		return nil, ErrEmpty
	}
	g := &RawFetch{}
	for i := range o.Concurrency {
		f := &fetcher{
			link: link{cluster: o.Cluster, index: i, of: o.Concurrency}, window: m.Window(), recorder: m.NewRecorder(),
			request: wire.NewFetchRequest(o.ClientID, o.Cluster.Topic, int32(o.FetchMaxBytes), fetchWaitMillis),
			topic:   o.Cluster.Topic, offsets: offsets, idle: o.Idle, next: make(map[int32]int64),
		}
		g.workers = append(g.workers, f)
		if err := f.link.connect(ctx); err != nil {
			g.Close()
			return nil, err
		}
	}
	return g, nil
}

// Run implements Generator.
func (g *RawFetch) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, f := range g.workers {
		wg.Go(func() { f.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Close implements Generator.
func (g *RawFetch) Close() {
	for _, f := range g.workers {
		f.link.close()
	}
}

func (f *fetcher) run(ctx context.Context) {
	for now := f.window.Now(); now < f.window.Until() && ctx.Err() == nil; {
		began := now
		if err := f.ready(ctx); err != nil {
			now = f.window.Now()
			f.recorder.Fail(began, now, FailureName(err), 1)
			f.failed = true
			continue
		}
		partition, ok := f.choose()
		if !ok {
			// Other workers' partitions have records, those of this one do not.
			pause.Wait(ctx.Done(), min(f.window.Until()-now, time.Second))
			now = f.window.Now()
			continue
		}
		now = f.fetch(partition, f.window.Now())
	}
}

// ready pauses after a failure and connects if there is no connection.
func (f *fetcher) ready(ctx context.Context) error {
	if f.failed {
		f.failed = false
		pause.Wait(ctx.Done(), retryPause)
	}
	if f.moved {
		f.moved = false
		f.link.close()
	}
	fresh, err := f.link.ready(ctx)
	if fresh {
		f.turn = 0
	}
	return err
}

// choose returns the partition of the next fetch; false if none has records.
func (f *fetcher) choose() (int32, bool) {
	for range f.link.partitions {
		p := f.link.partitions[f.turn]
		if f.idle || f.offsets.End[p] > f.offsets.Start[p] {
			return p, true
		}
		f.advance()
	}
	return 0, false
}

func (f *fetcher) advance() { f.turn = (f.turn + 1) % len(f.link.partitions) }

// fetch sends one fetch and returns the time after its response.
func (f *fetcher) fetch(partition int32, began time.Duration) time.Duration {
	offset, ok := f.next[partition]
	if !ok {
		offset = f.offsets.Start[partition]
	}
	f.correlation = (f.correlation + 1) & (1<<31 - 1)
	out := f.request.Bytes(f.correlation, partition, offset)
	err := f.link.exchange(began, out, true)
	now := f.window.Now()
	if err == nil {
		frame, _ := f.link.conn.Next()
		f.recorder.Count(now, meter.Amount{Wire: int64(len(out) + 4 + len(frame))})
		err = f.answer(frame, partition, offset, began, now)
	}
	if err != nil {
		f.recorder.Fail(began, now, FailureName(err), 1)
		f.link.close()
		f.failed = true
	}
	return now
}

func (f *fetcher) answer(frame []byte, partition int32, offset int64, began, now time.Duration) error {
	a, err := wire.ReadFetched(frame, f.correlation, f.topic, partition)
	if err != nil {
		return err
	}
	if a.Code != 0 {
		f.refused(a.Code, partition, began, now)
		return nil
	}
	c, err := wire.CountBatches(a.Batches, offset)
	if err != nil {
		return err
	}
	if c.Next > offset {
		f.recorder.Done(began, now, meter.Amount{Requests: 1, Records: c.Records, Payload: c.Bytes})
	} else {
		// A response without records is valid; its duration is that of the wait.
		f.recorder.Count(now, meter.Amount{Requests: 1})
	}
	f.next[partition] = c.Next
	if c.Next >= a.HighWatermark {
		if !f.idle || a.HighWatermark > a.LogStart {
			f.next[partition] = a.LogStart
		}
		f.advance()
	}
	return nil
}

func (f *fetcher) refused(code int16, partition int32, began, now time.Duration) {
	f.recorder.Fail(began, now, codeName(code), 1)
	f.failed = true
	switch err := kerr.ErrorForCode(code); {
	case errors.Is(err, kerr.OffsetOutOfRange):
		// Retention has deleted the records at the start: continue where the next response or the
		// brokers say.
		f.next[partition] = f.offsets.End[partition]
	case kerr.IsRetriable(err):
		f.moved = true
	}
}
