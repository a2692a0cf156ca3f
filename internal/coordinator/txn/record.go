package txn

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// State is the state of a transactional id. The values are those of Kafka's records.
type State int8

// States of a transactional id. A tombstone takes the place of Kafka's state Dead.
const (
	Empty State = iota
	Ongoing
	PrepareCommit
	PrepareAbort
	CompleteCommit
	CompleteAbort
)

// stateNames are Kafka's names of the states.
func stateNames() []string {
	return []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}
}

// String returns Kafka's name of the state.
func (s State) String() string {
	names := stateNames()
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("state %d", int8(s))
	}
	return names[s]
}

// ParseState returns the state with one of Kafka's names; false if there is none.
func ParseState(name string) (State, bool) {
	i := slices.Index(stateNames(), name)
	return State(i), i >= 0
}

// prepared reports whether the transaction is decided and its markers may be missing.
func (s State) prepared() bool { return s == PrepareCommit || s == PrepareAbort }

// complete reports whether the last transaction of the id has ended.
func (s State) complete() bool { return s == CompleteCommit || s == CompleteAbort }

// commits reports whether the state is the result of a commit.
func (s State) commits() bool { return s == PrepareCommit || s == CompleteCommit }

// Partition is a partition of a topic.
type Partition struct {
	Topic string
	Index int32
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}

// Epochs and ids of producers.
const (
	// maxEpoch is the largest epoch that a producer gets. The epoch after it is in markers only.
	maxEpoch = math.MaxInt16 - 1
	none     = -1
)

// value is the value of a record: the replicated state of a transactional id.
type value struct {
	state State
	pid   int64
	// previous is the id before the present one, if the producer that had its last epoch may ask
	// for the present one; next is the id that the producer continues with when the transaction is
	// complete. Both are none otherwise.
	previous, next int64
	epoch          int16
	version        int16 // of the protocol that the client uses: 1 or 2, 0 if it is not known
	timeout        int32 // ms
	start, update  int64 // ms since 1970; start is none before the first transaction
	partitions     []Partition
}

// identity returns the id and epoch that the producer has, or gets when the transaction is
// complete.
func (v *value) identity() (pid int64, epoch int16) {
	if v.next != none {
		return v.next, 0
	}
	return v.pid, v.epoch
}

// has reports whether a partition is in the transaction.
func (v *value) has(p Partition) bool {
	_, ok := slices.BinarySearchFunc(v.partitions, p, comparePartitions)
	return ok
}

// Formats of records, which kmsg encodes as Kafka does: a key is a kmsg.TxnMetadataKey, and a value
// a kmsg.TxnMetadataValue, whose fields have the order of the bytes. A level of transaction.version
// from 1 on has the tagged fields.
const (
	keyVersion    = 0
	plainVersion  = 0
	taggedVersion = 1
)

// valueSize is at least the size of a value without partitions, and topicSize what a topic adds to
// its name and its partitions, in bytes.
const (
	valueSize = 80
	topicSize = 16
)

// encodeKey returns the key of a transactional id.
func encodeKey(id string) []byte {
	k := kmsg.TxnMetadataKey{Version: keyVersion, TransactionalID: id}
	return k.AppendTo(make([]byte, 0, 4+len(id)))
}

// decodeKey returns the transactional id of a key.
func decodeKey(p []byte) (string, error) {
	var k kmsg.TxnMetadataKey
	if err := k.ReadFrom(p); err != nil {
		return "", fmt.Errorf("decode key: %w", err)
	}
	if k.Version != keyVersion {
		return "", fmt.Errorf("decode key: unknown version %d, want %d", k.Version, keyVersion)
	}
	return k.TransactionalID, nil
}

// encode returns the bytes of the value in one of the two formats.
func (v *value) encode(tagged bool) []byte {
	r := kmsg.NewTxnMetadataValue()
	r.Version = plainVersion
	if tagged {
		r.Version = taggedVersion
	}
	r.ProducerID, r.ProducerEpoch, r.TimeoutMillis = v.pid, v.epoch, v.timeout
	r.State = kmsg.TransactionState(v.state)
	r.LastUpdateTimestamp, r.StartTimestamp = v.update, v.start
	r.PreviousProducerID, r.NextProducerID, r.ClientTransactionVersion = v.previous, v.next, v.version
	if v.state == Ongoing || v.state.prepared() {
		r.Topics = []kmsg.TxnMetadataValueTopic{} // null in the other states
	}
	for _, p := range v.partitions {
		if n := len(r.Topics); n == 0 || r.Topics[n-1].Topic != p.Topic {
			r.Topics = append(r.Topics, kmsg.TxnMetadataValueTopic{Topic: p.Topic})
		}
		last := &r.Topics[len(r.Topics)-1]
		last.Partitions = append(last.Partitions, p.Index)
	}
	size := valueSize
	for i := range r.Topics {
		size += topicSize + len(r.Topics[i].Topic) + 4*len(r.Topics[i].Partitions)
	}
	return r.AppendTo(make([]byte, 0, size))
}

