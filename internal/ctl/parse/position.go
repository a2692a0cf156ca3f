package parse

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is how a Position is meant.
type Kind uint8

// The kinds of positions.
const (
	Earliest Kind = iota
	Latest
	At       // an offset
	BeforeN  // so many records before the end
	FromTime // the first record that is not older
)

// Position is a place in a partition.
type Position struct {
	Kind   Kind
	Offset int64     // of At; of BeforeN the number of records
	Time   time.Time // of FromTime
}

// ReadPosition reads earliest, latest, an offset, -N for N records before the end, or
// whatever Time reads.
func ReadPosition(s string, now time.Time) (Position, error) {
	switch strings.ToLower(s) {
	case "earliest", "beginning", "start":
		return Position{Kind: Earliest}, nil
	case "latest", "end":
		return Position{Kind: Latest}, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && s[0] != '+' {
		if s[0] == '-' {
			if n == 0 || n == -1<<63 {
				return Position{}, fmt.Errorf("%q is no number of records before the end", s)
			}
			return Position{Kind: BeforeN, Offset: -n}, nil
		}
		return Position{Kind: At, Offset: n}, nil
	}
	t, err := Time(s, now)
	if err != nil {
		return Position{}, fmt.Errorf("%q is none of earliest, latest, an offset, -N for N records before the end, a time (2006-01-02, \"2006-01-02 15:04:05\", 2006-01-02T15:04:05Z, @MILLISECONDS) or 5m, 2h, 7d for that long ago", s)
	}
	return Position{Kind: FromTime, Time: t}, nil
}

// String is how the position would be written.
func (p Position) String() string {
	switch p.Kind {
	case Earliest:
		return "earliest"
	case Latest:
		return "latest"
	case BeforeN:
		return fmt.Sprint(-p.Offset)
	case FromTime:
		return p.Time.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return fmt.Sprint(p.Offset)
}
