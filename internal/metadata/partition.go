package metadata

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// The value of PartitionKey. A cluster has more of these than of all other values together, and
// every start decodes all of them.
//
//	version u8 | ack rule u8 | leader + 1 | leader epoch | partition epoch | unclean epoch |
//	replicas | ISR | ELR | adding | removing | last
//
// Numbers are varints of 32 bits. A list is its length and then its broker ids. last is one byte,
// 0 none, 1 a replica, 2 a lossy replica, and in the last two cases the broker and 16 bytes of its
// log directory id. A partition with three replicas in sync has 16 bytes.
const (
	lastNone  = 0
	lastClean = 1
	lastLossy = 2
)

// Encode returns the value of PartitionKey, without Revision.
func (p Partition) Encode() []byte {
	b := make([]byte, 0, 48)
	b = append(b, valueVersion, byte(p.AckRule))
	for _, n := range [...]int32{p.Leader + 1, p.LeaderEpoch, p.PartitionEpoch, p.Unclean} {
		b = binary.AppendUvarint(b, uint64(uint32(n)))
	}
	for _, list := range [...][]int32{p.Replicas, p.ISR, p.ELR, p.Adding, p.Removing} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, id := range list {
			b = binary.AppendUvarint(b, uint64(uint32(id)))
		}
	}
	switch {
	case p.Last.IsZero():
		return append(b, lastNone)
	case p.Last.Lossy:
		b = append(b, lastLossy)
	default:
		b = append(b, lastClean)
	}
	b = binary.AppendUvarint(b, uint64(uint32(p.Last.Broker)))
	return append(b, p.Last.Dir[:]...)
}

// DecodePartition is the inverse of Partition.Encode. It refuses partitions that contradict
// themselves.
func DecodePartition(kv KV) (Partition, error) {
	r, err := newBinaryReader(kv)
	if err != nil {
		return Partition{}, err
	}
	p := Partition{AckRule: AckRule(r.byte()), Revision: kv.ModRevision}
	p.Leader = int32(int64(r.uint(1<<31)) - 1)
	for _, n := range [...]*int32{&p.LeaderEpoch, &p.PartitionEpoch, &p.Unclean} {
		*n = r.int32()
	}
	for _, list := range [...]*[]int32{&p.Replicas, &p.ISR, &p.ELR, &p.Adding, &p.Removing} {
		*list = r.int32s()
	}
	if last := r.byte(); last != lastNone {
		p.Last = LastReplica{Broker: r.int32(), Dir: r.id(), Lossy: last == lastLossy}
		r.failed = r.failed || last > lastLossy || p.Last.Dir == [16]byte{}
	}
	if err := r.done(); err != nil {
		return Partition{}, err
	}
	if p.AckRule != AckISR {
		return Partition{}, fmt.Errorf("value of %s has ack rule %d: %w", kv.Key, p.AckRule, ErrNewerVersion)
	}
	if msg := p.Check(); msg != "" {
		return Partition{}, invalid(kv, msg)
	}
	return p, nil
}

// Check returns why a partition contradicts itself, or an empty string.
func (p *Partition) Check() string {
	if len(p.Replicas) == 0 {
		return "a partition must have at least one replica"
	}
	if p.LeaderEpoch < 0 || p.PartitionEpoch < 0 || p.Leader < -1 || p.Unclean < 0 {
		return "negative epoch or leader"
	}
	for i, r := range p.Replicas {
		if r < 0 || slices.Contains(p.Replicas[:i], r) {
			return "a replica is negative or duplicate"
		}
	}
	for _, part := range [...]struct {
		what string
		list []int32
	}{
		{"an in-sync replica", p.ISR}, {"an eligible leader replica", p.ELR}, {"an added replica", p.Adding},
		{"a removed replica", p.Removing},
	} {
		for i, r := range part.list {
			if !slices.Contains(p.Replicas, r) || slices.Contains(part.list[:i], r) {
				return part.what + " is duplicate or not a replica"
			}
		}
	}
	switch {
	case overlap(p.ISR, p.ELR):
		return "an eligible leader replica is in sync"
	case overlap(p.Adding, p.Removing):
		return "a replica is both added and removed"
	case len(p.Adding) == len(p.Replicas), len(p.Removing) == len(p.Replicas):
		return "a reassignment adds or removes all replicas"
	case p.Leader >= 0 && !slices.Contains(p.ISR, p.Leader):
		return "the leader is not in sync"
	case p.Unclean > p.LeaderEpoch:
		return "the unclean epoch is above the leader epoch"
	case p.Last.IsZero():
		return ""
	case len(p.ISR)+len(p.ELR) > 0:
		return "there is a last replica, and others that are in sync or eligible"
	case p.Last.Dir == [16]byte{} || !slices.Contains(p.Replicas, p.Last.Broker):
		return "the last replica has no log directory or is not a replica"
	}
	return ""
}

func overlap(a, b []int32) bool {
	return slices.ContainsFunc(a, func(x int32) bool { return slices.Contains(b, x) })
}

// binaryReader reads a binary value. After a failure, all methods return zero values.
type binaryReader struct {
	kv     KV
	rest   []byte
	failed bool
}

// newBinaryReader returns a reader that has read the version, which it checks.
func newBinaryReader(kv KV) (*binaryReader, error) {
	r := &binaryReader{kv: kv, rest: kv.Value}
	switch v := r.byte(); {
	case r.failed || v == 0:
		return nil, invalid(kv, "no version")
	case v > valueVersion:
		return nil, newerVersion(kv, int(v))
	}
	return r, nil
}

// done returns an error unless the whole value was read without a failure.
func (r *binaryReader) done() error {
	if r.failed || len(r.rest) > 0 {
		return invalid(r.kv, "too short, too long, or a number is out of range")
	}
	return nil
}

func (r *binaryReader) fail() { r.failed, r.rest = true, nil }

func (r *binaryReader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// int32 reads a number that is not negative.
func (r *binaryReader) int32() int32 { return int32(r.uint(1<<31 - 1)) }

// uint reads a number up to a limit.
func (r *binaryReader) uint(limit uint64) uint64 {
	x, n := binary.Uvarint(r.rest)
	if n <= 0 || x > limit {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return x
}

// int32s reads a list; an empty one is nil.
func (r *binaryReader) int32s() []int32 {
	n := r.int32()
	if int(n) > len(r.rest) { // each entry has at least one byte
		r.fail()
		return nil
	}
	if n == 0 {
		return nil
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = r.int32()
	}
	return list
}

func (r *binaryReader) id() (id [16]byte) {
	if len(r.rest) < len(id) {
		r.fail()
		return id
	}
	copy(id[:], r.rest)
	r.rest = r.rest[len(id):]
	return id
}
