package desk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// A call is the items for one broker, and an answer has a result for each of them. Lengths and
// indexes are unsigned varints of package encoding/binary, and other numbers without a size are its
// signed ones. Texts and bytes follow their length.
//
//	call    version u8 | names | items
//	  name  group | topic id, 16 bytes
//	  item  op u8 | index of the name | partition | what the op needs:
//	          initialize  state epoch | start | from version 3 on: leader epoch of the group coordinator
//	          delete      from version 3 on: leader epoch of the group coordinator
//	          open        identity | recorded leader epoch | leader epoch | cut | start | epochs
//	          write       identity | leader epoch | start | finished offsets | marks
//	          changed     identity | leader epoch
//	          look, operate  bytes
//	answer  version u8 | for each item: error code, and if that is 0, what the op returns:
//	          peek        identity | leader epoch | started u8 | epochs
//	          open        start | marks
//	          summarize   state epoch | leader epoch | start | finished offsets
//	          inspect     loaded u8 | numbers; a reader ignores those that it does not know
//	          look, operate  bytes
//
//	identity  state epoch | time of creation
//	epoch     leader epoch | first offset
//	mark      offsets between the last one of the mark before, or 0, and this one | number of offsets
//	          less 1 | state u8 | delivery count
//
// Lists begin with their length.
//
// A receiver reads both versions. A sender writes version 3 if an item needs it, and repeats the
// call in version 2 if its receiver is older and refuses it. Answers have version 2.
const (
	wireVersion   = 3
	formerVersion = 2

	// refusal is in the error of a broker that reads only the former version. No other error may
	// lead to a repetition in it, which no receiver can recognize as late.
	refusal = "version 3, this broker knows 2;"
)

// errWire: bytes are not a call or an answer.
var errWire = errors.New("malformed message of another broker's share coordinator")

// name is what many items have in common.
type name struct {
	group string
	topic [16]byte
}

// size returns about how many bytes an item has in a call.
func (q *request) size() int {
	return 64 + len(q.key.Group) + 8*len(q.marks) + 8*q.epochs.Len() + len(q.body)
}

// versionOf returns the lowest version that has all that items need.
func versionOf(items []*request) byte {
	for _, q := range items {
		if (q.op == opInitialize || q.op == opDelete) && q.coordinator != sharestate.AnyCoordinator {
			return wireVersion
		}
	}
	return formerVersion
}

