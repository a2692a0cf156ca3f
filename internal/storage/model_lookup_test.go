package storage

import (
	"errors"
	"fmt"
)

// lookUp searches a log for a record by time, or for the largest timestamp, below a limit that is
// the end of a batch, like high watermarks.
func (r *reader) lookUp(t target) {
	before := t.m.view(t.l)
	limit := t.ackEnd()
	h := &before.of[0]
	if i := h.find(limit - 1 - r.rng.Int64N(20)); r.rng.IntN(2) == 0 && i < len(h.bs) {
		limit = min(limit, h.bs[i].next)
	}
	ask := lookup{target: t, limit: limit, ts: r.someTime(h), greatest: r.rng.IntN(3) == 0}
	var got Timestamp
	var err error
	if ask.greatest {
		got, err = t.l.MaxTime(limit)
	} else {
		got, err = r.w.cfg.findTimeOf()(t.l, ask.ts, limit)
	}
	after := t.m.view(t.l)
	switch {
	case err == nil:
		ask.judge(&before, &after, got)
	case after.closed || r.w.disk.Crashed():
	case (errors.Is(err, ErrOffsetOutOfRange) || errors.Is(err, ErrFailed)) && replacedMeanwhile(&before, &after):
		// A segment that it searched was removed or truncated.
	default:
		r.w.diskError(fmt.Sprintf("lookup %+v", ask), err)
	}
}

// someTime returns the timestamp of one of the newest records, or one close to it.
func (r *reader) someTime(h *history) int64 {
	if len(h.bs) == 0 {
		return 0
	}
	b := &h.bs[max(0, len(h.bs)-1-r.rng.IntN(30))]
	return b.records[r.rng.IntN(len(b.records))].time + r.rng.Int64N(3) - 1
}

// findTimeOf returns the way to search logs: that of the log unless a rule is disabled.
func (cfg *modelConfig) findTimeOf() func(l *Log, ts, limit int64) (Timestamp, error) {
	if cfg.findTime != nil {
		return cfg.findTime
	}
	return (*Log).FindTime
}

// lookup is a search for a timestamp.
type lookup struct {
	target
	ts, limit int64
	greatest  bool // instead of the first timestamp of at least ts
}

func (q *lookup) judge(before, after *view, got Timestamp) {
	if got.Offset >= q.limit {
		failf("%s: a lookup below %d answers %+v", q.m.topic, q.limit, got)
	}
	if replacedMeanwhile(before, after) {
		return // it is unknown which records counted
	}
	why := q.wrong(&after.of[0], after, max(before.high, after.high), got)
	if why == "" {
		return
	}
	what := fmt.Sprintf("the first record of %d or later", q.ts)
	if q.greatest {
		what = "the greatest timestamp"
	}
	failf("%s [%d, %d): %s below %d is said to be %+v, %s", q.m.topic, after.start, after.end, what, q.limit, got, why)
}

// wrong returns why an answer is wrong, "" if it is correct. In a compacted log a record that may
// have been removed may be found or missing.
func (q *lookup) wrong(h *history, v *view, high int64, got Timestamp) string {
	if got.Offset >= 0 {
		r := h.record(got.Offset)
		switch {
		case r == nil || got.Offset < v.start || r.time != got.Time || !q.greatest && r.time < q.ts:
			return fmt.Sprintf("which it is not: %+v", r)
		case h.bs[h.find(got.Offset)].epoch != got.Epoch:
			return fmt.Sprintf("which is of epoch %d", h.bs[h.find(got.Offset)].epoch)
		}
	}
	s := h.survivors(q.m, high)
	for i := h.find(v.start); i < len(h.bs); i++ {
		for k := range h.bs[i].records {
			r := &h.bs[i].records[k]
			if r.offset < v.start || r.offset >= q.limit || v.compacted && !s.has(r) {
				continue
			}
			if q.before(r, got) {
				return fmt.Sprintf("but %d has %d", r.offset, r.time)
			}
		}
	}
	return ""
}

// before reports whether a record is a better answer than got.
func (q *lookup) before(r *mrecord, got Timestamp) bool {
	none := got.Offset < 0
	if q.greatest {
		return none || r.time > got.Time || r.time == got.Time && r.offset < got.Offset
	}
	return r.time >= q.ts && (none || r.offset < got.Offset)
}
