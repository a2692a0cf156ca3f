package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/statelog"
)

// format describes the store's files.
var format = statelog.Format{Name: "metadata", Magic: "chronikr", Version: 1}

// Kinds of records; the first byte of each.
const (
	recordMeta  = 'm' // snapshot only, the first record
	recordKey   = 'k' // snapshot only
	recordHard  = 'h'
	recordEntry = 'e'
)

// meta is what a snapshot says about its state.
type meta struct {
	member     uint64
	generation [16]byte
	index      uint64 // the last applied entry; 0: the member has no state yet
	term       uint64 // of that entry
	revision   int64
	conf       *pb.ConfState
}

func appendMeta(p []byte, m meta) []byte {
	p = append(append(p, recordMeta), m.generation[:]...)
	for _, n := range []uint64{m.member, m.index, m.term, uint64(m.revision)} {
		p = binary.AppendUvarint(p, n)
	}
	return bytesio.Append(p, marshal(m.conf))
}

func parseMeta(p []byte) (m meta, err error) {
	if len(p) < len(m.generation) {
		return m, errors.New("a state description that is too short")
	}
	copy(m.generation[:], p)
	r := bytesio.NewReader(p[len(m.generation):])
	m.member, m.index, m.term, m.revision = r.Uvarint(), r.Uvarint(), r.Uvarint(), int64(r.Uvarint())
	m.conf = &pb.ConfState{}
	if err := proto.Unmarshal(r.View(), m.conf); err != nil {
		return m, err
	}
	return m, r.End()
}

func appendHard(p []byte, h *pb.HardState) []byte {
	p = append(p, recordHard)
	for _, n := range []uint64{h.GetTerm(), h.GetVote(), h.GetCommit()} {
		p = binary.AppendUvarint(p, n)
	}
	return p
}

func parseHard(p []byte) (*pb.HardState, error) {
	r := bytesio.NewReader(p)
	h := &pb.HardState{Term: new(r.Uvarint()), Vote: new(r.Uvarint()), Commit: new(r.Uvarint())}
	return h, r.End()
}

func appendEntry(p []byte, e *pb.Entry) []byte {
	p = append(p, recordEntry)
	for _, n := range []uint64{e.GetIndex(), e.GetTerm(), uint64(e.GetType())} {
		p = binary.AppendUvarint(p, n)
	}
	return bytesio.Append(p, e.GetData())
}

func parseEntry(p []byte) (*pb.Entry, error) {
	r := bytesio.NewReader(p)
	e := &pb.Entry{Index: new(r.Uvarint()), Term: new(r.Uvarint()), Type: pb.EntryType(r.Uvarint()).Enum(), Data: r.Bytes()}
	return e, r.End()
}

// marshal encodes a message of the library, whose fields are always valid.
func marshal(m proto.Message) []byte {
	p, err := proto.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", m, err)) // only a string that is not UTF-8, and there is none
	}
	return p
}

// loader loads the records of a store's files. It implements statelog.Reader.
type loader struct {
	meta  meta
	state *kv.State
	log   memoryLog
	begun bool
}

func newLoader() *loader { return &loader{state: kv.NewState()} }

// Load implements statelog.Reader.
func (l *loader) Load(record []byte) (err error) {
	kind, p, err := split(record)
	switch {
	case err != nil:
		return err
	case l.begun == (kind == recordMeta):
		return errors.New("the description of the state is missing or repeated")
	case kind == recordMeta:
		l.begun = true
		if l.meta, err = parseMeta(p); err != nil {
			return err
		}
		l.state.SetRevision(l.meta.revision)
		l.log.conf = l.meta.conf
		l.log.reset(l.meta.index, l.meta.term)
		return nil
	case kind == recordKey:
		key, err := kv.ParseKV(p)
		if err == nil {
			l.state.Load(key)
		}
		return err
	}
	return l.load(kind, p)
}

// Apply implements statelog.Reader.
func (l *loader) Apply(_ uint64, record []byte) error {
	kind, p, err := split(record)
	if err != nil {
		return err
	}
	return l.load(kind, p)
}

func split(record []byte) (kind byte, p []byte, err error) {
	if len(record) == 0 {
		return 0, nil, errors.New("an empty record")
	}
	return record[0], record[1:], nil
}

func (l *loader) load(kind byte, p []byte) (err error) {
	switch kind {
	case recordHard:
		l.log.hard, err = parseHard(p)
	case recordEntry:
		var e *pb.Entry
		if e, err = parseEntry(p); err == nil {
			err = l.log.append(e)
		}
	default:
		err = fmt.Errorf("an unknown record of kind %q", kind)
	}
	return err
}

// check reports contradictions between the records.
func (l *loader) check(log string) error {
	if h := l.log.hard; h.GetCommit() > l.log.last() || h != nil && h.GetCommit() < l.log.base {
		return contradiction(log, fmt.Sprintf("commit index %d, the log has entries %d to %d", h.GetCommit(), l.log.base+1, l.log.last()))
	}
	return nil
}

// emitState returns a function that emits a whole state: the records of a snapshot.
func emitState(m meta, keys []metadata.KV, hard *pb.HardState, entries []*pb.Entry) func(statelog.Emit) error {
	return func(emit statelog.Emit) error {
		record := appendMeta(nil, m)
		if err := emit(record); err != nil {
			return err
		}
		for _, key := range keys {
			record = kv.AppendKV(append(record[:0], recordKey), key)
			if err := emit(record); err != nil {
				return err
			}
		}
		if hard != nil {
			record = appendHard(record[:0], hard)
			if err := emit(record); err != nil {
				return err
			}
		}
		for _, e := range entries {
			record = appendEntry(record[:0], e)
			if err := emit(record); err != nil {
				return err
			}
		}
		return nil
	}
}
