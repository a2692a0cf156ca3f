package exchange

import (
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/bytesio"
)

// reader decodes the parts of a message.
type reader struct{ bytesio.Reader }

// end returns an error if a part failed, or if something is left.
func (r *reader) end() error {
	if err := r.End(); err != nil {
		return fmt.Errorf("%w: %w", errWire, err)
	}
	return nil
}

func (r *reader) int64() int64 { return r.Varint(math.MinInt64, math.MaxInt64) }
func (r *reader) int32() int32 { return int32(r.Varint(math.MinInt32, math.MaxInt32)) }
func (r *reader) int16() int16 { return int16(r.Varint(math.MinInt16, math.MaxInt16)) }

// count reads the length of a list of at most limit elements with at least size bytes each.
func (r *reader) count(limit, size int) int {
	n := r.Count(size)
	if n > limit {
		r.Fail(fmt.Errorf("%d elements, more than %d", n, limit))
		return 0
	}
	return n
}

// topics reads the topics of a call.
func (r *reader) topics() []topic {
	n := r.Count(minTopic)
	list := make([]topic, 0, n)
	for range n {
		list = append(list, topic{r.Text(), r.ID()})
	}
	return list
}

// topic reads the index of one of the topics.
func (r *reader) topic(list []topic) topic {
	i := r.Uvarint()
	if i >= uint64(len(list)) {
		r.Fail(fmt.Errorf("topic %d of %d", i, len(list)))
		return topic{}
	}
	return list[i]
}
