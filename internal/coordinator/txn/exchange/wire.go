package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
)

// A call begins with the version of the format and its kind. Lengths, indexes, number, dead and ms
// are unsigned varints of package encoding/binary, and other numbers without a size are its signed
// ones. Texts follow their length.
//
//	orders     version u8 | kind u8 | life | number | dead | topics | orders
//	  order    flags u8 | producer id | producer epoch | coordinator epoch | leader epoch |
//	           index of the topic | partition
//	  answer   version u8 | for each order: error code, coordinator epoch
//	questions  version u8 | kind u8 | topics | questions
//	  question flags u8 | id | producer id | producer epoch | ms until the deadline | partitions:
//	           index of the topic, partition
//	  answer   version u8 | for each question: error code, coordinator epoch, error codes
//
// Lists begin with their length. topics are those that the rest of the call uses, each with its
// name and its id of 16 bytes.
const (
	wireVersion = 1

	callOrders = 1
	callAsks   = 2
)

// Flags of an order, a verdict, and a question.
const (
	flagFlush  = 1 << 0
	flagCommit = 1 << 1
	flagBumps  = 1 << 2

	flagAdd = 1 << 0
)

// errWire: bytes are not a call or an answer.
var errWire = errors.New("malformed message of another broker's transaction exchange")

// orderCall is a call with orders. life is the registration of the sender's process.
type orderCall struct {
	life         int64
	number, dead uint64
	orders       []order
}

// askCall is a call with questions. now is the time of the sender, for the deadlines.
type askCall struct {
	now       time.Time
	questions []gate.Question
}

// topic is a topic of a call; a zero id: not known.
type topic struct {
	name string
	id   [16]byte
}

// topicTable numbers the topics of a call.
type topicTable struct {
	list  []topic
	index map[topic]uint64
}

func (t *topicTable) add(one topic) {
	if _, has := t.index[one]; !has {
		if t.index == nil {
			t.index = map[topic]uint64{}
		}
		t.index[one] = uint64(len(t.list))
		t.list = append(t.list, one)
	}
}

