package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
)

// Everything that members send each other begins with this header; numbers are big-endian:
//
//	0   1  version, 1
//	1  16  cluster generation
//	17  8  member that sends
//	25  8  member that is meant
//	33     message of the raft library, as protobuf | request
const (
	wireVersion = 1
	headerSize  = 33
)

// Kinds of requests: the byte after the header.
const (
	requestTxn   = 't' // kv.AppendTxn
	requestPiece = 's' // of a snapshot
)

// Results of a request: the first byte of the response. Numbers are uvarints, a key follows its
// length, and a text is the rest.
const (
	resultOK        = 0 // revision
	resultConflict  = 1 // revision, key, found, expected
	resultNotLeader = 2 // nothing was done
	resultUnknown   = 3 // text
	resultFailed    = 4 // text; nothing was done
	resultTooLarge  = 5 // text; nothing was done
)

// errForeign marks a message of another cluster or generation, or for another member.
var errForeign = errors.New("metadata message for another member or of another cluster")

// newHeader returns a header, to which the caller appends the rest.
func newHeader(generation [16]byte, from, to uint64) []byte {
	p := append([]byte{wireVersion}, generation[:]...)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(p, from), to)
}

// parseHeader checks the header of a message that a member sent, and returns what follows. A member
// without a generation accepts any: it has no state yet, and takes that of the cluster that names
// it.
func parseHeader(p []byte, generation [16]byte, from, to uint64) (rest []byte, theirs [16]byte, err error) {
	if len(p) < headerSize || p[0] != wireVersion {
		return nil, theirs, fmt.Errorf("metadata message without a header of version %d", wireVersion)
	}
	copy(theirs[:], p[1:])
	if f, t := binary.BigEndian.Uint64(p[17:]), binary.BigEndian.Uint64(p[25:]); f != from || t != to {
		return nil, theirs, fmt.Errorf("%w: from %x to %x", errForeign, f, t)
	}
	if generation != [16]byte{} && generation != theirs {
		return nil, theirs, fmt.Errorf("%w: generation %x, ours is %x", errForeign, theirs, generation)
	}
	return p[headerSize:], theirs, nil
}

// sent are the messages that members send each other. The library acts on others as well, which
// only a member's own code passes to it: proposals, questions about the leadership, hand-overs.
var sent = map[pb.MessageType]bool{
	pb.MsgApp: true, pb.MsgAppResp: true, pb.MsgVote: true, pb.MsgVoteResp: true, pb.MsgPreVote: true, pb.MsgPreVoteResp: true,
	pb.MsgHeartbeat: true, pb.MsgHeartbeatResp: true, pb.MsgSnap: true, pb.MsgTimeoutNow: true,
}

// heartbeatContext is the length of the context of a heartbeat and of its answer, if they have one.
const heartbeatContext = 8

// parseMessage decodes a message of the raft library and refuses those that no member sends, or
// that the library would not survive.
func parseMessage(p []byte, from, to uint64) (*pb.Message, error) {
	m := &pb.Message{}
	if err := proto.Unmarshal(p, m); err != nil {
		return nil, fmt.Errorf("metadata message: %w", err)
	}
	if m.GetFrom() != from || m.GetTo() != to {
		return nil, fmt.Errorf("%w: a message of %x to %x", errForeign, m.GetFrom(), m.GetTo())
	}
	if !sent[m.GetType()] || m.GetTerm() == 0 {
		return nil, fmt.Errorf("metadata message of type %v in term %d, which no member sends", m.GetType(), m.GetTerm())
	}
	beat := m.GetType() == pb.MsgHeartbeat || m.GetType() == pb.MsgHeartbeatResp
	if n := len(m.GetContext()); beat && n != 0 && n != heartbeatContext {
		return nil, fmt.Errorf("metadata heartbeat with a context of %d bytes", n)
	}
	if n := len(m.GetContext()); m.GetType() == pb.MsgVoteResp && n != 0 && n != voteContext {
		return nil, fmt.Errorf("metadata vote with a context of %d bytes", n)
	}
	if m.GetType() == pb.MsgSnap && m.GetSnapshot().GetMetadata().GetIndex() == 0 {
		return nil, errors.New("metadata snapshot without an index")
	}
	term, index := m.GetLogTerm(), m.GetIndex()
	for _, e := range m.GetEntries() {
		if index++; e == nil || m.GetType() == pb.MsgApp && (e.GetIndex() != index || e.GetTerm() < term || e.GetTerm() > m.GetTerm()) {
			return nil, fmt.Errorf("metadata message with entries that do not continue entry %d", m.GetIndex())
		}
		term = e.GetTerm()
	}
	return m, nil
}

