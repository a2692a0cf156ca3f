package parse

import (
	"errors"
	"time"
)

// DurationFlag is a flag with a duration, which may be in days: 7d.
type DurationFlag time.Duration

// Value returns the duration.
func (d DurationFlag) Value() time.Duration { return time.Duration(d) }

// String formats the duration as a default value.
func (d DurationFlag) String() string { return time.Duration(d).String() }

// Set parses a duration. It accepts negative ones: the command knows its bounds.
func (d *DurationFlag) Set(s string) error {
	v, ok := Duration(s)
	if !ok {
		var err error
		if v, err = time.ParseDuration(s); err != nil {
			return errors.New(`must be a duration like "500ms", "30s" or "2d"`)
		}
	}
	*d = DurationFlag(v)
	return nil
}

// Type returns the placeholder that --help shows.
func (*DurationFlag) Type() string { return "duration" }
