package broker

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// lentBatches batches of lentValue bytes are more than the least that is lent.
const (
	lentBatches = 12
	lentValue   = 50_000
)

// lender returns a node whose topics have large batches, in files of the system and not in memory,
// and a function that counts the reads that were lent.
func lender(t *testing.T, partitions int32, topics ...string) (*node, func() int) {
	t.Helper()
	dir, m := t.TempDir(), metrics.NewStorage(nil)
	onDisk := func(o *nodeOptions) {
		o.fs, o.dir = vfs.OS(), dir
		o.storage = func(s *storage.Options) { s.Metrics = m }
	}
	t.Run("before", func(t *testing.T) {
		n := newNode(t, onDisk)
		w := n.dial(t)
		for _, name := range topics {
			n.topic(t, name, partitions)
			for i := range partitions {
				for k := range lentBatches {
					req := produceRequest(name, [16]byte{}, -1, plain(t, strings.Repeat(string(rune('a'+k+int(i))), lentValue)))
					req.Topics[0].Partitions[0].Partition = i
					if p := produced(t, w, 9, req); p.ErrorCode != 0 {
						t.Fatalf("put into %s-%d: %+v", name, i, p)
					}
				}
			}
		}
	})
	return newNode(t, onDisk), func() int { return int(testutil.ToFloat64(m.Reads.WithLabelValues(metrics.ReadLent))) }
}

// wide is fetchRequest for several partitions of each topic.
func wide(offset int64, partitions int32, topics ...kmsg.FetchRequestTopic) *kmsg.FetchRequest {
	req := fetchRequest(offset, topics...)
	req.MaxBytes = 50 << 20
	for i := range req.Topics {
		rt := &req.Topics[i]
		for k := int32(1); k < partitions; k++ {
			p := rt.Partitions[0]
			p.Partition = k
			rt.Partitions = append(rt.Partitions, p)
		}
	}
	return req
}

// raw sends a request and returns the answer's bytes.
func raw(t *testing.T, w *wire, version int16, req kmsg.Request) []byte {
	t.Helper()
	req.SetVersion(version)
	must(t, w.send(req))
	body, err := w.body()
	must(t, err)
	return body
}

// The second answer to the same fetch is lent, from every partition, and has the same bytes. So it
// is for a reader of committed records, and with offsets in between.
func TestALentAnswerHasTheSameBytes(t *testing.T) {
	n, lent := lender(t, 2, "t", "u")
	w := n.dial(t)
	for _, c := range []struct {
		name      string
		offset    int64
		committed bool
		version   int16
	}{{"all", 0, false, 12}, {"old version", 0, false, 4}, {"committed", 0, true, 12}, {"from the middle", 5, false, 11}} {
		fetched := func() []byte {
			req := wide(c.offset, 2, named("t", [16]byte{}), named("u", [16]byte{}))
			if c.committed {
				req.IsolationLevel = 1
			}
			return raw(t, w, c.version, req)
		}
		first, before := fetched(), lent()
		if c.name == "all" && before != 0 {
			t.Fatalf("%d reads were lent before any was verified", before)
		}
		second := fetched()
		if got := lent() - before; got != 4 {
			t.Errorf("%s: %d of 4 reads were lent", c.name, got)
		}
		if least := 4 * int(lentBatches-c.offset) * lentValue; len(first) < least || !bytes.Equal(first, second) {
			t.Errorf("%s: %d and %d bytes, at least %d expected, or others", c.name, len(first), len(second), least)
		}
	}
}

// A session's answers have only the partitions with records: the loans stay with theirs.
func TestASessionGetsLoans(t *testing.T) {
	n, lent := lender(t, 3, "t")
	w := n.dial(t)
	raw(t, w, 12, wide(0, 3, named("t", [16]byte{}))) // verifies
	req := wide(lentBatches, 3, named("t", [16]byte{}))
	req.SessionEpoch = 0
	resp := ask[*kmsg.FetchResponse](t, w, 12, req)
	if resp.SessionID == 0 {
		t.Fatal("no session")
	}
	next := wide(0, 3, named("t", [16]byte{}))
	next.SessionID, next.SessionEpoch = resp.SessionID, 1
	next.Topics[0].Partitions = append(next.Topics[0].Partitions[:0], next.Topics[0].Partitions[0], next.Topics[0].Partitions[2])
	got := ask[*kmsg.FetchResponse](t, w, 12, next)
	if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 2 || lent() != 2 {
		t.Fatalf("%d loans, topics %d", lent(), len(got.Topics))
	}
	for i, p := range got.Topics[0].Partitions {
		if p.Partition != int32(2*i) || len(offsets(t, p.RecordBatches)) != lentBatches {
			t.Errorf("partition %d: %d bytes", p.Partition, len(p.RecordBatches))
		}
	}
}

// A topic is deleted while it is sent to a client that reads slowly: the client gets the whole
// answer.
func TestADeletedTopicIsSentToItsEnd(t *testing.T) {
	n, lent := lender(t, 2, "t")
	w := n.dial(t)
	want := raw(t, w, 12, wide(0, 2, named("t", [16]byte{})))
	must(t, w.Conn.(*net.TCPConn).SetReadBuffer(128<<10))
	req := wide(0, 2, named("t", [16]byte{}))
	req.SetVersion(12)
	must(t, w.send(req))
	var head [8]byte
	_, err := io.ReadFull(w, head[:])
	must(t, err)
	removed := kmsg.NewPtrDeleteTopicsRequest()
	removed.TimeoutMillis, removed.TopicNames = 120_000, []string{"t"}
	if x := ask[*kmsg.DeleteTopicsResponse](t, n.dial(t), 5, removed).Topics[0]; x.ErrorCode != 0 {
		t.Fatalf("delete: %+v", x)
	}
	got := make([]byte, len(want))
	_, err = io.ReadFull(w, got)
	must(t, err)
	if lent() != 2 || !bytes.Equal(got, want) {
		t.Errorf("%d loans; %d bytes, or others", lent(), len(got))
	}
}
