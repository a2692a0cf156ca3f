package record

import (
	"encoding/binary"
	"errors"
)

// ControlType is the type of a control record (KIP-98, KIP-631).
type ControlType int16

// The control records that end a transaction.
const (
	Abort  ControlType = 0
	Commit ControlType = 1
	// NoControl: the batch holds no control record.
	NoControl ControlType = -1
)

// Marker returns the type of the first record of a control batch; NoControl if b is not a control
// batch or a compaction emptied it. Types other than Abort and Commit are not transaction markers.
func (b Batch) Marker() (ControlType, error) {
	kind, _, err := b.EndTxn()
	return kind, err
}

// EndTxn is Marker with the epoch of the coordinator that sent the marker, -1 if the batch is not
// one.
func (b Batch) EndTxn() (kind ControlType, coordinatorEpoch int32, err error) {
	kind, coordinatorEpoch = NoControl, -1
	if !b.Control() || b.Records() == 0 {
		return kind, coordinatorEpoch, nil
	}
	err = b.Each(Limits{}, func(r Record) error {
		if len(r.Key) < 4 {
			return refuse(InvalidRecord, "a control record's key has %d bytes, it needs 4", len(r.Key))
		}
		if kind = ControlType(binary.BigEndian.Uint16(r.Key[2:])); kind != Abort && kind != Commit {
			return errSeen
		}
		if len(r.Value) < markerValue {
			return refuse(InvalidRecord, "the value of a transaction marker has %d bytes, it needs %d", len(r.Value), markerValue)
		}
		coordinatorEpoch = int32(binary.BigEndian.Uint32(r.Value[2:]))
		return errSeen
	})
	if errors.Is(err, errSeen) {
		err = nil
	}
	return kind, coordinatorEpoch, err
}

// markerValue is the size of the value of a transaction marker: version i16, coordinator epoch i32.
const markerValue = 2 + 4

// EndTxnMarker returns the control batch that ends the transaction of a producer: one record, as
// Kafka's EndTransactionMarker. kind is Abort or Commit, timestamp is in ms since 1970.
func EndTxnMarker(pid int64, epoch int16, kind ControlType, coordinatorEpoch int32, timestamp int64) Batch {
	key := binary.BigEndian.AppendUint16(make([]byte, 2, 4), uint16(kind))
	value := binary.BigEndian.AppendUint32(make([]byte, 2, markerValue), uint32(coordinatorEpoch))
	w := NewBuilder(BatchOptions{Producer: &Producer{ID: pid, Epoch: epoch, Sequence: -1}, Transactional: true, Control: true})
	w.Append(timestamp, key, value, nil)
	b, err := w.Build()
	if err != nil {
		panic("record: a transaction marker could not be built: " + err.Error()) // it has one small record
	}
	return b
}

// errSeen ends a walk that has found its record.
var errSeen = errors.New("found")
