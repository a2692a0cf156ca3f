package output

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Bounds of the line.
const (
	every = 100 * time.Millisecond
	width = 30 // characters of the bar
)

// Bar is one line of progress. A nil Bar shows nothing. It may be used by
// several goroutines.
type Bar struct {
	w     io.Writer
	what  string
	total int64 // 0 where it is not known

	mu    sync.Mutex
	done  int64
	begun time.Time
	drawn time.Time
}

// NewBar returns a bar that draws to w, or nil where show is false. total is in the
// units of Add; 0 counts without an end.
func NewBar(w io.Writer, show bool, what string, total int64) *Bar {
	if !show {
		return nil
	}
	return &Bar{w: w, what: what, total: total, begun: time.Now()}
}

// Add says that n more are done.
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

// line is what is drawn after so long.
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

// End takes the line away.
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
