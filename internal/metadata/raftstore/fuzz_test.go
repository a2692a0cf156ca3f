package raftstore

import (
	"errors"
	"runtime"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
)

// Whatever a member sends, decoding it ends with a message or an error, and allocates in proportion
// to what was sent.
func FuzzMessages(f *testing.F) {
	entry := &pb.Entry{Index: new(uint64(5)), Term: new(uint64(2)), Data: []byte("x")}
	f.Add(newHeader([16]byte{1}, 1, 2))
	f.Add(append(newHeader([16]byte{1}, 1, 2), marshal(&pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(1)), To: new(uint64(2)),
		Index: new(uint64(4)), Term: new(uint64(2)), Entries: []*pb.Entry{entry}})...))
	f.Add(encodeResult(result{err: &metadata.ConflictError{Revision: 7, Key: "/a", Found: 3, Expected: 2}}))
	f.Add(encodeResult(result{revision: 300}))
	f.Add([]byte{entryVersion, 0, 0, 0, 0, 0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add(appendEntry(nil, entry)[1:])
	f.Add(appendMeta(nil, meta{member: 3, index: 4, conf: &pb.ConfState{Voters: []uint64{1, 2}}})[1:])
	f.Fuzz(func(t *testing.T, p []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if raw, _, err := parseHeader(p, [16]byte{1}, 1, 2); err == nil {
			_, _ = parseMessage(raw, 1, 2)
		}
		r := parseResult(p)
		if r.err == nil && r.revision == 0 && len(p) == 0 {
			t.Error("an empty response is a success")
		}
		_, _, _ = parseTxns(p)
		_, _ = parseEntry(p)
		_, _ = parseHard(p)
		_, _ = parseMeta(p)
		_, _, _ = (&receiver{}).piece(p, [16]byte{1}, 1, 2)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20+200*uint64(len(p)) {
			t.Errorf("%d bytes allocated for %d", n, len(p))
		}
	})
}

func TestResultsSurviveTheWire(t *testing.T) {
	for _, want := range []result{
		{revision: 1 << 40}, {err: &metadata.ConflictError{Revision: 7, Key: "/a", Found: 3, Expected: 2}}, {err: ErrNotLeader},
		{err: metadata.ErrUnknown}, {err: metadata.ErrFailed}, {err: metadata.ErrTooLarge},
	} {
		got := parseResult(encodeResult(want))
		var conflict, sent *metadata.ConflictError
		if got.revision != want.revision || (got.err == nil) != (want.err == nil) {
			t.Errorf("%+v arrives as %+v", want, got)
		}
		if errors.As(want.err, &sent) && (!errors.As(got.err, &conflict) || *conflict != *sent) {
			t.Errorf("%v arrives as %v", want.err, got.err)
		} else if sent == nil && !errors.Is(got.err, want.err) {
			t.Errorf("%v arrives as %v", want.err, got.err)
		}
	}
	if r := parseResult(encodeResult(result{err: errors.New("other")})); !errors.Is(r.err, metadata.ErrFailed) {
		t.Errorf("another error arrives as %v", r.err)
	}
}

// A lost, repeated, damaged or foreign piece ends a transfer; a complete one brings every key.
func TestSnapshotNeedsEveryPiece(t *testing.T) {
	s := &snapshot{to: 2, from: 1, gen: [16]byte{1}, at: 9, message: marshal(&pb.Message{Type: pb.MsgSnap.Enum(), From: new(uint64(1)),
		To: new(uint64(2)), Term: new(uint64(2)),
		Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(4)), Term: new(uint64(2))}}})}
	for i := range 20 {
		s.keys = append(s.keys, metadata.KV{Key: "/" + string(rune('a'+i)), Value: make([]byte, pieceSize/4), ModRevision: int64(i + 1)})
	}
	var pieces [][]byte
	_ = s.transfer(func(p []byte) error {
		pieces = append(pieces, p[headerSize+1:])
		return nil
	})
	if len(pieces) < 5 {
		t.Fatalf("%d pieces", len(pieces))
	}
	receive := func(change func([][]byte) [][]byte) (*kv.State, error) {
		list := make([][]byte, len(pieces))
		for i := range pieces {
			list[i] = append([]byte(nil), pieces[i]...)
		}
		var r receiver
		for _, p := range change(list) {
			if _, state, err := r.piece(p, s.gen, 1, 2); state != nil || err != nil {
				return state, err
			}
		}
		return nil, errTransfer
	}
	state, err := receive(func(p [][]byte) [][]byte { return p })
	if err != nil || state.Len() != 20 || state.Revision() != 9 || state.Get("/t").ModRevision != 20 {
		t.Errorf("a complete transfer: %v", err)
	}
	for name, change := range map[string]func([][]byte) [][]byte{
		"first lost":  func(p [][]byte) [][]byte { return p[1:] },
		"second lost": func(p [][]byte) [][]byte { return append(p[:1], p[2:]...) },
		"last lost":   func(p [][]byte) [][]byte { return p[:len(p)-1] },
		"repeated":    func(p [][]byte) [][]byte { return append([][]byte{p[0], p[1]}, p[1:]...) },
		"damaged":     func(p [][]byte) [][]byte { p[2][100] ^= 1; return p },
		"cut":         func(p [][]byte) [][]byte { p[2] = p[2][:50]; return p },
		"tiny":        func(p [][]byte) [][]byte { p[2] = p[2][:3]; return p },
	} {
		if state, err := receive(change); state != nil || !errors.Is(err, errTransfer) {
			t.Errorf("%s: %v, %v", name, state, err)
		}
	}
}
