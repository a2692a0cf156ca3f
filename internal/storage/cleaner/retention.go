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
		reason, why := judge(now, p, b, &parts[i], total)
		if reason == "" {
			v.kept = why
			break
		}
		v.Gone = append(v.Gone, Removal{Part: parts[i], Reason: reason, Why: why()})
		total -= parts[i].Bytes
	}
	return v
}

// say puts into words later.
func say(format string, args ...any) func() string {
	return func() string { return fmt.Sprintf(format, args...) }
}

// judge decides about the oldest part that is left of a log that has total bytes: the
// reason for which it goes, empty if it stays, and why.
func judge(now time.Time, p Policy, b Bounds, part *Part, total int64) (Reason, func() string) {
	switch {
	case part.Bytes == 0:
		return "", say("active segment, which is empty")
	case part.End <= b.Start:
		return ByStart, say("it ends at %d, the log starts at %d", part.End, b.Start)
	case part.End > b.High:
		return "", say("its end %d is above the high watermark %d", part.End, b.High)
	case !p.Delete:
		return "", say("cleanup.policy has no delete")
	case p.Time < 0 && p.Bytes < 0:
		return "", say("neither retention.ms nor retention.bytes is set")
	}
	old, age := p.old(now, part)
	rest := total - part.Bytes
	switch {
	case old:
		return ByTime, age
	case p.Bytes < 0:
		return "", age
	case rest >= p.Bytes:
		return BySize, say("%d bytes stay without it, retention.bytes is %d", rest, p.Bytes)
	}
	return "", func() string {
		size := fmt.Sprintf("%d bytes would stay without it, less than retention.bytes %d", rest, p.Bytes)
		if p.Time < 0 {
			return size
		}
		return age() + "; " + size
	}
}

// old reports whether a part is old enough to go, and in words what decided that.
func (p Policy) old(now time.Time, part *Part) (bool, func() string) {
	if p.Time < 0 {
		return false, nil
	}
	newest, err := part.Newest()
	if err != nil {
		return false, say("its timestamps can't be read: %v", err)
	}
	at, what, than := time.UnixMilli(newest), "newest record", "younger"
	if !p.Believable(now, newest) {
		if at, err = part.Written(); err != nil {
			return false, say("its newest timestamp %d can't be believed, and when it was written can't be told: %v", newest, err)
		}
		what = fmt.Sprintf("newest timestamp %d can't be believed; last write", newest)
	}
	old := now.Sub(at) > p.Time
	if old {
		than = "older"
	}
	return old, func() string {
		return fmt.Sprintf("%s %s is %s than retention.ms %d", what, at.UTC().Format(time.RFC3339), than, p.Time.Milliseconds())
	}
}

// Believable reports whether a timestamp, in ms since 1970, may be a record's: it is
// neither negative nor further ahead of the clock than the policy allows.
func (p Policy) Believable(now time.Time, ms int64) bool {
	return ms >= 0 && time.UnixMilli(ms).Sub(now) <= p.Ahead
}
