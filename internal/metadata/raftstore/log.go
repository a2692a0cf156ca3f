package raftstore

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// keepLog is how many bytes of applied entries stay in memory for members that are behind. A member
// that needs older ones gets a snapshot.
const keepLog = 8 << 20

// memoryLog is the raft log as the library reads it. It implements raft.Storage. Everything in it
// is durable, or belongs to the Ready that is being written.
type memoryLog struct {
	// base is the entry before the first one; the state contains it and all before it.
	base, baseTerm uint64
	entries        []*pb.Entry // base+1 and those after it, without a gap
	bytes          int         // of entries
	hard           *pb.HardState
	conf           *pb.ConfState // of base, at the start of the process only
	// snapshot describes the current state, for a member that needs it.
	snapshot func() *pb.SnapshotMetadata
}

func (l *memoryLog) last() uint64 { return l.base + uint64(len(l.entries)) }

// InitialState implements raft.Storage.
func (l *memoryLog) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return l.hard, pb.EnsureConfState(l.conf), nil
}

// Entries implements raft.Storage.
func (l *memoryLog) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	if lo <= l.base {
		return nil, raft.ErrCompacted
	}
	if hi > l.last()+1 {
		return nil, raft.ErrUnavailable
	}
	found := l.entries[lo-l.base-1 : hi-l.base-1]
	size := uint64(0)
	for i, e := range found {
		if size += uint64(entrySize(e)); size > maxSize && i > 0 {
			found = found[:i]
			break
		}
	}
	return found[:len(found):len(found)], nil
}

// Term implements raft.Storage.
func (l *memoryLog) Term(i uint64) (uint64, error) {
	switch {
	case i < l.base:
		return 0, raft.ErrCompacted
	case i == l.base:
		return l.baseTerm, nil
	case i > l.last():
		return 0, raft.ErrUnavailable
	}
	return l.entries[i-l.base-1].GetTerm(), nil
}

// LastIndex implements raft.Storage.
func (l *memoryLog) LastIndex() (uint64, error) { return l.last(), nil }

// FirstIndex implements raft.Storage.
func (l *memoryLog) FirstIndex() (uint64, error) { return l.base + 1, nil }

// Snapshot implements raft.Storage. The keys do not travel in the message; see snapshot.go.
func (l *memoryLog) Snapshot() (*pb.Snapshot, error) {
	return &pb.Snapshot{Metadata: l.snapshot()}, nil
}

// append adds an entry and removes those that it replaces.
func (l *memoryLog) append(e *pb.Entry) error {
	i := e.GetIndex()
	if i <= l.base || i > l.last()+1 {
		return fmt.Errorf("entry %d does not continue a log of entries %d to %d", i, l.base+1, l.last())
	}
	for _, old := range l.entries[i-l.base-1:] {
		l.bytes -= entrySize(old)
	}
	kept := l.entries[:i-l.base-1]
	if i <= l.last() { // the library may hold a slice of the array
		kept = kept[:len(kept):len(kept)]
	}
	kept = append(kept, e)
	l.entries = kept
	l.bytes += entrySize(e)
	return nil
}

// reset empties the log: everything up to base is in the state.
func (l *memoryLog) reset(base, term uint64) {
	l.base, l.baseTerm, l.entries, l.bytes = base, term, nil, 0
}

// compact drops applied entries if they need too much memory.
func (l *memoryLog) compact(applied uint64) {
	if l.bytes <= keepLog {
		return
	}
	n := 0
	for n < len(l.entries) && l.entries[n].GetIndex() <= applied && l.bytes > keepLog/2 {
		l.bytes -= entrySize(l.entries[n])
		n++
	}
	if n > 0 {
		l.base, l.baseTerm = l.entries[n-1].GetIndex(), l.entries[n-1].GetTerm()
		l.entries = append([]*pb.Entry(nil), l.entries[n:]...)
	}
}

func entrySize(e *pb.Entry) int { return len(e.GetData()) + 48 }
