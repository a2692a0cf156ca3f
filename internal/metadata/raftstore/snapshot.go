package raftstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/series"
)

// A snapshot travels as a sequence of requests, because it may be larger than any message:
//
//	header, 's', id u64, piece number u32, last u8, CRC-32C of id to last and the payload u32,
//	payload: piece 0: length, raft message without the keys, revision
//	         others:  { length, kv.AppendKV }
//
// Numbers of a header are big-endian, those of a payload uvarints; the message is a protobuf.
// The member that receives it loads the keys as they come, so that neither side holds the encoded
// snapshot. A piece that does not follow the previous one ends the transfer; the leader then begins
// another one.
const (
	pieceSize   = 256 << 10 // approximate payload of a piece
	pieceHeader = 1 + 8 + 4 + 1 + 4
	// maxSnapshot bounds the keys and values that a transfer may bring, in bytes.
	maxSnapshot = 4 << 30
	// transferTicks is after how many ticks without a piece a transfer is forgotten.
	transferTicks = 300
	// pieceTimeout is how long a member may take for one piece. For the last one, it writes the
	// whole state.
	pieceTimeout = 30 * time.Second
)

var errTransfer = errors.New("metadata snapshot has a missing, damaged or unexpected piece")

// snapshot is one transfer, on the side that sends.
type snapshot struct {
	to      uint64
	from    uint64
	gen     [16]byte
	message []byte        // of the library
	keys    []metadata.KV // in no order
	at      int64         // revision
}

// sendSnapshot starts a transfer of the state to a member.
func (n *node) sendSnapshot(m *pb.Message) {
	if m.GetSnapshot().GetMetadata().GetIndex() != n.applied {
		n.raft.ReportSnapshot(m.GetTo(), raft.SnapshotFailure) // the state is that of another entry
		return
	}
	state := n.view.State()
	n.host.sendSnapshot(&snapshot{m.GetTo(), n.member, n.generation, marshal(m), state.Keys(), state.Revision()})
}

// snapshotSent tells the library how a transfer ended; without that, the library would send the
// member nothing more. While the files accept no writes, the report waits.
func (n *node) snapshotSent(to uint64, sent error) (err error) {
	defer n.guard(&err)
	status := raft.SnapshotFinish
	if sent != nil {
		status = raft.SnapshotFailure
	}
	n.reports[to] = status
	return n.report()
}

// report passes on how transfers ended.
func (n *node) report() error {
	if n.failed != nil {
		return nil
	}
	for _, to := range slices.Sorted(maps.Keys(n.reports)) {
		n.raft.ReportSnapshot(to, n.reports[to])
	}
	clear(n.reports)
	return n.work()
}

// transfer calls send with every piece.
func (s *snapshot) transfer(send func(piece []byte) error) error {
	id := randomID()
	payload := binary.AppendUvarint(bytesio.Append(nil, s.message), uint64(s.at))
	keys := s.keys
	kv.Sort(keys)
	for number := uint32(0); ; number++ {
		last := number > 0 && len(keys) == 0
		piece := append(newHeader(s.gen, s.from, s.to), requestPiece)
		start := len(piece)
		piece = binary.BigEndian.AppendUint64(piece, id)
		piece = append(binary.BigEndian.AppendUint32(piece, number), flag(last))
		sum := crc32.Update(crc32.Checksum(piece[start:], castagnoli), castagnoli, payload)
		piece = append(binary.BigEndian.AppendUint32(piece, sum), payload...)
		if err := send(piece); err != nil || last {
			return err
		}
		payload = payload[:0]
		var record []byte
		for len(keys) > 0 && len(payload) < pieceSize {
			record = kv.AppendKV(record[:0], keys[0])
			payload, keys = bytesio.Append(payload, record), keys[1:]
		}
	}
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// receiver collects the pieces of one transfer. Another one replaces it.
type receiver struct {
	id      uint64
	next    uint32
	message *pb.Message
	gen     [16]byte
	state   *kv.State
	at      uint64 // the tick at which seen became next
	seen    uint32
}

// piece takes one piece, without its kind. It returns the message of a complete snapshot, and its
// state.
func (r *receiver) piece(p []byte, gen [16]byte, from, to uint64) (*pb.Message, *kv.State, error) {
	if len(p) < pieceHeader-1 {
		return nil, nil, errTransfer
	}
	id, number, last := binary.BigEndian.Uint64(p), binary.BigEndian.Uint32(p[8:]), p[12] != 0
	payload := p[pieceHeader-1:]
	if crc32.Update(crc32.Checksum(p[:13], castagnoli), castagnoli, payload) != binary.BigEndian.Uint32(p[13:]) {
		return nil, nil, errTransfer
	}
	if number == 0 {
		return nil, nil, r.begin(id, payload, gen, from, to)
	}
	if r.state == nil || r.id != id || r.next != number || r.gen != gen {
		return nil, nil, errTransfer
	}
	r.next++
	for records := bytesio.NewReader(payload); ; {
		if records.Left() == 0 {
			if records.End() != nil {
				return nil, nil, r.forget()
			}
			break
		}
		key, err := kv.ParseKV(records.View())
		if err != nil {
			return nil, nil, r.forget()
		}
		r.state.Load(key)
	}
	if r.state.Bytes() > maxSnapshot {
		return nil, nil, r.forget()
	}
	if !last {
		return nil, nil, nil
	}
	m, state := r.message, r.state
	*r = receiver{}
	return m, state, nil
}

func (r *receiver) begin(id uint64, payload []byte, gen [16]byte, from, to uint64) error {
	*r = receiver{id: id, next: 1, gen: gen}
	head := bytesio.NewReader(payload)
	raw, revision := head.View(), head.Uvarint()
	if head.End() != nil {
		return errTransfer
	}
	m, err := parseMessage(raw, from, to)
	if err != nil || m.GetType() != pb.MsgSnap {
		return fmt.Errorf("%w: no snapshot message", errTransfer)
	}
	r.message, r.state = m, kv.NewState()
	r.state.SetRevision(int64(revision))
	return nil
}

func (r *receiver) forget() error {
	*r = receiver{}
	return errTransfer
}

// sendSnapshot implements host.
func (s *Store) sendSnapshot(t *snapshot) {
	s.background(func() error {
		err := t.transfer(func(piece []byte) error {
			ctx, cancel := context.WithTimeout(s.life, pieceTimeout)
			defer cancel()
			response, err := s.opts.Peers.Call(ctx, t.to, piece)
			if err == nil {
				err = parseResult(response).err
			}
			return err
		})
		s.saySent(t.to, err)
		return err
	}, func(n *node, err error) error { return n.snapshotSent(t.to, err) })
}

// saySent logs that a transfer has failed, unless it repeats what was logged: the leader begins
// another one for as long as the member needs it.
func (s *Store) saySent(to uint64, err error) {
	member := fmt.Sprintf("%x", to)
	key := series.Key(member, "")
	if err == nil {
		if s.unsent.Ended(key) {
			s.opts.Log.Info("metadata snapshot sent after failures", zap.String("member", member))
		}
		return
	}
	if s.life.Err() != nil { // the store ends
		return
	}
	if n, say := s.unsent.Failed(key, err); say {
		s.opts.Log.Warn("metadata snapshot for a member failed", zap.String("member", member), zap.Int("failures", n), zap.Error(err))
	}
}

// background implements host.
func (s *Store) background(work func() error, done func(*node, error) error) {
	s.tasks.Go(func() {
		err := work()
		_ = s.do(s.life, func(n *node) error { return done(n, err) }) // the store has ended
	})
}
