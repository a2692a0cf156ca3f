package format

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/sorts"
)

// Key is a key of the metadata. Of an index with changes, a Key without Revision was deleted.
type Key struct {
	Key      string
	Value    []byte
	Revision int64 // of the transaction that wrote the value, at least 1
}

// State is what a partition is in a snapshot.
type State uint8

// The states. Unchanged numbers are part of the format.
const (
	Gone      State = 0 // only in an index with changes: the partition was deleted
	Kept      State = 1 // retention deletes its records from the beginning
	Compacted State = 2 // each part is a file of the leader, and has what compaction left
	Offline   State = 3 // no broker could read the log: it has no records, and begins again at End
)

// Partition is the log of a partition in a snapshot.
type Partition struct {
	ID    ID
	State State
	// Epoch is the leader epoch at the cut.
	Epoch int32
	// Start is the log start, and End the cut: the offsets of the snapshot are [Start, End). Of
	// State Offline, Start is the last end that is known; the log may have had records up to End.
	Start, End int64
	// Manifest is that of the log's beginning, up to the offset Archived; zero: there is none. Only
	// of State Kept.
	Manifest objects.Nonce
	Archived int64
	// Parts are the rest of the log. Those of State Kept cover it from Archived, or Start, up to
	// End. Those of State Compacted are in order and may have holes between them.
	Parts []Part
}

// unreadGap is above the number of records that a log may have above its last known end, which is 0
// if nothing names the partition: at a million records per second, they would take two years.
const unreadGap = 1 << 46

// Unread returns a partition whose log could not be read. known is its last known end, and ms is
// when the cut was made, in milliseconds since 1970. It begins again above what the log may have
// had: the offsets that groups and clients have in it are below the restored log, where
// auto.offset.reset applies, and no new record gets an offset that they have passed.
//
// known may be 0 although the log began at such an offset itself: in a restored cluster, without a
// readable former snapshot. So the log begins at the microseconds since 1970 at least. They rise
// with each snapshot, and faster than a log of less than a million records per second. JSON and
// metrics have exact numbers up to 2^53, which they exceed in the year 2255.
func Unread(id ID, epoch int32, known, ms int64) Partition {
	return Partition{ID: id, State: Offline, Epoch: epoch, Start: known, End: max(known+unreadGap, ms*1000)}
}

// KnownEnd returns the last end of the log that is known. Without the gap: it must not add up if
// many snapshots lack a partition.
func (p *Partition) KnownEnd() int64 {
	if p.State == Offline {
		return p.Start
	}
	return p.End
}

// Previous names the index to which the changes of another one apply.
type Previous struct {
	Number int64
	Nonce  objects.Nonce
}

// Index is a snapshot, or how it differs from a previous one.
type Index struct {
	Cluster [16]byte
	// Number is the revision of the metadata at the cut, and the number of the snapshot.
	Number int64
	// Time is when the cut was made, in ms since 1970 by the clock of the controller.
	Time int64
	// Release is the release that wrote the index, for people.
	Release string
	// Previous is nil if the index is complete.
	Previous   *Previous
	Keys       []Key       // in increasing order
	Partitions []Partition // in increasing order of topic id and partition
}

// The least sizes of an encoded key and partition, in bytes.
const (
	keySize       = 3
	partitionSize = 16 + 1 + 1
)

// Encode returns the sealed object, or an error that matches ErrContradiction.
//
// The object has the cluster's id, number, time, release; 0, or 1 and the previous number and
// nonce; how many keys, and for each its revision, key, value; how many partitions, and each.
func (x *Index) Encode() ([]byte, error) {
	if err := x.check(); err != nil {
		return nil, err
	}
	number := func(b []byte, v int64) []byte { return binary.AppendUvarint(b, uint64(v)) }
	b := append([]byte(nil), x.Cluster[:]...)
	b = number(number(b, x.Number), x.Time)
	b = bytesio.Append(b, x.Release)
	if x.Previous == nil {
		b = append(b, 0)
	} else {
		b = append(number(append(b, 1), x.Previous.Number), x.Previous.Nonce[:]...)
	}
	b = number(b, int64(len(x.Keys)))
	for _, k := range x.Keys {
		b = bytesio.Append(bytesio.Append(number(b, k.Revision), k.Key), k.Value)
	}
	b = number(b, int64(len(x.Partitions)))
	for i := range x.Partitions {
		b = x.Partitions[i].append(b)
	}
	return objects.Seal(b, objects.Index, indexVersion), nil
}

