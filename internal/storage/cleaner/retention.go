package cleaner

import (
	"fmt"
	"math"
	"time"
)

// Policy is the part of a topic's configuration that concerns retention.
type Policy struct {
	// Delete enables removal by time and size (cleanup.policy contains delete). Without it, only
	// parts below the log start are removed.
	Delete bool
	// Time is the age of a part's newest record from which the part is removed (retention.ms).
	// Negative: no limit.
	Time time.Duration
	// Bytes is the minimum size that stays (retention.bytes). Negative: everything stays.
	Bytes int64
	// Ahead is how far ahead of the clock a timestamp may be and still be believable
	// (message.timestamp.after.max.ms).
	Ahead time.Duration
	// Local: Time and Bytes are local.retention.ms and local.retention.bytes, as explanations name
	// them.
	Local bool
}

// name returns the name of retention.ms or retention.bytes.
func (p Policy) name(of string) string {
	if p.Local {
		return "local." + of
	}
	return of
}

// Part is a segment of a log. The last one includes the data that is not in a segment yet.
type Part struct {
	Base, End int64 // offsets [Base, End)
	Bytes     int64
	Active    bool // the last one
	// Newest returns the largest timestamp of the records, in ms since 1970, negative if there is
	// none. It may read the disk, and is called only if age decides.
	Newest func() (int64, error)
	// Written returns the time of the last write. It is called only if Newest is not believable.
	Written func() (time.Time, error)
}

// Bounds are the offsets that limit retention.
type Bounds struct {
	Start int64 // the log start: parts entirely below it are removed under any policy
	High  int64 // the high watermark: a part that ends above it stays
	// Stable is the last stable offset: a part that ends above it stays, because an open
	// transaction may have records in it. At least High if no transaction is open.
	Stable int64
	// Copied is the end of what is copied elsewhere: a part that ends above it stays. MaxInt64 if
	// parts need no copy.
	Copied int64
}

// Reason is the reason for a removal, as a metric label.
type Reason string

// The reasons.
const (
	ByTime  Reason = "time"
	BySize  Reason = "size"
	ByStart Reason = "start"
)

// Removal is a part to remove. Why explains the reason, with the numbers that decided it.
type Removal struct {
	Part
	Reason Reason
	Why    string
}

// Verdict is the decision of retention for one log.
type Verdict struct {
	// Gone are the oldest parts of the log, which are to be removed, in order.
	Gone   []Removal
	kept   func() string // nil if no part stays
	copied bool          // the object store has what is removed, or may have it
}

// Kept explains in one sentence why the oldest remaining part stays; "" if no part stays. The text
// is formatted on demand, because it is requested for very few of the logs that retention checks.
func (v *Verdict) Kept() string {
	if v.kept == nil {
		return ""
	}
	return v.kept()
}

// Start returns the log start after the removal of Gone, at least old.
func (v *Verdict) Start(old int64) int64 {
	if n := len(v.Gone); n > 0 {
		return max(old, v.Gone[n-1].End)
	}
	return old
}

// Expires returns the offset below which Gone takes the last copy of records because of their age
// or the log's size, 0 if it takes none: others have moved the log start, or the object store has
// the records.
func (v *Verdict) Expires() (end int64) {
	for i := range v.Gone {
		if !v.copied && v.Gone[i].Reason != ByStart {
			end = v.Gone[i].End
		}
	}
	return end
}

// Retain decides which parts of a log are removed now. parts are all parts in order, without
// overlap. Starting with the oldest part, each is removed for the first reason that applies; the
// first part without a reason ends this. So a younger part is never removed before an older one.
func Retain(now time.Time, p Policy, b Bounds, parts []Part) Verdict {
	var total int64
	for i := range parts {
		total += parts[i].Bytes
	}
	v := Verdict{copied: b.Copied < math.MaxInt64}
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

// onDemand formats a text on demand.
func onDemand(format string, args ...any) func() string {
	return func() string { return fmt.Sprintf(format, args...) }
}

// judge decides on the oldest remaining part of a log of total bytes. It returns the reason for its
// removal, empty if it stays, and an explanation.
func judge(now time.Time, p Policy, b Bounds, part *Part, total int64) (Reason, func() string) {
	switch {
	case part.Bytes == 0:
		return "", onDemand("the active segment is empty")
	case part.End <= b.Start:
		return ByStart, onDemand("it ends at %d, the log starts at %d", part.End, b.Start)
	case part.End > b.High:
		return "", onDemand("its end %d is above the high watermark %d", part.End, b.High)
	case part.End > b.Stable:
		return "", onDemand("its end %d is above the last stable offset %d: a transaction is open", part.End, b.Stable)
	case part.End > b.Copied:
		return "", onDemand("its end %d is above %d, up to which the object store has the records", part.End, b.Copied)
	case !p.Delete:
		return "", onDemand("cleanup.policy does not contain delete")
	case p.Time < 0 && p.Bytes < 0:
		return "", onDemand("neither %s nor %s is set", p.name("retention.ms"), p.name("retention.bytes"))
	}
	old, age := p.old(now, part)
	rest := total - part.Bytes
	switch {
	case old:
		return ByTime, age
	case p.Bytes < 0:
		return "", age
	case rest >= p.Bytes:
		return BySize, onDemand("%d bytes remain without it, %s is %d", rest, p.name("retention.bytes"), p.Bytes)
	}
	return "", func() string {
		size := fmt.Sprintf("%d bytes would remain without it, less than %s %d", rest, p.name("retention.bytes"), p.Bytes)
		if p.Time < 0 {
			return size
		}
		return age() + "; " + size
	}
}

// old reports whether a part is old enough to be removed, and explains the result.
func (p Policy) old(now time.Time, part *Part) (bool, func() string) {
	if p.Time < 0 {
		return false, nil
	}
	newest, err := part.Newest()
	if err != nil {
		return false, onDemand("its timestamps cannot be read: %v", err)
	}
	at, what, than := time.UnixMilli(newest), "newest record", "younger"
	if !p.Believable(now, newest) {
		if at, err = part.Written(); err != nil {
			return false, onDemand("its newest timestamp %d is not believable, and the time of its last write is unknown: %v", newest, err)
		}
		what = fmt.Sprintf("newest timestamp %d is not believable; last write", newest)
	}
	old := now.Sub(at) > p.Time
	if old {
		than = "older"
	}
	return old, func() string {
		limit := p.name("retention.ms")
		return fmt.Sprintf("%s %s is %s than %s %d", what, at.UTC().Format(time.RFC3339), than, limit, p.Time.Milliseconds())
	}
}

// Believable reports whether a timestamp, in ms since 1970, is plausible: not negative and not
// further ahead of the clock than the policy allows.
func (p Policy) Believable(now time.Time, ms int64) bool {
	return ms >= 0 && time.UnixMilli(ms).Sub(now) <= p.Ahead
}
