package top

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// paper stores the last screen.
type paper struct {
	mu   sync.Mutex
	text string
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = string(b)
	return len(b), nil
}

func (p *paper) shows(t *testing.T, want string, yes bool) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Contains(p.text, want) != yes {
		t.Errorf("whether it shows %q should be %v:\n%s", want, yes, p.text)
	}
}

// watch redraws the screen after each interval, survives a broker that fails or hangs, pauses,
// follows the terminal's size, and quits with q.
func TestWatching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var fails error
		var hangs chan struct{}
		asked := 0
		columns := 100
		out, pressed, resized := &paper{}, make(chan string), make(chan os.Signal)
		w := &watcher{out: out, size: func() (int, int) { return columns, 30 }, pressed: pressed, resized: resized,
			st: state{view: all, every: 2 * time.Second}, screen: screen{seeds: "a:9092"},
			ask: func(ctx context.Context) (*sample, error) {
				asked++
				if hangs != nil {
					select {
					case <-hangs:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				s := busy(int64(time.Since(begun) / time.Second))
				return s, fails
			}}
		ended := make(chan error)
		go func() { ended <- w.run(t.Context()) }()
		out.shows(t, "measuring", true)
		time.Sleep(2500 * time.Millisecond)
		out.shows(t, "orders", true)
		out.shows(t, "20.0k", true)
		out.shows(t, "__consumer_offsets", false)
		pressed <- "i"
		out.shows(t, "__consumer_offsets", true)

		fails = errors.New("connection refused")
		time.Sleep(2 * time.Second)
		out.shows(t, "not up to date: connection refused", true)
		out.shows(t, "orders", true)
		fails = nil
		time.Sleep(2 * time.Second)
		out.shows(t, "not up to date", false)

		hangs = make(chan struct{})
		time.Sleep(7 * time.Second)
		out.shows(t, "the broker has not answered for", true)
		pressed <- "t"
		out.shows(t, "BROKER", false)
		time.Sleep(sampleTime)
		out.shows(t, "not up to date: context deadline exceeded", true)
		close(hangs)
		time.Sleep(sampleTime)
		out.shows(t, "not up to date", false)

		pressed <- "p"
		synctest.Wait()
		before := asked
		time.Sleep(time.Minute)
		out.shows(t, "PAUSED", true)
		if asked != before {
			t.Errorf("%d samples in a pause", asked-before)
		}
		columns = 20
		resized <- os.Interrupt
		out.shows(t, "chronikctl top  a:90…", false)
		out.shows(t, "chronikctl top  a:9…", true)
		columns = 100
		pressed <- "p"
		out.shows(t, "PAUSED", false)
		if asked != before+1 {
			t.Errorf("%d samples after a pause, want one at once", asked-before)
		}
		pressed <- "q"
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWatchingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &watcher{out: &paper{}, size: func() (int, int) { return 80, 24 }, st: state{view: all, every: time.Second},
			ask: func(ctx context.Context) (*sample, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}
		ended := make(chan error)
		go func() { ended <- w.run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