func encodeCall(version byte, items []*request) []byte {
	size := 16
	var names []name
	index := map[name]uint64{}
	for _, q := range items {
		n := name{q.key.Group, q.key.Topic}
		if _, has := index[n]; !has {
			index[n] = uint64(len(names))
			names = append(names, n)
		}
		size += q.size() - len(n.group)
	}
	b := append(make([]byte, 0, size), version)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, n := range names {
		b = bytesio.Append(b, n.group)
		b = append(b, n.topic[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(items)))
	for _, q := range items {
		b = append(b, byte(q.op))
		b = binary.AppendUvarint(b, index[name{q.key.Group, q.key.Topic}])
		b = binary.AppendVarint(b, int64(q.key.Partition))
		b = q.append(b)
		if version >= wireVersion && (q.op == opInitialize || q.op == opDelete) {
			b = binary.AppendVarint(b, int64(q.coordinator))
		}
	}
	return b
}

// append appends what the op needs in every version.
func (q *request) append(b []byte) []byte {
	switch q.op {
	case opInitialize:
		b = binary.AppendVarint(b, int64(q.id.StateEpoch))
		b = binary.AppendVarint(b, q.start)
	case opOpen:
		b = appendID(b, q.id)
		b = binary.AppendVarint(b, int64(q.recorded))
		b = binary.AppendVarint(b, int64(q.leader))
		b = binary.AppendVarint(b, q.cut)
		b = binary.AppendVarint(b, q.start)
		b = appendEpochs(b, &q.epochs)
	case opWrite:
		b = appendID(b, q.id)
		b = binary.AppendVarint(b, int64(q.leader))
		b = binary.AppendVarint(b, q.start)
		b = binary.AppendVarint(b, q.complete)
		b = appendMarks(b, q.marks)
	case opChanged:
		b = appendID(b, q.id)
		b = binary.AppendVarint(b, int64(q.leader))
	case opLook, opOperate:
		b = bytesio.Append(b, q.body)
	}
	return b
}

func appendID(b []byte, id sharestate.Identity) []byte {
	return binary.AppendVarint(binary.AppendVarint(b, int64(id.StateEpoch)), id.Created)
}

func appendEpochs(b []byte, of *epochs.Cache) []byte {
	b = binary.AppendUvarint(b, uint64(of.Len()))
	for _, e := range of.Entries() {
		b = binary.AppendVarint(binary.AppendVarint(b, int64(e.Epoch)), e.Start)
	}
	return b
}

func appendMarks(b []byte, marks []window.Mark) []byte {
	b = binary.AppendUvarint(b, uint64(len(marks)))
	last := int64(0)
	for _, m := range marks {
		b = binary.AppendVarint(b, m.First-last)
		b = binary.AppendVarint(b, m.Last-m.First)
		b = append(b, byte(m.State))
		b = binary.AppendVarint(b, int64(m.Count))
		last = m.Last
	}
	return b
}

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
func (r *reader) kerr() *kerr.Error {
	return kerr.TypedErrorForCode(int16(r.Varint(math.MinInt16, math.MaxInt16)))
}

func (r *reader) id() sharestate.Identity {
	return sharestate.Identity{StateEpoch: r.int32(), Created: r.int64()}
}

const (
	// The least bytes of a name, an item, a mark, and a leader epoch.
	minName, minItem, minMark, minEpoch = 17, 3, 4, 2
)

// marks reads marks. Whether they are in order and have states that can be stored is checked by
// what uses them.
func (r *reader) marks() []window.Mark {
	n := r.Count(minMark)
	if n == 0 {
		return nil
	}
	if n > sharestate.MaxMarks {
		r.Fail(fmt.Errorf("%d marks, more than %d", n, sharestate.MaxMarks))
		return nil
	}
	list := make([]window.Mark, n)
	last := int64(0)
	for i := range list {
		m := &list[i]
		m.First = last + r.int64()
		m.Last = m.First + r.int64()
		m.State, m.Count = window.State(r.Byte()), int(r.Varint(math.MinInt16, math.MaxInt16))
		last = m.Last
	}
	return list
}

func (r *reader) epochs() epochs.Cache {
	n := r.Count(minEpoch)
	if n == 0 {
		return epochs.Cache{}
	}
	if n > format.MaxEpochs {
		r.Fail(fmt.Errorf("%d leader epochs, more than %d", n, format.MaxEpochs))
		return epochs.Cache{}
	}
	list := make([]epochs.Entry, n)
	for i := range list {
		list[i] = epochs.Entry{Epoch: r.int32(), Start: r.int64()}
	}
	of, err := epochs.Of(list)
	if err != nil {
		r.Fail(err)
	}
	return of
}

// version reads the version of a message, which may have those up to most.
func (r *reader) version(most byte) (byte, error) {
	v := r.Byte()
	if r.Err() == nil && (v < formerVersion || v > most) {
		return 0, fmt.Errorf("%w: version %d, this broker knows %d to %d; upgrade the older broker", errWire, v, formerVersion, most)
	}
	return v, nil
}

func decodeCall(body []byte) ([]request, error) {
	r := reader{bytesio.NewReader(body)}
	version, err := r.version(wireVersion)
	if err != nil {
		return nil, err
	}
	names := make([]name, r.Count(minName))
	for i := range names {
		names[i] = name{r.Text(), r.ID()}
	}
	n := r.Count(minItem)
	if n > maxCall {
		return nil, fmt.Errorf("%w: %d items, more than %d", errWire, n, maxCall)
	}
	items := make([]request, n)
	for i := range items {
		q := &items[i]
		q.op = op(r.Byte())
		at := r.Uvarint()
		if at >= uint64(len(names)) {
			r.Fail(fmt.Errorf("name %d of %d", at, len(names)))
			break
		}
		q.key = format.Key{Group: names[at].group, Topic: names[at].topic, Partition: r.int32()}
		r.request(q)
		if q.op == opInitialize || q.op == opDelete {
			if q.coordinator = sharestate.AnyCoordinator; version >= wireVersion {
				q.coordinator = r.int32()
			}
		}
	}
	return items, r.end()
}

// request reads what the op needs in every version.
func (r *reader) request(q *request) {
	switch q.op {
	case opInitialize:
		q.id.StateEpoch, q.start = r.int32(), r.int64()
	case opDelete, opSummarize, opPeek, opInspect:
	case opOpen:
		q.id, q.recorded, q.leader = r.id(), r.int32(), r.int32()
		q.cut, q.start, q.epochs = r.int64(), r.int64(), r.epochs()
	case opWrite:
		q.id, q.leader = r.id(), r.int32()
		q.start, q.complete, q.marks = r.int64(), r.int64(), r.marks()
	case opChanged:
		q.id, q.leader = r.id(), r.int32()
	case opLook, opOperate:
		q.body = r.Bytes()
	default:
		r.Fail(fmt.Errorf("op %d", q.op))
	}
}

// answerBytes bounds the answer of a call: states that do not fit any more are asked for again.
const answerBytes = 16 << 20

func encodeAnswer(items []request, results []response) []byte {
	b := []byte{formerVersion}
	for i, x := range results {
		if large := items[i].op == opOpen || items[i].op == opLook; large && len(b)+8*len(x.marks)+len(x.body) > answerBytes && i > 0 {
			x.err = kerr.RequestTimedOut
		}
		if x.err != nil {
			b = binary.AppendVarint(b, int64(x.err.Code))
			continue
		}
		b = x.append(append(b, 0), items[i].op)
	}
	return b
}

// append appends what an op returns.
func (r *response) append(b []byte, o op) []byte {
	switch o {
	case opPeek:
		b = appendID(b, r.id)
		b = binary.AppendVarint(b, int64(r.leader))
		started := byte(0)
		if r.started {
			started = 1
		}
		b = appendEpochs(append(b, started), &r.epochs)
	case opOpen:
		b = binary.AppendVarint(b, r.start)
		b = appendMarks(b, r.marks)
	case opSummarize:
		b = binary.AppendVarint(b, int64(r.id.StateEpoch))
		b = binary.AppendVarint(b, int64(r.leader))
		b = binary.AppendVarint(b, r.start)
		b = binary.AppendVarint(b, r.complete)
	case opInspect:
		all := numbers(&r.led)
		b = append(b, 0)
		if r.led.Loaded {
			b[len(b)-1] = 1
		}
		b = binary.AppendUvarint(b, uint64(len(all)))
		for _, n := range all {
			b = binary.AppendVarint(b, *n)
		}
	case opLook, opOperate:
		b = bytesio.Append(b, r.body)
	}
	return b
}

// numbers returns where the numbers of a share partition are, in their order in an answer.
func numbers(l *sharestate.Led) []*int64 {
	list := []*int64{&l.High, &l.Start, &l.End, &l.Acquired, &l.Available, &l.Archiving, &l.Finished,
		&l.Counts.Delivered, &l.Counts.Redelivered, &l.Counts.Ended, &l.Counts.Exhausted}
	for i := range l.Counts.Acknowledged {
		list = append(list, &l.Counts.Acknowledged[i])
	}
	return append(list, &l.LogStart)
}

func decodeAnswer(body []byte, items []*request) ([]response, error) {
	r := reader{bytesio.NewReader(body)}
	if _, err := r.version(formerVersion); err != nil {
		return nil, err
	}
	list := make([]response, len(items))
	for i := range list {
		x := &list[i]
		if x.err = r.kerr(); x.err != nil || r.Err() != nil {
			continue
		}
		switch items[i].op {
		case opPeek:
			x.id, x.leader, x.started, x.epochs = r.id(), r.int32(), r.Byte() != 0, r.epochs()
		case opOpen:
			x.start, x.marks = r.int64(), r.marks()
		case opSummarize:
			x.id.StateEpoch, x.leader = r.int32(), r.int32()
			x.start, x.complete = r.int64(), r.Varint(0, math.MaxInt32)
		case opInspect:
			x.led.Loaded = r.Byte() != 0
			known := numbers(&x.led)
			for k := range r.Count(1) {
				if n := r.int64(); k < len(known) {
					*known[k] = n
				}
			}
		case opLook, opOperate:
			x.body = r.Bytes()
		}
	}
	return list, r.end()
}
