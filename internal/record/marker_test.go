package record

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMarker(t *testing.T) {
	control := func(key []byte) Batch {
		w := NewBuilder(BatchOptions{Producer: &Producer{ID: 1, Sequence: -1}, Transactional: true, Control: true})
		w.Append(1, key, []byte{0, 0, 0, 0, 0, 1}, nil)
		b, err := w.Build()
		must.OK(t, err)
		return b
	}
	for want, key := range map[ControlType][]byte{Abort: {0, 0, 0, 0}, Commit: {0, 0, 0, 1}, 2: {0, 0, 0, 2}} {
		if got, err := control(key).Marker(); got != want || err != nil {
			t.Errorf("key %x: %d, %v", key, got, err)
		}
	}
	if _, err := control([]byte{0, 0}).Marker(); !isKind(err, InvalidRecord) {
		t.Errorf("a short key: %v", err)
	}
	short := NewBuilder(BatchOptions{Control: true})
	short.Append(1, []byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0}, nil)
	if b, err := short.Build(); err != nil {
		t.Fatal(err)
	} else if _, err := b.Marker(); !isKind(err, InvalidRecord) {
		t.Errorf("a short value: %v", err)
	}
	if got, err := control([]byte{0, 0, 0, 1}).Empty().Marker(); got != NoControl || err != nil {
		t.Errorf("an emptied marker: %d, %v", got, err)
	}
	if got, err := stored(t, None, sample(), nil).Marker(); got != NoControl || err != nil {
		t.Errorf("a batch of data: %d, %v", got, err)
	}
}

// A marker is what Kafka's clients read as one, and says what it was made of.
func TestEndTxnMarker(t *testing.T) {
	for _, kind := range []ControlType{Abort, Commit} {
		b := EndTxnMarker(258, 3, kind, 70_000, 12345)
		if err := b.CheckCRC(); err != nil || !b.Control() || !b.Transactional() || b.ProducerID() != 258 || b.ProducerEpoch() != 3 ||
			b.BaseSequence() != -1 || b.Records() != 1 || b.MaxTimestamp() != 12345 {
			t.Errorf("header %x: %v", b[:HeaderSize], err)
		}
		got, epoch, err := b.EndTxn()
		if got != kind || epoch != 70_000 || err != nil {
			t.Errorf("type %d, epoch %d, %v", got, epoch, err)
		}
		err = b.Each(Limits{}, func(r Record) error {
			var key kmsg.ControlRecordKey
			var value kmsg.EndTxnMarker
			if err := key.ReadFrom(r.Key); err != nil || key.Version != 0 || int16(key.Type) != int16(kind) {
				t.Errorf("key %x: %+v, %v", r.Key, key, err)
			}
			if err := value.ReadFrom(r.Value); err != nil || value.Version != 0 || value.CoordinatorEpoch != 70_000 {
				t.Errorf("value %x: %+v, %v", r.Value, value, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