func (t *topicTable) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(t.list)))
	for _, one := range t.list {
		b = append(appendText(b, one.name), one.id[:]...)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

func (c *orderCall) encode() []byte {
	b := []byte{wireVersion, callOrders}
	b = binary.AppendVarint(b, c.life)
	b = binary.AppendUvarint(b, c.number)
	b = binary.AppendUvarint(b, c.dead)
	var topics topicTable
	for i := range c.orders {
		topics.add(topic{c.orders[i].partition.Topic, c.orders[i].topic})
	}
	b = topics.append(b)
	b = binary.AppendUvarint(b, uint64(len(c.orders)))
	for i := range c.orders {
		o := &c.orders[i]
		b = append(b, flag(o.flush, flagFlush)|flag(o.Commit, flagCommit)|flag(o.Bumps, flagBumps))
		b = binary.AppendVarint(b, o.ProducerID)
		b = binary.AppendVarint(b, int64(o.Epoch))
		b = binary.AppendVarint(b, int64(o.CoordinatorEpoch))
		b = binary.AppendVarint(b, int64(o.leaderEpoch))
		b = binary.AppendUvarint(b, topics.index[topic{o.partition.Topic, o.topic}])
		b = binary.AppendVarint(b, int64(o.partition.Index))
	}
	return b
}

func (c *askCall) encode() []byte {
	b := []byte{wireVersion, callAsks}
	var topics topicTable
	for i := range c.questions {
		for _, p := range c.questions[i].Partitions {
			topics.add(topic{p.Topic, p.TopicID})
		}
	}
	b = topics.append(b)
	b = binary.AppendUvarint(b, uint64(len(c.questions)))
	for i := range c.questions {
		q := &c.questions[i]
		b = append(b, flag(q.Add, flagAdd))
		b = appendText(b, q.ID)
		b = binary.AppendVarint(b, q.ProducerID)
		b = binary.AppendVarint(b, int64(q.Epoch))
		b = binary.AppendUvarint(b, uint64(min(max(q.Deadline.Sub(c.now), 0), maxDeadline).Milliseconds()))
		b = binary.AppendUvarint(b, uint64(len(q.Partitions)))
		for _, p := range q.Partitions {
			b = binary.AppendUvarint(b, topics.index[topic{p.Topic, p.TopicID}])
			b = binary.AppendVarint(b, int64(p.Index))
		}
	}
	return b
}

// kindOf returns the kind of a call.
func kindOf(body []byte) (byte, error) {
	switch {
	case len(body) < 2:
		return 0, errWire
	case body[0] != wireVersion:
		return 0, fmt.Errorf("%w: version %d, this broker knows %d; upgrade the older broker", errWire, body[0], wireVersion)
	case body[1] != callOrders && body[1] != callAsks:
		return 0, fmt.Errorf("%w: kind %d", errWire, body[1])
	}
	return body[1], nil
}

func decodeOrders(body []byte) (c orderCall, err error) {
	r := reader{bytesio.NewReader(body[2:])}
	c.life, c.number, c.dead = r.int64(), r.Uvarint(), r.Uvarint()
	topics := r.topics()
	n := r.count(maxCall, minOrder)
	c.orders = make([]order, 0, n)
	for range n {
		flags := r.Byte()
		o := order{flush: flags&flagFlush != 0}
		o.Commit, o.Bumps = flags&flagCommit != 0, flags&flagBumps != 0
		o.ProducerID, o.Epoch = r.int64(), r.int16()
		o.CoordinatorEpoch, o.leaderEpoch = r.int32(), r.int32()
		at := r.topic(topics)
		o.topic, o.partition = at.id, txn.Partition{Topic: at.name, Index: r.int32()}
		c.orders = append(c.orders, o)
	}
	return c, r.end()
}

func decodeAsks(body []byte) (c askCall, err error) {
	r := reader{bytesio.NewReader(body[2:])}
	c.now = time.Now()
	topics := r.topics()
	n := r.count(maxCall, minQuestion)
	c.questions = make([]gate.Question, 0, n)
	for range n {
		q := gate.Question{Add: r.Byte()&flagAdd != 0, ID: r.Text()}
		q.ProducerID, q.Epoch = r.int64(), r.int16()
		q.Deadline = c.now.Add(time.Duration(r.UvarintTo(uint64(maxDeadline/time.Millisecond))) * time.Millisecond)
		partitions := r.Count(minPartition)
		q.Partitions = make([]txn.AddedPartition, 0, partitions)
		for range partitions {
			at := r.topic(topics)
			p := txn.Partition{Topic: at.name, Index: r.int32()}
			q.Partitions = append(q.Partitions, txn.AddedPartition{Partition: p, TopicID: at.id})
		}
		c.questions = append(c.questions, q)
	}
	return c, r.end()
}

const (
	// The least bytes of a topic, an order, a question and a partition of one.
	minTopic, minOrder, minQuestion, minPartition = 17, 7, 6, 2
	// maxDeadline is more than any deadline of a request: its field for ms has 31 bits.
	maxDeadline = 60 * 24 * time.Hour
)

func codeOf(err *kerr.Error) int64 {
	if err == nil {
		return 0
	}
	return int64(err.Code)
}

func (r *reader) kerr() *kerr.Error { return kerr.TypedErrorForCode(r.int16()) }

func encodeVerdicts(list []verdict) []byte {
	b := []byte{wireVersion}
	for _, v := range list {
		b = binary.AppendVarint(b, codeOf(v.err))
		b = binary.AppendVarint(b, int64(v.known))
	}
	return b
}

func decodeVerdicts(body []byte, n int) ([]verdict, error) {
	r := reader{bytesio.NewReader(body)}
	if v := r.Byte(); v != wireVersion {
		return nil, fmt.Errorf("%w: an answer of version %d", errWire, v)
	}
	list := make([]verdict, n)
	for i := range list {
		list[i].err = r.kerr()
		list[i].known = r.int32()
	}
	return list, r.end()
}

func encodeAnswers(list []gate.Answer) []byte {
	b := []byte{wireVersion}
	for _, a := range list {
		b = binary.AppendVarint(b, codeOf(a.Err))
		b = binary.AppendVarint(b, int64(a.CoordinatorEpoch))
		b = binary.AppendUvarint(b, uint64(len(a.Partitions)))
		for _, err := range a.Partitions {
			b = binary.AppendVarint(b, codeOf(err))
		}
	}
	return b
}

// decodeAnswers decodes the answers to questions. A yes to a question about several partitions
// names all of them or none.
func decodeAnswers(body []byte, questions []gate.Question) ([]gate.Answer, error) {
	r := reader{bytesio.NewReader(body)}
	if v := r.Byte(); v != wireVersion {
		return nil, fmt.Errorf("%w: an answer of version %d", errWire, v)
	}
	list := make([]gate.Answer, len(questions))
	for i := range list {
		a := &list[i]
		a.Err, a.CoordinatorEpoch = r.kerr(), r.int32()
		n := r.count(len(questions[i].Partitions), 1)
		if n > 0 && n != len(questions[i].Partitions) {
			return nil, fmt.Errorf("%w: an answer about %d of %d partitions", errWire, n, len(questions[i].Partitions))
		}
		for range n {
			a.Partitions = append(a.Partitions, r.kerr())
		}
	}
	return list, r.end()
}
