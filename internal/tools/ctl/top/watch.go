package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Escape sequences (ECMA-48, xterm): switch to the alternate screen without a cursor and back, move
// the cursor home, erase the rest of the line and of the screen.
const (
	enter     = "\x1b[?1049h\x1b[?25l"
	leave     = "\x1b[?25h\x1b[?1049l"
	begin     = "\x1b[H"
	restLine  = "\x1b[K"
	restPlace = "\x1b[J"
)

// sampleTime bounds the wait for a sample from a broker that hangs.
const sampleTime = 10 * time.Second

// watcher draws the screen until it is stopped.
type watcher struct {
	out     io.Writer
	size    func() (columns, rows int)
	ask     func(context.Context) (*sample, error)
	pressed <-chan string
	resized <-chan os.Signal
	st      state
	screen  screen

	last *sample
}

// watch runs top in a terminal, with in for keys and a.Out for the screen.
func watch(ctx context.Context, a *app.App, k *collector, in *os.File, st state) error {
	out := a.Out
	restore, err := cli.CharacterMode(in)
	if err != nil {
		return fmt.Errorf("top: %w; --once works without a terminal", err)
	}
	defer restore()
	if _, err := io.WriteString(out, enter); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	defer io.WriteString(out, leave) //nolint:errcheck // the run's own error is reported
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	ctx, cancel := context.WithCancel(ctx)
	pressed, ended := make(chan string), make(chan struct{})
	go func() {
		defer close(ended)
		pressKeys(ctx, in, pressed)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	w := &watcher{
		out: out, size: func() (int, int) { return cli.TerminalSize(out) }, ask: k.sample, pressed: pressed, resized: resized,
		st: st, screen: screen{seeds: strings.Join(a.Settings.Seeds(), ",")},
	}
	return w.run(ctx)
}

// pressKeys sends the keys of a terminal in character mode until ctx ends.
func pressKeys(ctx context.Context, in io.Reader, pressed chan<- string) {
	p := make([]byte, 64)
	for ctx.Err() == nil {
		n, _ := in.Read(p) // io.EOF means no key for 100 ms; if the terminal is gone, SIGHUP ends the process
		for _, key := range readKeys(p[:n]) {
			select {
			case pressed <- key:
			case <-ctx.Done():
			}
		}
	}
}

// sampleResult is the result of taking a sample.
type sampleResult struct {
	s   *sample
	err error
}

// run draws until q is pressed or ctx ends. It takes one sample at a time on a separate goroutine,
// so that keys work while a broker hangs.
func (w *watcher) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan sampleResult)
	asking, begun := false, time.Time{}
	askNow := func() {
		asking, begun = true, time.Now()
		go func() {
			one, end := context.WithTimeout(ctx, sampleTime)
			defer end()
			s, err := w.ask(one)
			answers <- sampleResult{s, err}
		}()
	}
	defer func() {
		cancel()
		if asking {
			<-answers
		}
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	tick := time.NewTicker(time.Second) // to show how long an answer has been pending
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			if !asking && !w.st.paused {
				askNow()
			}
		case t := <-answers:
			asking = false
			w.handle(t)
			next.Reset(w.st.every)
		case key := <-w.pressed:
			paused := w.st.paused
			w.st.press(key, w.grids())
			if w.st.quit {
				return nil
			}
			if paused && !w.st.paused && !asking {
				next.Reset(0)
			}
		case <-w.resized:
		case <-tick.C:
		}
		w.screen.waits = 0
		if asking {
			w.screen.waits = time.Since(begun)
		}
		if err := w.draw(); err != nil {
			return err
		}
	}
}

// handle handles a sample. After an error the screen stays as it is: the broker may come back.
func (w *watcher) handle(t sampleResult) {
	if w.screen.err = t.err; t.err != nil {
		return
	}
	if w.last != nil {
		w.screen.report = compare(w.last, t.s)
	}
	w.last = t.s
}

func (w *watcher) grids() []*grid {
	if w.screen.report == nil {
		return nil
	}
	return w.screen.report.grids()
}

func (w *watcher) draw() error {
	columns, rows := w.size()
	s := w.screen
	if s.report != nil && !w.st.internal {
		r := *s.report
		r.Topics = append([]Topic(nil), r.Topics...)
		r.hideInternal()
		s.report = &r
	}
	var b strings.Builder
	b.WriteString(begin)
	for i, line := range s.draw(&w.st, columns, rows) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + restLine)
	}
	b.WriteString(restPlace)
	if _, err := io.WriteString(w.out, b.String()); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
