package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
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
	Epoch    int16
	Sequence int32 // of its last record; -1: none of Epoch is known
	// Letters are the offsets of the records that it has copies of; none if it was deleted.
	Letters []int64
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
	// last returns the last batch of a producer id.
	last(ctx context.Context, t Target, producer int64) (Last, error)
	// append appends a batch if the last one of its producer id ends at an offset, and returns the
	// last one. It reports whether that is the appended batch.
	append(ctx context.Context, t Target, after int64, b record.Batch) (Last, bool, error)
	// name returns the name of a topic.
	name(topic [16]byte) string
	// read calls fn with the records of a partition from an offset on, at least that of a batch if
	// there is one, until fn returns false.
	read(ctx context.Context, of [16]byte, partition int32, from int64, fn func(record.Record) bool) error
}

// Copier implements shareleader.Copier.
type Copier struct {
	world    world
	of       shareleader.Source
	producer int64
	epoch    int16

	to    Target
	known bool // last is the last batch in to, as far as is known
	last  Last
	// tried are the offsets of a batch that was sent to the target without an answer.
	tried map[int64]bool
}

// none is the last batch of a producer id of which nothing is known.
var none = Last{Offset: -1, Epoch: -1, Sequence: -1}

// newCopier returns a Copier.
func newCopier(w world, of shareleader.Source) *Copier {
	c := &Copier{world: w, of: of, last: none, tried: map[int64]bool{}}
	c.producer, c.epoch = identity(&of)
	return c
}

// firstProducer is above all producer ids that brokers give to clients.
const firstProducer = int64(1) << 62

// identity returns the producer id and epoch of a source. An epoch has 15 bits; the others of the
// leader epoch are in the id.
func identity(of *shareleader.Source) (producer int64, epoch int16) {
	var p []byte
	p = binary.BigEndian.AppendUint32(append(p, of.Key.Topic[:]...), uint32(of.Key.Partition))
	p = binary.BigEndian.AppendUint32(p, uint32(of.ID.StateEpoch))
	p = binary.BigEndian.AppendUint64(p, uint64(of.ID.Created))
	p = binary.BigEndian.AppendUint32(p, uint32(of.Epoch>>15))
	sum := sha256.Sum256(append(p, of.Key.Group...))
	return firstProducer | int64(binary.BigEndian.Uint64(sum[:])>>2), int16(of.Epoch & math.MaxInt16)
}

var errLater = errors.New("a later leader copies the dead letters of this share partition")

// Copy implements shareleader.Copier.
func (c *Copier) Copy(ctx context.Context, to shareleader.LettersTo, letters []window.Letters) ([]window.Letters, error) {
	topic, err := c.world.find(to.Topic, c.of.Key.Topic, c.of.Key.Partition)
	if err != nil {
		return nil, err
	}
	if c.to != topic.Target && (len(c.tried) == 0 || !c.world.exists(c.to)) {
		c.move(topic.Target)
	}
	if !c.known {
		last, err := c.world.last(ctx, c.to, c.producer)
		if err != nil {
			return nil, err
		}
		if got, err := c.learn(last, letters); err != nil || len(got) > 0 {
			return got, err
		}
		if c.to != topic.Target { // nothing of what was tried is there
			c.move(topic.Target)
			return c.Copy(ctx, to, letters)
		}
	}
	for {
		b, included, err := c.build(ctx, to, letters, topic.Most)
		if err != nil {
			return nil, err
		}
		if b == nil {
			return included, nil // there are no such records any more
		}
		for _, l := range included {
			for o := l.First; o <= l.Last; o++ {
				c.tried[o] = true
			}
		}
		last, appended, err := c.world.append(ctx, c.to, c.last.Offset, b)
		if err != nil {
			c.known = false // it may be appended or not
			return nil, err
		}
		if appended {
			c.last = last
			clear(c.tried)
			return included, nil
		}
		if got, err := c.learn(last, letters); err != nil || len(got) > 0 {
			return got, err
		}
	}
}

// move chooses another target, of which nothing is known yet.
func (c *Copier) move(to Target) {
	c.to, c.known, c.last = to, false, none
	clear(c.tried)
}

// learn takes note of the last batch of the producer id, and returns which of the letters it has.
func (c *Copier) learn(last Last, letters []window.Letters) (got []window.Letters, err error) {
	if last.Offset >= 0 && last.Epoch > c.epoch {
		return nil, errLater
	}
	tried := c.tried
	if last.Epoch != c.epoch {
		tried = nil // a former leader appended it
	}
	copied := map[int64]bool{}
	for _, o := range last.Letters {
		copied[o] = tried[o] || c.loaded(o)
	}
	if last.Offset != c.last.Offset {
		c.tried = map[int64]bool{} // what was sent before names another last batch, and is refused
	}
	c.last, c.known = last, true
	for _, l := range letters {
		for o := l.First; o <= l.Last; o++ {
			if !copied[o] {
				continue
			}
			if n := len(got) - 1; n >= 0 && got[n].Last == o-1 && o > l.First {
				got[n].Last = o
			} else {
				got = append(got, window.Letters{First: o, Last: o, Count: l.Count})
			}
		}
	}
	return got, nil
}

