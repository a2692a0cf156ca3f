package results

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench"
)

// Live shows the progress of a run while it measures: on a terminal as a line that is replaced,
// otherwise as a line every ten seconds. One goroutine at a time may use it.
type Live struct {
	w        io.Writer
	terminal bool
	total    time.Duration
	at, next time.Duration // of the interval: reached, and of the next line
	names    []string
	texts    map[string]string
	shown    bool
}

// lineEvery is the interval of lines without a terminal.
const lineEvery = 10 * time.Second

// NewLive shows a run of c on w.
func NewLive(w io.Writer, c bench.Config, terminal bool) *Live {
	return &Live{w: w, terminal: terminal, total: c.Duration, next: lineEvery, texts: map[string]string{}}
}

// backToStart moves to the start of the line and clears it (ECMA-48 EL).
const backToStart = "\r\x1b[K"

// Progress is a bench.Progress. An error of the writer does not end the run.
func (l *Live) Progress(flow string, p bench.Point) {
	if !l.terminal && l.at >= l.next && p.At > l.at {
		fmt.Fprintln(l.w, l.line()) // with the reports of all flows about that point
		l.next += lineEvery
	}
	l.at = max(l.at, p.At)
	if !slices.Contains(l.names, flow) {
		l.names = append(l.names, flow)
	}
	text := fmt.Sprintf("%s %.0f/s %.1f MB/s", flow, per(p.Records, p.Width), per(p.PayloadBytes, p.Width)/1e6)
	if flow != bench.FlowReceived { // which has no latency
		text += fmt.Sprintf(" p50 %s p99 %s ms", Millis(micros(p.P50))[0], Millis(micros(p.P99))[0])
	}
	if p.Failures > 0 {
		text += fmt.Sprintf(" %d FAILED", p.Failures)
	}
	l.texts[flow] = text
	if l.terminal {
		fmt.Fprint(l.w, backToStart+l.line())
		l.shown = true
	}
}

func (l *Live) line() string {
	all := make([]string, len(l.names))
	for i, name := range l.names {
		all[i] = l.texts[name]
	}
	return fmt.Sprintf("%.0f of %.0f s  %s", l.at.Seconds(), l.total.Seconds(), strings.Join(all, " | "))
}

// Done clears the line.
func (l *Live) Done() {
	if l.shown {
		fmt.Fprint(l.w, backToStart)
	}
	l.shown = false
}
