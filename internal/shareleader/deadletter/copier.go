package deadletter

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// The headers of a copy are Kafka's.
const (
	headerPrefix    = "__dlq.errors."
	headerTopic     = headerPrefix + "topic"
	headerPartition = headerPrefix + "partition"
	headerOffset    = headerPrefix + "offset"
	headerGroup     = headerPrefix + "group"
	headerCount     = headerPrefix + "delivery.count"
	headerMessage   = headerPrefix + "message"
	// headerEpoch has the leader epoch of the record's partition in which the copy was made, and
	// headerWritten that of the record itself. They are ours.
	headerEpoch   = headerPrefix + "leader.epoch"
	headerWritten = headerPrefix + "record.leader.epoch"
)

// Target is a partition of a topic of dead letters.
type Target struct {
	Topic     [16]byte
	Partition int32
}

// Last is the last batch of a producer id in a Target.
type Last struct {
	// Offset is that of its last record; -1: none is known.
	Offset   int64
	Sequence int32 // of its last record; -1: none is known
	// Letters are the records that it has copies of, and Leader is the leader epoch in which these
	// were made; none and -1 if it was deleted.
	Letters []Letter
	Leader  int32
}

// Letter is a record that has a copy: its offset, and the leader epoch in which it was written.
// Every log that has the same epoch at that offset has the same record there (KIP-101).
type Letter struct {
	Offset int64
	Epoch  int32
}

// Topic is what a copy needs to know of topics.
type Topic struct {
	Target
	// Most is the largest batch in bytes (max.message.bytes).
	Most int
}

// world is what a Copier uses of brokers. Its methods block until ctx ends.
type world interface {
	// find returns where the letters of a partition are copied, or why they cannot be.
	find(name string, of [16]byte, partition int32) (Topic, error)
	// exists reports whether there is a target.
	exists(t Target) bool
	// append appends a batch if the last one of its producer id ends at an offset. It returns the
	// last one, and reports whether that is the appended batch.
	append(ctx context.Context, t Target, after int64, b record.Batch) (Last, bool, error)
	// name returns the name of a topic.
	name(topic [16]byte) string
	// read calls fn with the first record of a source from an offset to another, and then at or
	// above the one that fn returns, until that is below 0 or there are no more records. It
	// inflates each batch once. It fails if this broker does not lead in the leader epoch of the
	// source any more: its log may have other records. It also fails while a new leader does not
	// know that all up to the last offset is committed: it cannot read them, as if they were gone.
	read(ctx context.Context, of *shareleader.Source, from, last int64, fn func(record.Record) int64) error
}

// Copier implements shareleader.Copier.
type Copier struct {
	world    world
	broken   Broken
	of       shareleader.Source
	producer int64

	to   Target
	last Last // in to, as far as is known
	// tried: a batch was sent to the target without an answer, and may still arrive. moves: the
	// next one goes to another target.
	tried, moves bool
	// copied are the offsets of records that have copies, which no call has returned yet.
	copied map[int64]bool
}

// none is the last batch of a producer id of which nothing is known.
var none = Last{Offset: -1, Sequence: -1, Leader: -1}

// newCopier returns a Copier. broken is empty in an ordinary build.
func newCopier(w world, of shareleader.Source, broken Broken) *Copier {
	return &Copier{world: w, broken: broken, of: of, producer: identity(&of, broken), last: none, copied: map[int64]bool{}}
}

// identity returns the producer id of a source. It is the same for all its leaders: they find the
// last batch by it. Its epoch is always 0.
func identity(of *shareleader.Source, broken Broken) (producer int64) {
	var p []byte
	p = binary.BigEndian.AppendUint32(append(p, of.Key.Topic[:]...), uint32(of.Key.Partition))
	p = binary.BigEndian.AppendUint32(p, uint32(of.ID.StateEpoch))
	p = binary.BigEndian.AppendUint64(p, uint64(of.ID.Created))
	if broken.Has(EpochInID) {
		p = binary.BigEndian.AppendUint32(p, uint32(of.Epoch>>15))
	}
	sum := sha256.Sum256(append(p, of.Key.Group...))
	return record.FirstBrokerProducer | int64(binary.BigEndian.Uint64(sum[:])>>2)
}

var errLater = errors.New("a later leader copies the dead letters of this share partition")