// loaded reports whether an offset was a dead letter when the state was loaded.
func (c *Copier) loaded(offset int64) bool {
	marks := c.of.Loaded
	i := sort.Search(len(marks), func(i int) bool { return marks[i].Last >= offset })
	return i < len(marks) && marks[i].First <= offset && marks[i].State == window.Archiving
}

// mostBatch bounds a batch of copies in bytes, except for that of one large record.
const mostBatch = 1 << 20

// room is what the header of a batch and the lengths in a record take, in bytes, at most.
const room = 256

// build returns a batch of copies of the first letters, and which of them it has; nil: none is
// needed. A copy that is too large for its topic only says where the record is.
func (c *Copier) build(ctx context.Context, to shareleader.LettersTo, letters []window.Letters, most int) (record.Batch,
	[]window.Letters, error,
) {
	sequence := int32(0)
	if c.last.Offset >= 0 && c.last.Epoch == c.epoch {
		sequence = (c.last.Sequence + 1) & math.MaxInt32
	}
	w := &batchWriter{c: c, to: to, most: most, now: time.Now().UnixMilli(), topic: c.world.name(c.of.Key.Topic),
		b: record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: c.producer, Epoch: c.epoch, Sequence: sequence}})}
	for _, l := range letters {
		if err := w.add(ctx, l); err != nil {
			return nil, nil, err
		}
		if w.full {
			break
		}
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
	to       shareleader.LettersTo
	most     int
	now      int64
	topic    string
	b        *record.Builder
	included []window.Letters
	full     bool
}

// add adds the copies of letters, in the order of their offsets, until the batch is full.
func (w *batchWriter) add(ctx context.Context, l window.Letters) error {
	next := l.First
	if w.to.Whole {
		key := &w.c.of.Key
		err := w.c.world.read(ctx, key.Topic, key.Partition, l.First, func(r record.Record) bool {
			for ; next < r.Offset && next <= l.Last && !w.full; next++ {
				w.copy(l, next, nil) // there is no such record
			}
			if next == r.Offset && next <= l.Last && !w.full {
				w.copy(l, next, &r)
				next++
			}
			return next <= l.Last && !w.full
		})
		if err != nil {
			return err
		}
	}
	for ; next <= l.Last && !w.full; next++ {
		w.copy(l, next, nil)
	}
	return nil
}

// copy adds a copy of the record at an offset. If it does not fit, the batch is full.
func (w *batchWriter) copy(l window.Letters, offset int64, r *record.Record) {
	headers := w.headers(l, offset)
	var key, value []byte
	size := room
	if r != nil {
		var own []record.Header
		for h := range r.Headers.All() {
			if len(h.Key) < len(headerPrefix) || string(h.Key[:len(headerPrefix)]) != headerPrefix {
				own = append(own, h)
			}
		}
		if all := append(own, headers...); len(r.Key)+len(r.Value)+bytesOf(all)+2*room <= w.most {
			key, value, headers = r.Key, r.Value, all
		}
	}
	size += len(key) + len(value) + bytesOf(headers)
	if w.b.Len() > 0 && w.b.Size()+size > min(w.most, mostBatch) {
		w.full = true
		return
	}
	w.b.Append(w.now, key, value, headers)
	if n := len(w.included) - 1; n >= 0 && w.included[n].Last == offset-1 && w.included[n].Count == l.Count {
		w.included[n].Last = offset
		return
	}
	w.included = append(w.included, window.Letters{First: offset, Last: offset, Count: l.Count})
}

func bytesOf(headers []record.Header) (n int) {
	for _, h := range headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}

func (w *batchWriter) headers(l window.Letters, offset int64) []record.Header {
	why := "a member rejected the record"
	if l.Count >= w.to.Deliveries {
		why = fmt.Sprintf("the record was delivered %d times, and share.delivery.count.limit is %d", l.Count, w.to.Deliveries)
	}
	list := make([]record.Header, 0, 6)
	for _, x := range [][2]string{{headerTopic, w.topic}, {headerPartition, strconv.Itoa(int(w.c.of.Key.Partition))},
		{headerOffset, strconv.FormatInt(offset, 10)}, {headerGroup, w.c.of.Key.Group}, {headerCount, strconv.Itoa(l.Count)},
		{headerMessage, why}} {
		list = append(list, record.Header{Key: []byte(x[0]), Value: []byte(x[1])})
	}
	return list
}

// lettersOf returns the offsets that a batch has copies of.
func lettersOf(b record.Batch) (list []int64, err error) {
	err = b.Each(record.Limits{}, func(r record.Record) error {
		for h := range r.Headers.All() {
			if string(h.Key) == headerOffset {
				offset, err := strconv.ParseInt(string(h.Value), 10, 64)
				if err != nil {
					return fmt.Errorf("a copy of a dead letter has the offset %q", h.Value)
				}
				list = append(list, offset)
			}
		}
		return nil
	})
	return list, err
}
