package format

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// UnknownComplete is the value of Complete in records that lack it.
const UnknownComplete = -1

// Batch is the delivery state and the delivery count of a range of offsets. Kafka calls the states
// 0 available, 2 acknowledged, 3 archiving and 4 archived.
type Batch struct {
	First, Last int64
	State       int8
	Count       int16
}

// Snapshot is the whole state of a share partition.
type Snapshot struct {
	// Epoch numbers the snapshots of a state.
	Epoch int32
	// StateEpoch is the group epoch with which the state began.
	StateEpoch int32
	// Leader is the leader epoch of the partition whose leader has loaded the state; -1: none has.
	Leader int32
	// Start is the share-partition start offset; -1: it is not decided.
	Start int64
	// Created and Written are times in ms since 1970. Created is when the state began, unless
	// Kafka wrote the record: then both are the same.
	Created, Written int64
	Batches          []Batch
	// Complete is how many offsets at or above Start are finished (KIP-1226), or UnknownComplete.
	Complete int32
	// Epochs are the last leader epochs in the log of the partition's leader that has loaded the
	// state, MaxEpochs at most. Kafka has no such field.
	Epochs epochs.Cache
}

// MaxEpochs is how many leader epochs a snapshot may have.
const MaxEpochs = 16

// The numbers of tagged fields. That of the epochs is ours, and far from those that Kafka gives.
const (
	tagComplete = 0
	tagEpochs   = 10_000
)

// Update is a change of the state since the last snapshot or update.
type Update struct {
	Epoch   int32 // of the last snapshot
	Leader  int32
	Start   int64 // -1: unchanged
	Batches []Batch
	// Complete is that of Snapshot.
	Complete int32
}

// batchSize is the size of an encoded batch in bytes, epochSize that of a leader epoch, and
// valueSize the largest one of a value without them.
const (
	batchSize = 20
	epochSize = 12
	valueSize = 72
)

// Encode encodes the value.
func (s *Snapshot) Encode() []byte {
	p := make([]byte, 2, valueSize+batchSize*len(s.Batches)+epochSize*s.Epochs.Len()) // version 0
	p = appendInt32(p, s.Epoch, s.StateEpoch, s.Leader)
	p = appendInt64(p, s.Start, s.Created, s.Written)
	return appendEnd(p, s.Batches, s.Complete, s.Epochs.Entries())
}

// Encode encodes the value.
func (u *Update) Encode() []byte {
	p := make([]byte, 2, valueSize+batchSize*len(u.Batches)) // version 0
	p = appendInt32(p, u.Epoch, u.Leader)
	p = appendInt64(p, u.Start)
	return appendEnd(p, u.Batches, u.Complete, nil)
}

// DecodeSnapshot decodes a snapshot.
func DecodeSnapshot(p []byte) (s Snapshot, err error) {
	r := read(p)
	s.Epoch, s.StateEpoch, s.Leader = r.int32(), r.int32(), r.int32()
	s.Start, s.Created, s.Written = r.int64(), r.int64(), r.int64()
	s.Batches, s.Complete, s.Epochs = r.rest()
	if err := r.End(); err != nil {
		return Snapshot{}, fmt.Errorf("decode snapshot: %w", err)
	}
	return s, nil
}

// DecodeUpdate decodes an update.
func DecodeUpdate(p []byte) (u Update, err error) {
	r := read(p)
	u.Epoch, u.Leader, u.Start = r.int32(), r.int32(), r.int64()
	u.Batches, u.Complete, _ = r.rest()
	if err := r.End(); err != nil {
		return Update{}, fmt.Errorf("decode update: %w", err)
	}
	return u, nil
}

// reader reads the value of a record.
type reader struct{ bytesio.Reader }

// read returns a reader after the version.
func read(p []byte) *reader {
	r := &reader{bytesio.NewReader(p)}
	if v := int16(r.BE16()); v != 0 && r.Err() == nil {
		r.Fail(fmt.Errorf("unknown version %d, want 0", v))
	}
	return r
}

func (r *reader) int32() int32 { return int32(r.BE32()) }
func (r *reader) int64() int64 { return int64(r.BE64()) }

// length reads a number of tags, a tag, or a length.
func (r *reader) length() int { return int(r.UvarintTo(math.MaxInt32)) }

// rest reads the end of a value.
func (r *reader) rest() (batches []Batch, complete int32, of epochs.Cache) {
	n := max(r.length()-1, 0)
	if n > r.Left()/batchSize {
		r.Fail(fmt.Errorf("%d batches, but only %d bytes are left", n, r.Left()))
		return nil, UnknownComplete, of
	}
	if n > 0 {
		batches = make([]Batch, n)
	}
	for i := range batches {
		batches[i] = Batch{First: r.int64(), Last: r.int64(), State: int8(r.Byte()), Count: int16(r.BE16())}
		r.tags(nil)
	}
	complete = UnknownComplete
	r.tags(func(tag int, field *bytesio.Reader) {
		var err error
		switch tag {
		case tagComplete:
			complete = int32(field.BE32())
			err = field.End()
		case tagEpochs:
			of, err = readEpochs(field)
		}
		if err != nil {
			r.Fail(fmt.Errorf("tag %d: %w", tag, err))
		}
	})
	return batches, complete, of
}

func readEpochs(field *bytesio.Reader) (epochs.Cache, error) {
	n := field.Left() / epochSize
	if n == 0 || n > MaxEpochs {
		return epochs.Cache{}, fmt.Errorf("%d leader epochs, want 1 to %d", n, MaxEpochs)
	}
	list := make([]epochs.Entry, n)
	for i := range list {
		list[i] = epochs.Entry{Epoch: int32(field.BE32()), Start: int64(field.BE64())}
	}
	if err := field.End(); err != nil {
		return epochs.Cache{}, err
	}
	return epochs.Of(list)
}

// tags reads tagged fields and passes them to fn, which may be nil.
func (r *reader) tags(fn func(tag int, field *bytesio.Reader)) {
	for n := r.length(); n > 0 && r.Err() == nil; n-- {
		tag := r.length()
		field := bytesio.NewReader(r.Take(r.length()))
		if fn != nil {
			fn(tag, &field)
		}
	}
}

// appendEnd appends the end of a value.
func appendEnd(p []byte, batches []Batch, complete int32, of []epochs.Entry) []byte {
	p = binary.AppendUvarint(p, uint64(len(batches)+1))
	for _, b := range batches {
		p = append(appendInt64(p, b.First, b.Last), byte(b.State))
		p = append(binary.BigEndian.AppendUint16(p, uint16(b.Count)), 0)
	}
	at := len(p)
	p = append(p, 0) // the number of tagged fields
	if complete != UnknownComplete {
		p[at]++
		p = appendInt32(append(p, tagComplete, 4), complete)
	}
	if len(of) > 0 {
		p[at]++
		p = binary.AppendUvarint(p, tagEpochs)
		p = binary.AppendUvarint(p, uint64(epochSize*len(of)))
		for _, e := range of {
			p = appendInt64(appendInt32(p, e.Epoch), e.Start)
		}
	}
	return p
}

func appendInt32(p []byte, all ...int32) []byte {
	for _, v := range all {
		p = binary.BigEndian.AppendUint32(p, uint32(v))
	}
	return p
}

func appendInt64(p []byte, all ...int64) []byte {
	for _, v := range all {
		p = binary.BigEndian.AppendUint64(p, uint64(v))
	}
	return p
}
