package metadata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/chronik-io/chronik/internal/bytesio"
)

// The value of PartitionKey. A cluster has more of these than of all other values together, and
// every start decodes all of them.
//
//	version u8 | ack rule u8 | leader + 1 | leader epoch | partition epoch | unclean epoch |
//	replicas | ISR | ELR | adding | removing | last
//
// Numbers are unsigned varints of 32 bits. A list is its length and then its broker ids. last is
// one byte, 0 none, 1 a replica, 2 a lossy replica, and in the last two cases the broker and 16
// bytes of its log directory id. With 4 added, the confirmed epoch follows the byte, which is not 0
// then. A partition with three replicas in sync has 18 bytes if all its
// numbers are below 128.
const (
	lastNone  = 0
	lastClean = 1
	lastLossy = 2

	hasConfirmed = 4 // added to one of these
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
	last := byte(lastNone)
	switch {
	case p.Last.IsZero():
	case p.Last.Lossy:
		last = lastLossy
	default:
		last = lastClean
	}
	if p.Confirmed == 0 {
		b = append(b, last)
	} else {
		b = binary.AppendUvarint(append(b, last|hasConfirmed), uint64(uint32(p.Confirmed)))
	}
	if last != lastNone {
		b = binary.AppendUvarint(b, uint64(uint32(p.Last.Broker)))
		b = append(b, p.Last.Dir[:]...)
	}
	return b
}

// DecodePartition is the inverse of Partition.Encode. It refuses partitions that contradict
// themselves.
func DecodePartition(kv KV) (Partition, error) {
	r, err := newBinaryReader(kv)
	if err != nil {
		return Partition{}, err
	}
	p := Partition{AckRule: AckRule(r.Byte()), Revision: kv.ModRevision}
	p.Leader = int32(int64(r.UvarintTo(1<<31)) - 1)
	for _, n := range [...]*int32{&p.LeaderEpoch, &p.PartitionEpoch, &p.Unclean} {
		*n = r.int32()
	}
	for _, list := range [...]*[]int32{&p.Replicas, &p.ISR, &p.ELR, &p.Adding, &p.Removing} {
		*list = r.int32s()
	}
	last := r.Byte()
	if last&hasConfirmed != 0 {
		if p.Confirmed = r.int32(); p.Confirmed == 0 {
			r.Fail(errors.New("the confirmed epoch is 0"))
		}
	}
	if last &^= hasConfirmed; last != lastNone {
		p.Last = LastReplica{Broker: r.int32(), Dir: r.ID(), Lossy: last == lastLossy}
		if last > lastLossy || p.Last.Dir == [16]byte{} {
			r.Fail(errors.New("the last replica has an unknown state or no log directory"))
		}
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
	if p.LeaderEpoch < 0 || p.PartitionEpoch < 0 || p.Leader < -1 || p.Unclean < 0 || p.Confirmed < 0 {
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
	case len(p.Adding) == len(p.Replicas), len(p.Removing) == len(p.Replicas):
		return "a reassignment adds or removes all replicas"
	case p.Leader >= 0 && !slices.Contains(p.ISR, p.Leader):
		return "the leader is not in sync"
	case p.Unclean > p.LeaderEpoch:
		return "the unclean epoch is above the leader epoch"
	case p.Confirmed > p.Unclean:
		return "the confirmed epoch is above the unclean epoch"
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

// binaryReader reads a binary value.
type binaryReader struct {
	bytesio.Reader
	kv KV
}

// newBinaryReader returns a reader that has read the version, which it checks.
func newBinaryReader(kv KV) (*binaryReader, error) {
	r := &binaryReader{bytesio.NewReader(kv.Value), kv}
	switch v := r.Byte(); {
	case v == 0:
		return nil, invalid(kv, "no version")
	case v > valueVersion:
		return nil, newerVersion(kv, int(v))
	}
	return r, nil
}

// done returns an error unless the whole value was read without a failure.
func (r *binaryReader) done() error {
	if err := r.End(); err != nil {
		return invalid(r.kv, err.Error())
	}
	return nil
}

// int32 reads a number that is not negative.
func (r *binaryReader) int32() int32 { return int32(r.UvarintTo(math.MaxInt32)) }

// int32s reads a list; an empty one is nil.
func (r *binaryReader) int32s() []int32 {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = r.int32()
	}
	return list
}