// DecodeIndex decodes the content of an object that Encode returned.
func DecodeIndex(content []byte) (*Index, error) {
	r := bytesio.NewReader(content)
	x := &Index{Cluster: r.ID(), Number: number(&r), Time: number(&r), Release: r.Text()}
	if r.UvarintTo(1) == 1 {
		x.Previous = &Previous{Number: number(&r), Nonce: r.ID()}
	}
	for range r.Count(keySize) {
		x.Keys = append(x.Keys, Key{Revision: number(&r), Key: r.Text(), Value: r.Bytes()})
	}
	for range r.Count(partitionSize) {
		x.Partitions = append(x.Partitions, readPartition(&r))
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("%w: index: %w", objects.ErrDamaged, err)
	}
	if err := x.check(); err != nil {
		return nil, err
	}
	return x, nil
}

// append encodes a partition: topic id, partition, state u8; unless it is Gone also epoch, start,
// end - start, the manifest's nonce, archived, and the parts.
func (p *Partition) append(b []byte) []byte {
	b = append(p.ID.append(b), byte(p.State))
	if p.State == Gone {
		return b
	}
	for _, v := range []int64{int64(p.Epoch), p.Start, p.End - p.Start} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	b = append(b, p.Manifest[:]...)
	b = binary.AppendUvarint(b, uint64(p.Archived))
	return appendParts(b, p.Parts)
}

func readPartition(r *bytesio.Reader) Partition {
	p := Partition{ID: readID(r), State: State(r.Byte())}
	if p.State == Gone {
		return p
	}
	p.Epoch, p.Start = int32(r.UvarintTo(1<<31-1)), number(r)
	p.End = after(r, p.Start)
	p.Manifest, p.Archived = r.ID(), number(r)
	p.Parts = readParts(r)
	return p
}

// AppendPartitions appends partitions to b, as an index has them, for another broker.
func AppendPartitions(b []byte, list []Partition) []byte {
	for i := range list {
		b = list[i].append(b)
	}
	return b
}

// DecodePartitions is the inverse of AppendPartitions.
func DecodePartitions(b []byte) (list []Partition, err error) {
	r := bytesio.NewReader(b)
	for r.Left() > 0 && r.Err() == nil {
		p := readPartition(&r)
		if r.Err() == nil {
			if err := p.check(); err != nil {
				return nil, err
			}
		}
		list = append(list, p)
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("%w: partitions: %w", objects.ErrDamaged, err)
	}
	return list, nil
}

func (id ID) compare(o ID) int {
	return cmp.Or(bytes.Compare(id.Topic[:], o.Topic[:]), cmp.Compare(id.Partition, o.Partition))
}

