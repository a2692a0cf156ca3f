package diagnose

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Options are what a Watcher is started with.
type Options struct {
	// Facts gathers what checks go by. It is called by one goroutine, never on a
	// request's path, and may wait for the disk.
	Facts func() *Facts
	// Checks are run over them.
	Checks []Check
	// Every is how often.
	Every time.Duration
	// Log gets a line for a finding that comes and for one that goes.
	Log *zap.Logger
}

// Watcher runs checks. Its goroutine, which Start starts and Stop ends, is the
// only one that gathers facts.
type Watcher struct {
	o     Options
	last  atomic.Pointer[Result]
	asks  chan chan *Result
	speak chan chan *Result
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once

	// The goroutine's.
	speaks bool
	told   map[key]Finding
}

// key is what makes two findings the same one: its numbers may change.
type key struct {
	check    string
	severity Severity
	subject  string
	nth      int // of those that are the same otherwise
}

// Start runs the checks once, at once, and then as often as the options say.
func Start(o Options) *Watcher {
	w := &Watcher{o: o, asks: make(chan chan *Result), speak: make(chan chan *Result), quit: make(chan struct{}), done: make(chan struct{}),
		told: map[key]Finding{}}
	w.last.Store(&Result{})
	go w.run()
	return w
}

// Last is what was found last, without waiting; never nil.
func (w *Watcher) Last() *Result { return w.last.Load() }

// Now runs the checks and returns what they find. Where the context ends or the
// Watcher is stopped before, it is what was found last, with an error.
func (w *Watcher) Now(ctx context.Context) (*Result, error) { return w.await(ctx, w.asks) }

// Speak runs the checks and has findings logged from now on: a start that fails is
// told by its error alone. It waits until the log has them, or the context ends.
func (w *Watcher) Speak(ctx context.Context) error {
	_, err := w.await(ctx, w.speak)
	return err
}

func (w *Watcher) await(ctx context.Context, asks chan chan *Result) (*Result, error) {
	answer := make(chan *Result, 1)
	select {
	case asks <- answer:
	case <-w.done:
		return w.Last(), errors.New("look for findings: the broker stops")
	case <-ctx.Done():
		return w.Last(), fmt.Errorf("look for findings: %w", ctx.Err())
	}
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		return w.Last(), fmt.Errorf("look for findings: %w", ctx.Err())
	}
}

// Stop ends the goroutine and waits for it, as long as the context lasts: a file
// system that does not answer may hold it. A second call only waits.
func (w *Watcher) Stop(ctx context.Context) {
	w.once.Do(func() { close(w.quit) })
	select {
	case <-w.done:
	case <-ctx.Done():
	}
}

func (w *Watcher) run() {
	defer close(w.done)
	tick := time.NewTicker(w.o.Every)
	defer tick.Stop()
	w.look()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
			w.look()
		case answer := <-w.asks:
			answer <- w.look()
		case answer := <-w.speak:
			w.speaks = true
			answer <- w.look()
		}
	}
}

// look runs the checks and tells the log what changed.
func (w *Watcher) look() *Result {
	r := Examine(w.o.Checks, w.o.Facts())
	w.last.Store(r)
	if w.speaks {
		w.compare(r)
	}
	return r
}

// compare logs what came and what went since the last time.
func (w *Watcher) compare(r *Result) {
	checks := map[string]Check{}
	for _, c := range w.o.Checks {
		checks[c.Name] = c
	}
	now := make(map[key]Finding, len(r.Findings))
	for _, f := range r.Findings {
		if f.Told {
			continue
		}
		k := key{f.Check, f.Severity, f.Subject, 0}
		for ; now[k].Check != ""; k.nth++ {
		}
		now[k] = f
		if _, known := w.told[k]; !known {
			w.tell(f, checks[f.Check].Loud)
		}
	}
	for k, f := range w.told {
		if _, still := now[k]; !still {
			w.o.Log.Info("no longer: "+f.What, zap.String("check", f.Check), zap.String("subject", f.Subject))
		}
	}
	w.told = now
}

func (w *Watcher) tell(f Finding, loud bool) {
	log := w.o.Log.Warn
	switch {
	case f.Severity == Bad:
		log = w.o.Log.Error
	case f.Severity == Note && !loud:
		log = w.o.Log.Info
	}
	log(f.What, zap.String("check", f.Check), zap.String("subject", f.Subject), zap.String("remedy", f.Remedy))
}
