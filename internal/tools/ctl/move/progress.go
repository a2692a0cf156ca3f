package move

import "time"

const (
	// progressGap is the time between two lines about the moves in progress.
	progressGap = 5 * time.Second
	// standsStill is how long nothing completes until a line says where the reason may be found.
	standsStill = time.Minute
)

// Progress chooses the lines that a command prints about moves in progress, so that an operator who
// waits knows for what.
type Progress struct {
	line    string    // the last one
	changed time.Time // when it came
	printed string
	at      time.Time // when a line was printed
}

// NewProgress returns the Progress of moves that begin now.
func NewProgress(now time.Time) *Progress { return &Progress{changed: now, at: now} }

// Line returns what is to be printed at a time at which line describes the moves, "" for nothing.
func (p *Progress) Line(now time.Time, line string) string {
	if line != p.line {
		p.line, p.changed = line, now
	}
	switch {
	case now.Sub(p.changed) >= standsStill:
		p.changed = now
		line += "; that has not changed for a minute: chronikctl cluster health names the reason if a copy stands still"
	case line == p.printed || now.Sub(p.at) < progressGap:
		return ""
	}
	p.printed, p.at = p.line, now
	return line
}