// Copy implements shareleader.Copier.
func (c *Copier) Copy(ctx context.Context, to shareleader.LettersTo, letters []window.Letters) ([]window.Letters, error) {
	topic, err := c.world.find(to.Topic, c.of.Key.Topic, c.of.Key.Partition)
	if err != nil {
		return nil, err
	}
	switch {
	case c.to == topic.Target:
	case !c.tried || c.moves || !c.world.exists(c.to):
		c.to, c.last, c.tried, c.moves = topic.Target, none, false, false
	default:
		c.moves = true // after one more try to learn what became of the last batch
	}
	for {
		if got := c.found(); len(got) > 0 {
			return got, nil
		}
		b, included, err := c.build(ctx, to, letters, topic.Most)
		if err != nil {
			return nil, err
		}
		if b == nil {
			return included, nil // there are no such records any more
		}
		c.tried = true
		last, appended, err := c.world.append(ctx, c.to, c.last.Offset, b)
		if err != nil {
			return nil, err // it may be appended or not: the answer to the next one says that
		}
		if appended {
			c.last, c.tried = last, false
			return included, nil
		}
		if err := c.learn(last); err != nil {
			return nil, err
		}
	}
}

// learn takes note of the last batch of the producer id, and of the letters that it has, unless
// this log has other records at their offsets. Where it has none any more, none needs a copy.
func (c *Copier) learn(last Last) error {
	if last.Leader > c.of.Epoch {
		return errLater
	}
	known, err := c.of.Epochs() // fails also if this broker does not lead any more
	if err != nil {
		return err
	}
	for _, l := range last.Letters {
		if here := known.At(l.Offset); here == l.Epoch || here < 0 || c.believes(&known, l, last.Leader) {
			c.copied[l.Offset] = true
		}
	}
	c.last, c.tried = last, false // what was sent before names another last batch, and is refused
	return nil
}

// believes reports whether the copy of another record counts, because a rule is removed.
func (c *Copier) believes(known *epochs.Cache, l Letter, leader int32) bool {
	if c.broken.Has(BelieveBelow) {
		_, end := known.End(leader, math.MaxInt64)
		return l.Offset < end
	}
	return c.broken.Has(BelieveAll)
}

// found returns the letters that have copies and were not returned yet. Their marks must be stored
// before another batch is the last one.
func (c *Copier) found() (got []window.Letters) {
	for _, o := range slices.Sorted(maps.Keys(c.copied)) {
		if n := len(got) - 1; n >= 0 && got[n].Last == o-1 {
			got[n].Last = o
		} else {
			got = append(got, window.Letters{First: o, Last: o})
		}
	}
	clear(c.copied)
	return got
}

// mostBatch bounds a batch of copies in bytes, except for that of one large record.
const mostBatch = 256 << 10

// room is what the header of a batch and the lengths in a record take, in bytes, at most.
const room = 256

// build returns a batch of copies of the first letters, and which of them it has; nil: none is
// needed. The copy of a record that has more bytes than a batch of the topic may have only says
// where the record is. What a copy has in addition to its record does not count.
func (c *Copier) build(ctx context.Context, to shareleader.LettersTo, letters []window.Letters, most int) (record.Batch,
	[]window.Letters, error,
) {
	sequence := int32(0)
	if c.last.Offset >= 0 {
		sequence = (c.last.Sequence + 1) & math.MaxInt32
	}
	known, err := c.of.Epochs()
	if err != nil {
		return nil, nil, err
	}
	w := &batchWriter{c: c, known: known, to: to, most: most, now: time.Now().UnixMilli(), topic: c.world.name(c.of.Key.Topic),
		b: record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: c.producer, Sequence: sequence}})}
	if err := w.add(ctx, letters); err != nil {
		return nil, nil, err
	}
	if w.b.Len() == 0 {
		return nil, w.included, nil
	}
	b, err := w.b.Build()
	return b, w.included, err
}

// batchWriter builds a batch of copies.
type batchWriter struct {
	c        *Copier
	known    epochs.Cache // of the log
	to       shareleader.LettersTo
	most     int
	now      int64
	topic    string
	b        *record.Builder
	included []window.Letters
	full     bool
}

