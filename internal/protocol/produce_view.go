package protocol

import "fmt"

// ProduceView is a Produce request, version 3 to 13, read in place: names and record bytes alias
// the parsed body and are valid as long as it is. A view is reused: Parse overwrites everything and
// keeps the slices' memory, up to a bound.
type ProduceView struct {
	Version int16
	// TransactionalID is nil if it is null.
	TransactionalID []byte
	Acks            int16
	TimeoutMillis   int32
	Topics          []ProduceTopic
	// flat holds the partitions of all topics, one after the other.
	flat   []ProducePartition
	budget int // memory that entries may still take
}

// ProduceTopic is one topic of a ProduceView, by name up to version 12, by id from 13 on.
type ProduceTopic struct {
	Name       []byte
	ID         [16]byte
	Partitions []ProducePartition
	first      int // in flat
}

// ProducePartition is the part of a Produce request for one partition.
type ProducePartition struct {
	Index int32
	// Records is nil if it is null.
	Records []byte
}

// partitionCost and topicCost are the memory that is counted for one entry against the size of the
// body, as the guard counts entries of other requests: an entry without a batch may have as
// few as three bytes, and takes hundreds until it is answered. An entry with a batch has enough
// bytes to cover its cost.
const partitionCost, topicCost = 512, 128

// maxKeptPartitions bounds the memory that a view keeps for its next use.
const maxKeptPartitions = 4096

// Parse reads a body of the given version. It allocates only in proportion to the body, and reuses
// the memory of earlier calls. Unknown tagged fields are skipped, bytes after the request ignored.
// The error wraps ErrUnsupported or ErrMalformed, and the view is then empty.
func (v *ProduceView) Parse(version int16, body []byte) error {
	v.Reset()
	if version < 3 || version > 13 {
		return fmt.Errorf("produce version %d: %w", version, ErrUnsupported)
	}
	v.Version = version
	c := cursor{src: body}
	v.budget = freeCost + costPerByte*len(body)
	flexible := version >= 9
	v.TransactionalID = c.nullableStr(flexible)
	v.Acks = c.int16()
	v.TimeoutMillis = c.int32()
	v.topics(&c, flexible)
	if flexible {
		c.skipTags()
	}
	if c.bad || v.budget < 0 {
		v.Reset()
		return fmt.Errorf("body of produce version %d: %w", version, ErrMalformed)
	}
	return nil
}

// Reset empties the view, so that it retains no request's bytes.
func (v *ProduceView) Reset() {
	topics, flat := v.Topics, v.flat
	clear(topics)
	clear(flat)
	if cap(topics) > maxKeptPartitions {
		topics = nil
	}
	if cap(flat) > maxKeptPartitions {
		flat = nil
	}
	*v = ProduceView{Topics: topics[:0], flat: flat[:0]}
}

// Partitions returns the number of partitions in all topics.
func (v *ProduceView) Partitions() int { return len(v.flat) }

func (v *ProduceView) topics(c *cursor, flexible bool) {
	minTopic := 6 // length of the name, count of partitions
	if v.Version >= 13 {
		minTopic = 18
	} else if flexible {
		minTopic = 3
	}
	for range c.count(flexible, minTopic) {
		t := ProduceTopic{first: len(v.flat)}
		if v.Version >= 13 {
			copy(t.ID[:], c.span(16))
		} else {
			t.Name = c.str(flexible)
		}
		v.partitions(c, flexible)
		if flexible {
			c.skipTags()
		}
		if v.budget -= topicCost; c.bad || v.budget < 0 {
			return
		}
		v.Topics = append(v.Topics, t)
	}
	end := len(v.flat)
	for i := len(v.Topics) - 1; i >= 0; i-- { // flat is reallocated no more from here on
		t := &v.Topics[i]
		t.Partitions = v.flat[t.first:end:end]
		end = t.first
	}
}

func (v *ProduceView) partitions(c *cursor, flexible bool) {
	minPartition := 8 // index, length of the records
	if flexible {
		minPartition = 6
	}
	for range c.count(flexible, minPartition) {
		p := ProducePartition{Index: c.int32(), Records: c.nullableBytes(flexible)}
		if flexible {
			c.skipTags()
		}
		if v.budget -= partitionCost; c.bad || v.budget < 0 {
			return
		}
		v.flat = append(v.flat, p)
	}
}
