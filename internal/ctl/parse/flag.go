package parse

import (
	"fmt"
	"time"
)

// DurationFlag is a flag's value: a duration that may be in days, 7d.
type DurationFlag time.Duration

// Value is the duration.
func (d DurationFlag) Value() time.Duration { return time.Duration(d) }

// String is how the duration is shown as a default.
func (d DurationFlag) String() string { return time.Duration(d).String() }

// Set reads what was written. A negative duration is left to the command to refuse, which
// knows its bounds.
func (d *DurationFlag) Set(s string) error {
	v, ok := Duration(s)
	if !ok {
		var err error
		if v, err = time.ParseDuration(s); err != nil {
			return fmt.Errorf("invalid duration %q", s)
		}
	}
	*d = DurationFlag(v)
	return nil
}

// Type is what --help shows behind the flag's name.
func (*DurationFlag) Type() string { return "duration" }