// decodeValue decodes a value of either format. States that chronik never writes are an error,
// because it does not know what to do with them.
func decodeValue(p []byte) (value, error) {
	var r kmsg.TxnMetadataValue
	if err := r.ReadFrom(p); err != nil {
		return value{}, fmt.Errorf("decode value: %w", err)
	}
	if r.Version < plainVersion || r.Version > taggedVersion {
		return value{}, fmt.Errorf("decode value: unknown version %d, want %d to %d", r.Version, plainVersion, taggedVersion)
	}
	v := value{state: State(r.State), pid: r.ProducerID, previous: r.PreviousProducerID, next: r.NextProducerID,
		epoch: r.ProducerEpoch, version: r.ClientTransactionVersion, timeout: r.TimeoutMillis, start: r.StartTimestamp,
		update: r.LastUpdateTimestamp}
	if v.state < Empty || v.state > CompleteAbort {
		return value{}, fmt.Errorf("decode value: unknown %v", v.state)
	}
	for _, t := range r.Topics {
		for _, i := range t.Partitions {
			v.partitions = append(v.partitions, Partition{t.Topic, i})
		}
	}
	slices.SortFunc(v.partitions, comparePartitions)
	v.partitions = slices.Compact(v.partitions)
	return v, nil
}

// Apply implements coordinator.Machine.
func (s *Shard) Apply(r coordinator.Record) error {
	if r.Marker != nil {
		return nil // it has no meaning here: a tool sent it to a broker that did not refuse it
	}
	id, err := decodeKey(r.Key)
	if err != nil {
		return err
	}
	if r.Value == nil {
		s.forget(id)
		return nil
	}
	v, err := decodeValue(r.Value)
	if err != nil {
		return fmt.Errorf("transactional id %q: %w", id, err)
	}
	s.apply(id, v).doubtful = r.Doubtful
	return nil
}

// apply replaces the replicated state of an id, both for emitted records and during a load. It is
// the only place that changes it, with forget.
func (s *Shard) apply(id string, v value) *transaction {
	t := s.ids[id]
	if t == nil {
		t = &transaction{lastEpoch: none}
		s.ids[id] = t
		s.countID(idWeight(id))
	}
	s.count(weight(v.partitions) - weight(t.partitions))
	t.value = v
	return t
}

// forget removes an id, if it is known.
func (s *Shard) forget(id string) {
	if t := s.ids[id]; t != nil {
		s.count(-weight(t.partitions))
		s.countID(-idWeight(id))
		delete(s.ids, id)
	}
}

// What a transaction counts for a partition, with the request for its marker, and for a topic in
// addition to its name. It is more than they take in a record, so a record fits in a frame.
const (
	partitionWeight = 192
	topicWeight     = 64
)

// weight returns the memory for the partitions of a transaction, in order.
func weight(list []Partition) int64 {
	n := partitionWeight * len(list)
	for i, p := range list {
		if i == 0 || list[i-1].Topic != p.Topic {
			n += topicWeight + len(p.Topic)
		}
	}
	return int64(n)
}

// idWeight returns the memory of an id without a transaction.
func idWeight(id string) int64 { return 256 + int64(len(id)) }

func (s *Shard) countID(n int64) {
	s.named += n
	s.cfg.IDMemory.Count(n)
}

func (s *Shard) count(n int64) {
	s.memory += n
	s.cfg.OpenMemory.Count(n)
}

// emit applies a value and appends its record to the effects.
func (s *Shard) emit(id string, v value) *transaction {
	v.update = s.now.UnixMilli()
	return s.write(id, v)
}

// write is emit without a new time of update.
func (s *Shard) write(id string, v value) *transaction {
	s.out.Emit(coordinator.Record{Key: encodeKey(id), Value: v.encode(s.tagged)})
	return s.apply(id, v)
}
