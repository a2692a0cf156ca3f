package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/admin/page"
	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/text"
)

// Limits of reading records for a page.
const (
	recordBytes    = 4 << 20  // of batches, as stored
	recordInflated = 64 << 20 // after decompression
)

// Records implements page.Source. It reads up to recordBytes of batches, and ends with a note if
// that is not enough or if a batch cannot be read. A replica that does not lead is as good: its
// records below its high watermark are those of the leader.
func (s *source) Records(ctx context.Context, topic string, partition int32, which page.Which) (page.Records, error) {
	v, err := s.view()
	if err != nil {
		return page.Records{}, err
	}
	t := v.Image().Topic(topic)
	if t == nil {
		return page.Records{}, page.NotFound("There is no topic %q", topic)
	}
	if t.Partitions.At(partition) == nil {
		return page.Records{}, page.NotFound("Topic %q has no partition %d", topic, partition)
	}
	if brokers := t.Partitions.At(partition).Replicas; !slices.Contains(brokers, v.Node) {
		return page.Records{}, page.NotFound("This broker has no replica of %s-%d; the pages of the brokers %s show its records", topic,
			partition, text.Numbers(brokers))
	}
	p, err := v.Replicas.Partition(t.ID, partition)
	if err != nil {
		return page.Records{}, fmt.Errorf("partition %d of %s: %w", partition, topic, err)
	}
	ends, err := p.Readable()
	if err != nil {
		return page.Records{}, fmt.Errorf("partition %d of %s: %w", partition, topic, err)
	}
	c := collector{bytes: recordBytes, most: which.Most, inflate: record.Limits{Bytes: recordInflated, Places: s.o.Batches}}
	if c.from, err = begin(p, ends, which); err != nil {
		c.note = fmt.Sprintf("The records from that time on cannot be found: %v.", err)
	}
	c.next = c.from
	for c.next < ends.HighWatermark && c.note == "" && len(c.list) < c.most && ctx.Err() == nil {
		c.read(p)
	}
	s.recordRead(ctx, topic, partition, &c)
	last := which.From < 0 && which.Since.IsZero()
	if wanted := min(int64(which.Most), ends.HighWatermark-ends.LogStart); last && c.note == "" && int64(len(c.list)) < wanted {
		c.note = fmt.Sprintf(
			"The last %d offsets hold no more records: compaction has removed the others, or they are transaction markers.",
			wanted,
		)
	}
	return page.Records{Start: ends.LogStart, High: ends.HighWatermark, List: c.list, Next: c.next, Note: c.note}, ctx.Err()
}

// recordRead records in the audit log who has read which records.
func (s *source) recordRead(ctx context.Context, topic string, partition int32, c *collector) {
	client, ok := audit.From(ctx)
	if !ok || s.o.Audit == nil {
		return
	}
	what := fmt.Sprintf("no records from offset %d on", c.from)
	if c.next > c.from {
		what = fmt.Sprintf("%d records of offsets %d to %d", len(c.list), c.from, c.next-1)
	}
	s.o.Audit().Record(audit.Event{Kind: audit.Read, Client: client, Operation: "READ",
		Resource: fmt.Sprintf("Partition:LITERAL:%s-%d", topic, partition), Why: what})
}

// begin returns the first offset to show.
func begin(p *replica.Partition, ends replica.Ends, which page.Which) (int64, error) {
	switch {
	case which.From >= 0:
		return min(max(which.From, ends.LogStart), ends.HighWatermark), nil
	case which.Since.IsZero():
		return max(ends.LogStart, ends.HighWatermark-int64(which.Most)), nil
	}
	found, err := p.Log().FindTime(which.Since.UnixMilli(), ends.HighWatermark)
	if err != nil || found.Offset < 0 { // there are none so late
		return ends.HighWatermark, err
	}
	return found.Offset, nil
}

// collector collects the records from an offset on, cut at the page's limits.
type collector struct {
	from, next int64
	most       int           // records
	bytes      int64         // still allowed to read
	inflate    record.Limits // still allowed
	list       []page.Record
	note       string
}

// errEnough ends the reading of a batch whose other records are on the next page.
var errEnough = errors.New("enough records")

// read appends the records of the next batches. It advances next, or sets note.
func (c *collector) read(p *replica.Partition) {
	res, err := p.Read(replica.ReadRequest{Offset: c.next, MaxBytes: int(c.bytes), CurrentEpoch: -1, FetchedEpoch: -1, AnyReplica: true})
	defer res.Release()
	if err != nil {
		c.note = fmt.Sprintf("The records from offset %d on cannot be read: %v.", c.next, err)
		return
	}
	before := c.next
	for _, rest := range res.Parts {
		for len(rest) > 0 {
			var b record.Batch
			if b, rest, err = record.Next(rest); err != nil {
				c.note = fmt.Sprintf("The records from offset %d on cannot be read: %v.", c.next, err)
				return
			}
			if !c.add(b) {
				return
			}
		}
	}
	if c.next == before {
		c.note = fmt.Sprintf(
			"The records from offset %d on are not shown: this page reads at most %d MiB of batches.",
			c.next,
			recordBytes>>20,
		)
	}
}

// add appends a batch's records. It reports whether more may follow.
func (c *collector) add(b record.Batch) bool {
	c.next = b.LastOffset() + 1
	c.bytes -= int64(b.Size())
	if b.Control() {
		return true
	}
	// Records can be much larger outside a compressed batch, and millions in number.
	err := b.Each(c.inflate, func(r record.Record) error {
		c.inflate.Bytes -= int64(len(r.Key) + len(r.Value) + r.Headers.Size())
		if r.Offset < c.from {
			return nil
		}
		if len(c.list) == c.most {
			c.next = r.Offset
			return errEnough
		}
		c.list = append(c.list, recordOf(&r))
		return nil
	})
	var refused *record.Error
	switch {
	case errors.Is(err, errEnough):
		return false
	case errors.As(err, &refused) && refused.Kind == record.TooLarge, c.inflate.Bytes <= 0 && err == nil:
		c.note = fmt.Sprintf(
			"The records from offset %d on are not shown: this page decompresses at most %d MiB.",
			b.BaseOffset(),
			recordInflated>>20,
		)
	case err != nil:
		c.note = fmt.Sprintf("The batch at offset %d cannot be shown: %v.", b.BaseOffset(), err)
	}
	return c.note == ""
}

// recordOf copies the visible part of a record, whose bytes are valid only during the call.
func recordOf(r *record.Record) page.Record {
	x := page.Record{
		Offset:      r.Offset,
		Key:         cut(r.Key),
		Value:       cut(r.Value),
		KeySize:     len(r.Key),
		ValueSize:   len(r.Value),
		HeaderCount: r.Headers.Len(),
	}
	if r.Timestamp >= 0 {
		x.Time = time.UnixMilli(r.Timestamp)
	}
	for h := range r.Headers.All() {
		if len(x.Headers) == page.MaxHeaders {
			break
		}
		x.Headers = append(x.Headers, page.Header{Key: string(cut(h.Key)), Value: cut(h.Value), ValueSize: len(h.Value)})
	}
	return x
}

// cut copies the first page.MaxShown bytes; nil stays nil.
func cut(b []byte) []byte { return bytes.Clone(b[:min(len(b), page.MaxShown)]) }
