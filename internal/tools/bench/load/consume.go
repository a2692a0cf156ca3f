package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// Consume is the load of kgo consumers without a group: each reads its partitions from the first
// offset to the last, repeatedly.
type Consume struct {
	o       Options
	meter   *meter.Meter
	offsets Offsets
}

// NewConsume reads the offsets of the topic. It returns ErrEmpty if there is nothing to read and
// o.Idle is not set.
func NewConsume(ctx context.Context, o Options, m *meter.Meter) (*Consume, error) {
	offsets, err := o.Cluster.Offsets(ctx)
	if err != nil {
		return nil, err
	}
	if offsets.Empty() && !o.Idle {
		return nil, ErrEmpty
	}
	return &Consume{o: o, meter: m, offsets: offsets}, nil
}

// Run implements Generator. It creates the clients, because a kgo consumer fetches as soon as it
// exists.
func (g *Consume) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	partitions := g.o.Cluster.Partitions()
	errs := make([]error, g.o.Concurrency)
	for i := range g.o.Concurrency {
		r := &rewinder{window: g.meter.Window(), recorder: g.meter.NewRecorder(), topic: g.o.Cluster.Topic, offsets: g.offsets,
			mine: share(partitions, i, g.o.Concurrency), next: make(map[int32]int64)}
		wg.Go(func() { errs[i] = r.run(ctx, &g.o, g.meter) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close implements Generator: Run closes the clients.
func (g *Consume) Close() {}

// share returns the partitions of consumer i of n: every n-th partition, or one that others read
// too.
func share(partitions []int32, i, n int) []int32 {
	if i >= len(partitions) {
		return []int32{partitions[i%len(partitions)]}
	}
	var mine []int32
	for ; i < len(partitions); i += n {
		mine = append(mine, partitions[i])
	}
	return mine
}

// consumerClient returns a kgo consumer of partitions from the given offsets on.
func consumerClient(o *Options, recorder *meter.Recorder, w *meter.Window, from map[int32]int64) (*kgo.Client, error) {
	at := make(map[int32]kgo.Offset)
	for p, offset := range from {
		at[p] = kgo.NewOffset().At(offset)
	}
	cl, err := kgo.NewClient(append(Reach(o.Cluster.Seeds, o.Cluster.Secure), kgo.ClientID(cmp.Or(o.ClientID, wire.ClientID)),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{o.Cluster.Topic: at}),
		kgo.WithHooks(&wireHook{key: kmsg.Fetch.Int16(), window: w, recorder: recorder}),
	)...)
	if err != nil {
		return nil, fmt.Errorf("create a consumer: %w", err)
	}
	return cl, nil
}

// rewinder is a consumer that starts again when it reaches the end.
type rewinder struct {
	window   *meter.Window
	recorder *meter.Recorder
	topic    string
	offsets  Offsets
	mine     []int32
	// next is the offset after the last read record of each partition; left is the number of
	// partitions that are not read to their end.
	next map[int32]int64
	left int
}

func (r *rewinder) run(ctx context.Context, o *Options, m *meter.Meter) error {
	from := make(map[int32]int64)
	for _, p := range r.mine {
		from[p] = r.offsets.Start[p]
	}
	cl, err := consumerClient(o, r.recorder, m.Window(), from)
	if err != nil {
		return err
	}
	defer cl.Close()
	r.begin()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A poll ends with the window: no later record counts.
	defer time.AfterFunc(r.window.Until()-r.window.Now(), cancel).Stop()
	for now := r.window.Now(); now < r.window.Until() && ctx.Err() == nil; {
		fetches := cl.PollFetches(ctx)
		began := now
		now = r.window.Now()
		r.take(fetches, began, now)
		if r.left == 0 {
			r.rewind(cl)
		}
	}
	return nil
}

// begin counts the partitions with records.
func (r *rewinder) begin() {
	r.left = 0
	for _, p := range r.mine {
		r.next[p] = r.offsets.Start[p]
		if r.offsets.End[p] > r.offsets.Start[p] {
			r.left++
		}
	}
	if r.left == 0 {
		r.left = -1 // an idle topic is followed, not read again
	}
}

// take counts the records of a poll.
func (r *rewinder) take(fetches kgo.Fetches, began, now time.Duration) {
	var a meter.Amount
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if p.Err != nil {
			if !errors.Is(p.Err, context.Canceled) {
				r.recorder.Fail(began, now, FailureName(p.Err), 1)
			}
			return
		}
		for _, rec := range p.Records {
			a.Payload += int64(len(rec.Value))
		}
		n := len(p.Records)
		if a.Records += int64(n); n == 0 {
			return
		}
		before, end := r.next[p.Partition], r.offsets.End[p.Partition]
		r.next[p.Partition] = p.Records[n-1].Offset + 1
		if before < end && r.next[p.Partition] >= end {
			r.left--
		}
	})
	if a.Records > 0 {
		r.recorder.Done(began, now, a)
	}
}

// rewind makes the consumer read from the start again.
func (r *rewinder) rewind(cl *kgo.Client) {
	back := make(map[int32]kgo.EpochOffset)
	for _, p := range r.mine {
		back[p] = kgo.EpochOffset{Epoch: -1, Offset: r.offsets.Start[p]}
	}
	cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{r.topic: back})
	r.begin()
}
