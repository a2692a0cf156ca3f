package raftstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Exact bytes of the records in the files, of the data of an entry, and of what members send each
// other, so that no change of the format goes unnoticed.
func TestFormatIsFixed(t *testing.T) {
	var b strings.Builder
	line := func(name string, p []byte) { fmt.Fprintf(&b, "%s %x\n\n", name, p) }
	generation := [16]byte{0xa1, 15: 0xa2}
	conf := &pb.ConfState{Voters: []uint64{7}, Learners: []uint64{8}}
	key := metadata.KV{Key: "/a", Value: []byte("xyz"), ModRevision: 300}
	emit := emitState(meta{member: 7, generation: generation, index: 300, term: 2, revision: 5, conf: conf}, []metadata.KV{key},
		&pb.HardState{Term: new(uint64(2)), Vote: new(uint64(7)), Commit: new(uint64(301))},
		[]*pb.Entry{{Index: new(uint64(301)), Term: new(uint64(2)), Type: pb.EntryNormal.Enum(), Data: []byte("data")}})
	must.OK(t, emit(func(record []byte) error { line("record", record); return nil }))

	data := append([]byte{entryVersion}, 0, 0, 0, 0, 0, 0, 0, 9)
	data = bytesio.Append(data, kv.AppendTxn(nil, metadata.Txn{Put: []metadata.KV{{Key: "/a", Value: []byte("xyz")}}}))
	if sequence, txns, err := parseTxns(data); err != nil || sequence != 9 || len(txns) != 1 {
		t.Errorf("an entry of sequence %d with %d transactions, %v", sequence, len(txns), err)
	}
	line("entry", data)

	line("header", newHeader(generation, 7, 8))
	for _, r := range []result{
		{revision: 300}, {err: &metadata.ConflictError{Revision: 300, Key: "/a", Found: 4, Expected: 5}}, {err: ErrNotLeader},
		{err: fmt.Errorf("%w: why", metadata.ErrUnknown)}, {err: fmt.Errorf("%w: why", metadata.ErrTooLarge)}, {err: errors.New("why")},
	} {
		line("result", encodeResult(r))
	}
	s := snapshot{gen: generation, from: 7, to: 8, message: []byte("message"), keys: []metadata.KV{key}}
	// The id of a transfer is random, and the checksum covers it.
	at := len(newHeader(generation, 7, 8)) + 1
	must.OK(t, s.transfer(func(piece []byte) error {
		line("piece", piece[:at])
		line("number, last", piece[at+8:at+13])
		line("payload", piece[at+17:])
		return nil
	}))
	golden.File(t, "testdata/format.hex", strings.TrimSuffix(b.String(), "\n"), "go test ./internal/metadata/raftstore -run FormatIsFixed")
}
