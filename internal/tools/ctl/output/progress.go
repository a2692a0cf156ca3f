package output

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Bounds of the progress line.
const (
	every = 100 * time.Millisecond
	width = 30 // characters of the bar
)

// Bar is a progress bar on one line of a terminal, which it erases at the end. It starts no
// goroutine: Add draws it, at most ten times a second. A nil Bar draws nothing. It is safe for
// concurrent use.
type Bar struct {
	w     io.Writer
	what  string
	total int64 // 0 if unknown

	mu    sync.Mutex
	done  int64
	begun time.Time
	drawn time.Time
}

// NewBar returns a bar that draws to w, or nil if show is false. total is in the units of Add; 0
// means unknown.
func NewBar(w io.Writer, show bool, what string, total int64) *Bar {
	if !show {
		return nil
	}
	return &Bar{w: w, what: what, total: total, begun: time.Now()}
}

// Add adds n to the progress.
func (b *Bar) Add(n int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += n
	now := time.Now()
	if now.Sub(b.drawn) < every {
		return
	}
	b.drawn = now
	fmt.Fprintf(b.w, "\r%s\x1b[K", b.line(now.Sub(b.begun)))
}

// line returns the text of the bar after the given time.
func (b *Bar) line(after time.Duration) string {
	rate := float64(b.done) / max(after.Seconds(), 1e-3)
	if b.total <= 0 {
		return fmt.Sprintf("%s %d, %.0f/s", b.what, b.done, rate)
	}
	part := min(float64(b.done)/float64(b.total), 1)
	full := int(part * width)
	text := fmt.Sprintf("%s [%s%s] %3.0f%%", b.what, strings.Repeat("#", full), strings.Repeat(".", width-full), part*100)
	if left := float64(b.total-b.done) / rate; b.done > 0 && left >= 1 {
		text += " " + (time.Duration(left) * time.Second).String() + " left"
	}
	return text
}

// End erases the line.
func (b *Bar) End() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.drawn.IsZero() {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}
