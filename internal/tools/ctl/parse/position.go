package parse

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a Position.
type Kind uint8

// The kinds of positions.
const (
	Earliest Kind = iota
	Latest
	At       // an offset
	BeforeN  // a number of records before the end
	FromTime // the first record that is not older than a time
)

// Position is a position in a partition.
type Position struct {
	Kind   Kind
	Offset int64     // offset of At; number of records of BeforeN
	Time   time.Time // time of FromTime
}

// ReadPosition parses earliest, latest, an offset, -N for N records before the end, or what Time
// parses.
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
				return Position{}, fmt.Errorf("%q is not a number of records before the end", s)
			}
			return Position{Kind: BeforeN, Offset: -n}, nil
		}
		return Position{Kind: At, Offset: n}, nil
	}
	t, err := Time(s, now)
	if err != nil {
		return Position{},
			fmt.Errorf(
				"%q is none of earliest, latest, an offset, -N for N records before the end, a time (2006-01-02, "+
					"\"2006-01-02 15:04:05\", 2006-01-02T15:04:05Z, @MILLISECONDS) or 5m, 2h, 7d for that long ago",
				s)
	}
	return Position{Kind: FromTime, Time: t}, nil
}

// String returns the position as ReadPosition accepts it.
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
