package broker

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// slowTier has records of one partition. A read that may wait gets them, and one that may not if an
// earlier read has begun their transfer.
type slowTier struct {
	records []byte
	calls   atomic.Int32
	waited  atomic.Bool // a read could wait
}

func (s *slowTier) Read(ctx context.Context, _ metadata.TopicPartition, _ *metadata.Tier, _, _ int64, _ int, _ bool) (
	storage.Slice, error) {
	if waits := ctx.Err() == nil; s.calls.Add(1) == 1 || waits {
		if s.waited.Store(waits); !waits {
			return storage.Slice{}, ctx.Err()
		}
	}
	return storage.Slice{Parts: [][]byte{s.records}, Size: len(s.records)}, nil
}

func (*slowTier) Aborted(context.Context, metadata.TopicPartition, *metadata.Tier, int64, int64) ([]txnindex.Entry, bool, error) {
	return nil, false, nil
}

func (*slowTier) FindTime(context.Context, metadata.TopicPartition, *metadata.Tier, int64) (found storage.Timestamp, err error) {
	return found, nil
}

func (*slowTier) MaxTime(context.Context, metadata.TopicPartition, *metadata.Tier) (found storage.Timestamp, err error) {
	return found, nil
}

// mixedNode has records of a in the object store only, and some of b on the disk.
func mixedNode(t *testing.T) (*node, *slowTier) {
	t.Helper()
	s := &slowTier{}
	n := newNode(t, func(o *nodeOptions) {
		o.tier = replica.TierOptions{Reads: s, ReadWait: time.Hour, LookupWait: time.Hour}
	})
	tp := metadata.TopicPartition{Topic: n.topic(t, "a", 1)}
	n.topic(t, "b", 1)
	n.put(t, "a", 3, "old")
	n.put(t, "b", 2, "new")
	p, err := n.opt.Replicas.Partition(tp.Topic, 0)
	must(t, err)
	all, err := p.Log().Read(0, 3, 1<<20, true)
	must(t, err)
	s.records = slices.Concat(all.Parts...)
	all.Release()
	_, err = n.store.Txn(t.Context(), metadata.Txn{Put: []metadata.KV{{Key: metadata.TierKey(tp),
		Value: (&metadata.Tier{Manifest: metadata.ID{1}, End: 3}).Encode()}}})
	must(t, err)
	n.topic(t, "c", 1) // the broker has applied what was before it
	moves := []storage.StartMove{{Log: p.Log(), To: 3}}
	p.Log().Dir().MoveStarts(moves)
	must(t, moves[0].Err)
	if e := p.Ends(); e.LogStart != 0 || e.LocalStart != 3 {
		t.Fatalf("%+v", e)
	}
	return n, s
}

// Records on the disk are not delayed by others that only the object store has, and these come with
// the next fetch.
func TestLocalRecordsDoNotWaitForTheObjectStore(t *testing.T) {
	n, s := mixedNode(t)
	w := n.dial(t)
	req := fetchRequest(0, named("a", [16]byte{}), named("b", [16]byte{}))
	if got := show(t, ask[*kmsg.FetchResponse](t, w, 12, req)); got != "a-0[0 3: []] b-0[0 2: [0 1]]" || s.waited.Load() {
		t.Errorf("the first fetch: %s, it waited: %t", got, s.waited.Load())
	}
	if got := show(t, ask[*kmsg.FetchResponse](t, w, 12, req)); got != "a-0[0 3: [0 1 2]] b-0[0 2: [0 1]]" || s.waited.Load() {
		t.Errorf("the next fetch: %s, it waited: %t", got, s.waited.Load())
	}
}

// A fetch waits for the object store if it would be empty, or have less than min.bytes.
func TestAFetchWaitsForTheObjectStore(t *testing.T) {
	for name, change := range map[string]func(*kmsg.FetchRequest){
		"no local records": func(req *kmsg.FetchRequest) { req.Topics[1].Partitions[0].FetchOffset = 2 },
		"too few of them":  func(req *kmsg.FetchRequest) { req.MinBytes = 10000 },
	} {
		t.Run(name, func(t *testing.T) {
			n, s := mixedNode(t)
			req := fetchRequest(0, named("a", [16]byte{}), named("b", [16]byte{}))
			change(req)
			resp := ask[*kmsg.FetchResponse](t, n.dial(t), 12, req)
			if got := offsets(t, resp.Topics[0].Partitions[0].RecordBatches); len(got) != 3 || !s.waited.Load() {
				t.Errorf("records %v, it waited: %t", got, s.waited.Load())
			}
		})
	}
}