// encodeResult encodes the result of a transaction.
func encodeResult(r result) []byte {
	var conflict *metadata.ConflictError
	switch {
	case r.err == nil:
		return binary.AppendUvarint([]byte{resultOK}, uint64(r.revision))
	case errors.As(r.err, &conflict):
		p := binary.AppendUvarint([]byte{resultConflict}, uint64(conflict.Revision))
		p = bytesio.Append(p, conflict.Key)
		return binary.AppendUvarint(binary.AppendUvarint(p, uint64(conflict.Found)), uint64(conflict.Expected))
	case errors.Is(r.err, ErrNotLeader):
		return []byte{resultNotLeader}
	case errors.Is(r.err, metadata.ErrUnknown):
		return append([]byte{resultUnknown}, r.err.Error()...)
	case errors.Is(r.err, metadata.ErrTooLarge):
		return append([]byte{resultTooLarge}, r.err.Error()...)
	}
	return append([]byte{resultFailed}, r.err.Error()...)
}

// parseResult is the inverse of encodeResult. A response that it can't read says nothing about the
// outcome.
func parseResult(p []byte) result {
	if len(p) == 0 {
		return result{err: fmt.Errorf("%w: empty response", metadata.ErrUnknown)}
	}
	r := bytesio.NewReader(p[1:])
	out, text := result{}, string(p[1:])
	switch p[0] {
	case resultOK:
		out.revision = int64(r.Uvarint())
	case resultConflict:
		out.err = &metadata.ConflictError{
			Revision: int64(r.Uvarint()), Key: r.Text(), Found: int64(r.Uvarint()), Expected: int64(r.Uvarint()),
		}
	case resultNotLeader:
		return result{err: ErrNotLeader}
	case resultTooLarge:
		return result{err: &remoteError{metadata.ErrTooLarge, text}}
	case resultFailed:
		return result{err: &remoteError{metadata.ErrFailed, text}}
	default:
		return result{err: &remoteError{metadata.ErrUnknown, text}}
	}
	if err := r.End(); err != nil {
		return result{err: fmt.Errorf("%w: %w", metadata.ErrUnknown, err)}
	}
	return out
}

// remoteError is an error that another member reported.
type remoteError struct {
	kind error
	text string
}

func (e *remoteError) Error() string { return "the metadata leader answers: " + e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// Data of an entry with transactions: version u8, sequence u64, big endian, and for each
// transaction its length, a uvarint, and kv.AppendTxn.
const entryVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parseTxns decodes the transactions of an entry.
func parseTxns(data []byte) (sequence uint64, txns []metadata.Txn, err error) {
	if len(data) < 9 || data[0] != entryVersion {
		return 0, nil, fmt.Errorf("metadata entry of version %x, this version of chronik supports %d: upgrade this node",
			data[:min(1, len(data))], entryVersion)
	}
	sequence = binary.BigEndian.Uint64(data[1:])
	r := bytesio.NewReader(data[9:])
	for r.Left() > 0 {
		t, err := kv.ParseTxn(r.View())
		if err != nil {
			return 0, nil, err
		}
		txns = append(txns, t)
	}
	return sequence, txns, r.End()
}
