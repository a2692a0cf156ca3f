package cleaner

import (
	"fmt"
	"time"
)

// Policy is what a topic's configuration says of the age and size of its logs.
type Policy struct {
	// Delete: old parts go (cleanup.policy contains delete). Without it only what
	// lies below the log start does.
	Delete bool
	// Time is how old the newest record of a part must be for it to go
	// (retention.ms); negative: no age is too old.
	Time time.Duration
	// Bytes is what stays at least (retention.bytes); negative: everything.
	Bytes int64
	// Ahead is how far ahead of the clock a timestamp may lie and still be believed
	// (message.timestamp.after.max.ms).
	Ahead time.Duration
}

// Part is a segment of a log. The last one contains what is not in a segment yet.
type Part struct {
	Base, End int64 // offsets [Base, End)
	Bytes     int64
	Active    bool // the last one
	// Newest returns the largest timestamp of the records, in ms since 1970; negative
	// where there is none. It may read the disk, and is asked only where age decides.
	Newest func() (int64, error)
	// Written returns when the part was last written to. It is asked only where
	// Newest can't be believed.
	Written func() (time.Time, error)
}

// Bounds are the offsets between which retention may choose.
type Bounds struct {
	Start int64 // the log start: parts wholly below it go, whatever the policy
	High  int64 // a part that ends above it stays (the high watermark)
}

// Reason is why a part goes. The values are those of the metrics.
type Reason string

// The reasons.
const (
	ByTime  Reason = "time"
	BySize  Reason = "size"
	ByStart Reason = "start"
)

// Removal is a part that goes, and why, with the numbers that decided it.
type Removal struct {
	Part
	Reason Reason
	Why    string
}

// Verdict is what retention decides of one log.
type Verdict struct {
	// Gone are the first parts of the log, in their order.
	Gone []Removal
	kept func() string // nil where nothing is left
}

// Kept says in one sentence why the first part that stays does; "" if none does.
// Nothing is put into words before somebody asks: ten thousand logs are looked at
// for every one that is asked about.
func (v *Verdict) Kept() string {
	if v.kept == nil {
		return ""
	}
	return v.kept()
}

// Start is where the log begins once Gone is gone, at least old.
func (v *Verdict) Start(old int64) int64 {
	if n := len(v.Gone); n > 0 {
		return max(old, v.Gone[n-1].End)
	}
	return old
}

// Retain decides which parts of a log go at a moment. parts are all parts, in
// order and without overlap. From the oldest on, each goes for the first reason
// that holds, up to the first one for which none does: a younger part never goes
// before an older one.
func Retain(now time.Time, p Policy, b Bounds, parts []Part) Verdict {
	var total int64
	for i := range parts {
		total += parts[i].Bytes
	}
	var v Verdict
	for i := range parts {
		r, kept := judge(now, p, b, &parts[i], total)
		if kept != nil {
			v.kept = kept
			break
		}
		v.Gone = append(v.Gone, r)
		total -= parts[i].Bytes
	}
	return v
}

// judge decides about the oldest part that is left of a log that has total bytes:
// it goes, or kept says why it doesn't.
func judge(now time.Time, p Policy, b Bounds, part *Part, total int64) (r Removal, kept func() string) {
	r.Part = *part
	switch {
	case part.Bytes == 0:
		return r, words("active segment, which is empty")
	case part.End <= b.Start:
		r.Reason, r.Why = ByStart, fmt.Sprintf("it ends at %d, the log starts at %d", part.End, b.Start)
		return r, nil
	case part.End > b.High:
		return r, func() string { return fmt.Sprintf("its end %d is above the high watermark %d", part.End, b.High) }
	case !p.Delete:
		return r, words("cleanup.policy has no delete")
	case p.Time < 0 && p.Bytes < 0:
		return r, words("neither retention.ms nor retention.bytes is set")
	}
	old, age := p.old(now, part)
	if old {
		r.Reason, r.Why = ByTime, age()
		return r, nil
	}
	rest := total - part.Bytes
	if p.Bytes >= 0 && rest >= p.Bytes {
		r.Reason, r.Why = BySize, fmt.Sprintf("%d bytes stay without it, retention.bytes is %d", rest, p.Bytes)
		return r, nil
	}
	if p.Bytes < 0 {
		return r, age
	}
	return r, func() string {
		size := fmt.Sprintf("%d bytes would stay without it, less than retention.bytes %d", rest, p.Bytes)
		if p.Time < 0 {
			return size
		}
		return age() + "; " + size
	}
}

func words(s string) func() string { return func() string { return s } }

// old reports whether a part is old enough to go, and in words what decided that.
func (p Policy) old(now time.Time, part *Part) (bool, func() string) {
	if p.Time < 0 {
		return false, nil
	}
	newest, err := part.Newest()
	if err != nil {
		return false, func() string { return fmt.Sprintf("its timestamps can't be read: %v", err) }
	}
	at, believable := time.UnixMilli(newest), p.Believable(now, newest)
	if !believable {
		if at, err = part.Written(); err != nil {
			return false, func() string {
				return fmt.Sprintf("its newest timestamp %d can't be believed, and when it was written can't be told: %v", newest, err)
			}
		}
	}
	old := now.Sub(at) > p.Time
	return old, func() string {
		what, than := "newest record", "younger"
		if !believable {
			what = fmt.Sprintf("newest timestamp %d can't be believed; last write", newest)
		}
		if old {
			than = "older"
		}
		return fmt.Sprintf("%s %s is %s than retention.ms %d", what, at.UTC().Format(time.RFC3339), than, p.Time.Milliseconds())
	}
}

// Believable reports whether a timestamp, in ms since 1970, may be a record's: it is
// neither negative nor further ahead of the clock than the policy allows.
func (p Policy) Believable(now time.Time, ms int64) bool {
	return ms >= 0 && time.UnixMilli(ms).Sub(now) <= p.Ahead
}
