package record

import "fmt"

// NoKey is the message for a record without a key if Rules.RequireKeys is set. It is Kafka's
// message without the partition, which is unknown here.
const NoKey = "Compacted topic cannot accept message without key"

// checkRecord checks a well-formed record against the topic's rules.
func (r *Rules) checkRecord(i int32, h head, now int64, found *findings) {
	switch {
	case h.delta != i:
		found.add(InvalidRecord, i, "the offset delta is %d, it must be %d", h.delta, i)
	case r.RequireKeys && !h.key:
		found.add(InvalidRecord, i, NoKey)
	case r.LogAppendTime:
	case h.overflow:
		found.add(InvalidTimestamp, i, "the timestamp does not fit 64 bits")
	case h.timestamp == noTimestamp:
	case h.timestamp < 0:
		found.add(InvalidTimestamp, i, "the timestamp is %d, it must be 0 or more, or -1 for none", h.timestamp)
	case r.TimestampBefore > 0 && now-h.timestamp > r.TimestampBefore.Milliseconds():
		found.add(InvalidTimestamp, i, "the timestamp %d is more than %d ms before the broker's time %d",
			h.timestamp, r.TimestampBefore.Milliseconds(), now)
	case r.TimestampAfter > 0 && h.timestamp-now > r.TimestampAfter.Milliseconds():
		found.add(InvalidTimestamp, i, "the timestamp %d is more than %d ms after the broker's time %d",
			h.timestamp, r.TimestampAfter.Milliseconds(), now)
	}
}

// findings collects the records of a batch that break a rule. A single one is enough to reject the
// batch; the client receives all of them, so that it can drop them at once (KIP-467).
type findings struct {
	kind    Kind
	total   int
	records []Finding
}

func (f *findings) add(k Kind, index int32, format string, args ...any) {
	// As in Kafka, an invalid timestamp determines the code of a mixed batch.
	if f.total == 0 || k == InvalidTimestamp {
		f.kind = k
	}
	f.total++
	if len(f.records) < MaxFindings {
		f.records = append(f.records, Finding{Index: index, Msg: fmt.Sprintf(format, args...)})
	}
}

func (f *findings) err(count int32) error {
	if f.total == 0 {
		return nil
	}
	first := f.records[0]
	msg := first.Msg
	if f.total > 1 {
		msg = fmt.Sprintf("%s (the first of %d such records of %d)", msg, f.total, count)
	}
	return &Error{Kind: f.kind, Record: first.Index, Msg: msg, Records: f.records}
}
