package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/bench"
)

// Live is the line that a terminal shows while a run measures. It is used by one
// goroutine at a time.
type Live struct {
	w     io.Writer
	total time.Duration
	names []string
	texts map[string]string
	shown bool
}

// NewLive shows a run of c on w, which should be a terminal.
func NewLive(w io.Writer, c bench.Config) *Live {
	return &Live{w: w, total: c.Duration, texts: map[string]string{}}
}

// backToStart begins the line again and clears it (ECMA-48 EL).
const backToStart = "\r\x1b[K"

// Progress is a bench.Progress. What the terminal does not take is lost, and the
// run goes on.
func (l *Live) Progress(flow string, p bench.Point) {
	if !slices.Contains(l.names, flow) {
		l.names = append(l.names, flow)
	}
	text := fmt.Sprintf("%s %.0f/s %.1f MB/s", flow, per(p.Records, p.Width), per(p.PayloadBytes, p.Width)/1e6)
	if flow != bench.FlowReceived { // which has no latency
		text += fmt.Sprintf(" p50 %s p99 %s ms", millis(micros(p.P50))[0], millis(micros(p.P99))[0])
	}
	if p.Failures > 0 {
		text += fmt.Sprintf(" %d FAILED", p.Failures)
	}
	l.texts[flow] = text
	all := make([]string, len(l.names))
	for i, name := range l.names {
		all[i] = l.texts[name]
	}
	fmt.Fprintf(l.w, "%s%.0f of %.0f s  %s", backToStart, p.At.Seconds(), l.total.Seconds(), strings.Join(all, " | "))
	l.shown = true
}

// Done clears the line.
func (l *Live) Done() {
	if l.shown {
		fmt.Fprint(l.w, backToStart)
	}
	l.shown = false
}
