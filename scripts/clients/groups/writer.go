package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// writer writes numbered records to topics, about 500 per second to each, until it is stopped.
type writer struct {
	cl    *kgo.Client
	world *world
	quit  chan struct{} // closed by stop, once
	once  sync.Once
	wg    sync.WaitGroup
	mu    sync.Mutex
	errs  []error
}

func newWriter(cl *kgo.Client, w *world) *writer {
	return &writer{cl: cl, world: w, quit: make(chan struct{})}
}

func (w *writer) write(topic string) {
	w.wg.Go(func() {
		tick := time.NewTicker(40 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; {
			for range 20 {
				w.one(topic, fmt.Sprintf("%s/%d", topic, i))
				i++
			}
			select {
			case <-w.quit:
				return
			case <-tick.C:
			}
		}
	})
}

// one writes a record; while the broker is down the client buffers it.
func (w *writer) one(topic, value string) {
	w.cl.Produce(context.Background(), &kgo.Record{Topic: topic, Value: []byte(value)}, func(r *kgo.Record, err error) {
		if err != nil {
			w.mu.Lock()
			w.errs = append(w.errs, fmt.Errorf("write %s: %w", value, err))
			w.mu.Unlock()
			return
		}
		w.world.acked(place{r.Topic, r.Partition}, r.Offset, value)
	})
}

// stop stops writing and waits until all records are acknowledged.
func (w *writer) stop() {
	w.once.Do(func() {
		close(w.quit)
		w.wg.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := w.cl.Flush(ctx); err != nil {
			w.mu.Lock()
			w.errs = append(w.errs, fmt.Errorf("flush: %w", err))
			w.mu.Unlock()
		}
	})
}

func (w *writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.errs[:min(3, len(w.errs))]...)
}

// stopped reports whether writing has stopped.
func (w *writer) stopped() bool {
	select {
	case <-w.quit:
		return true
	default:
		return false
	}
}

// count returns the number of acknowledged records.
func (w *writer) count() (n int64) {
	for _, end := range w.ends() {
		n += end
	}
	return n
}

// ends returns the offsets up to which all records are acknowledged.
func (w *writer) ends() map[place]int64 {
	w.world.mu.Lock()
	defer w.world.mu.Unlock()
	return maps.Clone(w.world.ends)
}