func (x *Index) check() error {
	if x.Number < 1 || x.Time < 0 || x.Previous != nil && (x.Previous.Number < 1 || x.Previous.Number >= x.Number) {
		return fmt.Errorf("%w: index of snapshot %d at %d ms with changes to %+v", ErrContradiction, x.Number, x.Time, x.Previous)
	}
	for i := range x.Keys {
		k := &x.Keys[i]
		deleted := k.Revision == 0 && len(k.Value) == 0 && x.Previous != nil
		if k.Revision > x.Number || k.Revision < 1 && !deleted || i > 0 && k.Key <= x.Keys[i-1].Key {
			return fmt.Errorf("%w: key %q of revision %d in snapshot %d", ErrContradiction, k.Key, k.Revision, x.Number)
		}
	}
	for i := range x.Partitions {
		p := &x.Partitions[i]
		if i > 0 && p.ID.compare(x.Partitions[i-1].ID) <= 0 || p.State == Gone && x.Previous == nil {
			return fmt.Errorf("%w: partition %x-%d is out of order, or gone in a complete index", ErrContradiction, p.ID.Topic,
				p.ID.Partition)
		}
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Partition) check() error {
	none := p.Manifest == objects.Nonce{}
	ok := p.ID.Partition >= 0 && p.Epoch >= 0 && 0 <= p.Start && p.Start <= p.End && p.Archived >= 0 && p.Archived <= p.End &&
		none == (p.Archived == 0)
	switch p.State {
	case Gone:
		ok = ok && p.Epoch == 0 && p.End == 0 && none && len(p.Parts) == 0
	case Offline:
		ok = ok && none && len(p.Parts) == 0
	case Compacted:
		ok = ok && none
		for i := range p.Parts {
			ok = ok && (i == 0 || p.Parts[i].Base >= p.Parts[i-1].End) && p.Parts[i].End <= p.End
		}
	case Kept:
		from := max(p.Start, p.Archived)
		if err := continuous(p.Parts, from, p.End); err != nil {
			return fmt.Errorf("partition %x-%d: %w", p.ID.Topic, p.ID.Partition, err)
		}
		ok = ok && (none || len(p.Parts) == 0 || p.Archived < p.Start || p.Parts[0].Base == from)
	default:
		ok = false
	}
	for i := range p.Parts {
		ok = ok && p.Parts[i].check() == nil
	}
	if !ok {
		return fmt.Errorf("%w: partition %+v", ErrContradiction, *p)
	}
	return nil
}

// Changes returns the index of snapshot next as changes to the complete index x, whose object has
// the nonce.
func (x *Index) Changes(next *Index, nonce objects.Nonce) *Index {
	c := *next
	c.Previous = &Previous{x.Number, nonce}
	c.Keys = changes(x.Keys, next.Keys, func(k *Key) string { return k.Key },
		func(a, b *Key) bool { return a.Revision == b.Revision && bytes.Equal(a.Value, b.Value) },
		func(k *Key) Key { return Key{Key: k.Key} })
	c.Partitions = changes(x.Partitions, next.Partitions, func(p *Partition) ID { return p.ID }, (*Partition).equal,
		func(p *Partition) Partition { return Partition{ID: p.ID} })
	sorts.Sort(c.Keys, compareKeys)
	sorts.Sort(c.Partitions, Partition.Compare)
	return &c
}

func compareKeys(a, b Key) int { return cmp.Compare(a.Key, b.Key) }

// Compare is the order of partitions in an index.
func (p Partition) Compare(o Partition) int { return p.ID.compare(o.ID) }

func (p *Partition) equal(o *Partition) bool {
	return p.State == o.State && p.Epoch == o.Epoch && p.Start == o.Start && p.End == o.End && p.Manifest == o.Manifest &&
		p.Archived == o.Archived && slices.Equal(p.Parts, o.Parts)
}

// changes returns the elements of next that old lacks or has with another value, and what gone
// returns for each that next lacks.
func changes[T any, K comparable](old, next []T, key func(*T) K, equal func(a, b *T) bool, gone func(*T) T) (list []T) {
	now := make(map[K]int, len(next))
	for i := range next {
		now[key(&next[i])] = i
	}
	before := make(map[K]int, len(old))
	for i := range old {
		k := key(&old[i])
		before[k] = i
		if _, ok := now[k]; !ok {
			list = append(list, gone(&old[i]))
		}
	}
	for i := range next {
		if j, ok := before[key(&next[i])]; !ok || !equal(&old[j], &next[i]) {
			list = append(list, next[i])
		}
	}
	return list
}

// Apply returns the complete index of the snapshot that changes describes, where x is the complete
// index of its previous one. It fails if changes applies to another index.
func (x *Index) Apply(changes *Index) (*Index, error) {
	if x.Previous != nil || changes.Previous == nil || changes.Previous.Number != x.Number || changes.Cluster != x.Cluster {
		return nil, fmt.Errorf("%w: changes of snapshot %d do not apply to snapshot %d", ErrContradiction, changes.Number, x.Number)
	}
	next := *changes
	next.Previous = nil
	next.Keys = apply(x.Keys, changes.Keys, func(k *Key) string { return k.Key }, func(k *Key) bool { return k.Revision == 0 },
		compareKeys)
	next.Partitions = apply(x.Partitions, changes.Partitions, func(p *Partition) ID { return p.ID },
		func(p *Partition) bool { return p.State == Gone }, Partition.Compare)
	if err := next.check(); err != nil {
		return nil, err
	}
	return &next, nil
}

func apply[T any, K comparable](old, changed []T, key func(*T) K, gone func(*T) bool, order func(a, b T) int) []T {
	all := make(map[K]T, len(old)+len(changed))
	for i := range old {
		all[key(&old[i])] = old[i]
	}
	for i := range changed {
		if k := key(&changed[i]); gone(&changed[i]) {
			delete(all, k)
		} else {
			all[k] = changed[i]
		}
	}
	return sorts.Sorted(maps.Values(all), order)
}