// add adds the copies of letters, in the order of their offsets, until the batch is full.
func (w *batchWriter) add(ctx context.Context, letters []window.Letters) error {
	left := slices.Clone(letters)
	// until copies the letters below an offset, which have no records, and returns the next one.
	until := func(offset int64) int64 {
		for len(left) > 0 && !w.full {
			l := &left[0]
			if l.First > l.Last {
				left = left[1:]
				continue
			}
			if l.First >= offset {
				return l.First
			}
			w.copy(*l, l.First, nil)
			l.First++
		}
		return -1
	}
	if w.to.Whole && len(left) > 0 {
		err := w.c.world.read(ctx, &w.c.of, left[0].First, left[len(left)-1].Last, func(r record.Record) int64 {
			if until(r.Offset) == r.Offset {
				w.copy(left[0], r.Offset, &r)
				left[0].First++
			}
			return until(r.Offset + 1)
		})
		if err != nil {
			return err
		}
	}
	until(math.MaxInt64)
	return nil
}

// copy adds a copy of the record at an offset. If it does not fit, the batch is full. A record that
// was deleted meanwhile needs none: its log does not know its leader epoch any more.
func (w *batchWriter) copy(l window.Letters, offset int64, r *record.Record) {
	if w.known.At(offset) < 0 {
		w.include(l, offset)
		return
	}
	headers := w.headers(l, offset)
	var key, value []byte
	var all record.Headers
	if r != nil && len(r.Key)+len(r.Value)+r.Headers.Size() <= w.most {
		key, value = r.Key, r.Value
		for h := range r.Headers.All() {
			if !bytes.HasPrefix(h.Key, []byte(headerPrefix)) {
				all.Add(h)
			}
		}
	}
	for _, h := range headers {
		all.Add(h)
	}
	size := room + len(key) + len(value) + all.Size()
	if w.b.Len() > 0 && w.b.Size()+size > min(w.most, mostBatch) {
		w.full = true
		return
	}
	w.b.AppendEncoded(w.now, key, value, all)
	w.include(l, offset)
}

// include notes that a letter is done.
func (w *batchWriter) include(l window.Letters, offset int64) {
	if n := len(w.included) - 1; n >= 0 && w.included[n].Last == offset-1 && w.included[n].Count == l.Count {
		w.included[n].Last = offset
		return
	}
	w.included = append(w.included, window.Letters{First: offset, Last: offset, Count: l.Count})
}

func (w *batchWriter) headers(l window.Letters, offset int64) []record.Header {
	why := "a member rejected the record"
	if l.Count >= w.to.Deliveries {
		why = fmt.Sprintf("the record was delivered %d times, and share.delivery.count.limit is %d", l.Count, w.to.Deliveries)
	}
	list := make([]record.Header, 0, 8)
	for _, x := range [][2]string{{headerTopic, w.topic}, {headerPartition, strconv.Itoa(int(w.c.of.Key.Partition))},
		{headerOffset, strconv.FormatInt(offset, 10)}, {headerGroup, w.c.of.Key.Group}, {headerCount, strconv.Itoa(l.Count)},
		{headerMessage, why}, {headerEpoch, strconv.Itoa(int(w.c.of.Epoch))},
		{headerWritten, strconv.Itoa(int(w.known.At(offset)))}} {
		list = append(list, record.Header{Key: []byte(x[0]), Value: []byte(x[1])})
	}
	return list
}

// lettersOf returns the records that a batch has copies of, and the leader epoch in which these
// were made.
func lettersOf(b record.Batch) (list []Letter, leader int32, err error) {
	leader = -1
	err = b.Each(record.Limits{}, func(r record.Record) error {
		l := Letter{Offset: -1, Epoch: -1}
		for h := range r.Headers.All() {
			var bad error
			var n int64
			switch string(h.Key) {
			case headerOffset:
				l.Offset, bad = strconv.ParseInt(string(h.Value), 10, 64)
			case headerEpoch:
				n, bad = strconv.ParseInt(string(h.Value), 10, 32)
				leader = int32(n)
			case headerWritten:
				n, bad = strconv.ParseInt(string(h.Value), 10, 32)
				l.Epoch = int32(n)
			}
			if bad != nil {
				return fmt.Errorf("a copy of a dead letter has the header %s %q", h.Key, h.Value)
			}
		}
		list = append(list, l)
		if l.Offset < 0 || leader < 0 {
			return fmt.Errorf("a copy of a dead letter lacks %s or %s", headerOffset, headerEpoch)
		}
		return nil
	})
	return list, leader, err
}
