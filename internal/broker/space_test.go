package broker

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// filling is a disk whose free space the test sets.
type filling struct {
	vfs.FS
	free atomic.Uint64
}

// Free implements vfs.FS.
func (f *filling) Free(string) (available, total uint64, err error) {
	return f.free.Load(), 1 << 40, nil
}

// leave sets the free space and waits until the node's guard has measured it.
func (f *filling) leave(t *testing.T, n *node, free uint64) {
	t.Helper()
	f.free.Store(free)
	d := n.storage.Dirs()[0]
	eventually(t, "the guard has looked", func() bool { return d.LastSpace().Free == int64(free) })
}

// On a disk that is nearly full a producer receives the reason and keeps its records, requests for
// partitions are refused, and work that needs no space continues. When there is space again, the
// same producer resumes.
func TestADiskThatFillsStopsProducersOnly(t *testing.T) {
	t.Parallel()
	disk := &filling{FS: vfs.Memory()}
	disk.free.Store(1 << 39)
	counted := metrics.NewStorage(nil)
	n := newNode(t, quick, func(o *nodeOptions) {
		o.fs = disk
		o.storage = func(s *storage.Options) { s.MinFree, s.Metrics = func() int64 { return 100 << 20 }, counted }
	})
	id := n.topic(t, "t", 1)
	n.topic(t, "old", 1)
	n.coordinates(t)
	n.put(t, "t", 2, "before")
	w := n.dial(t)
	disk.leave(t, n, 80<<20)

	p := produced(t, w, 13, produceRequest("", id, -1, plain(t, "x")))
	if p.ErrorCode != kerr.KafkaStorageError.Code || p.ErrorMessage == nil ||
		!strings.HasPrefix(*p.ErrorMessage, "free space reserve reached: log directory /data/logs has 80 MiB free, "+
			"the threshold is 100 MiB (chronik.disk.min.free.bytes): "+
			"clients' records of partitions that this broker leads are refused until 110 MiB are free; internal topics still accept records; ") {
		t.Errorf("produce: %+v", p)
	}
	if p := produced(t, w, 7, produceRequest("t", id, 1, plain(t, "x"))); p.ErrorCode != kerr.KafkaStorageError.Code {
		t.Errorf("produce of an old client: %+v", p)
	}
	made := ask[*kmsg.CreateTopicsResponse](t, w, 7, createRequest(false, newTopic("new", 1, 1))).Topics[0]
	if made.ErrorCode != kerr.PolicyViolation.Code || made.ErrorMessage == nil || !strings.Contains(*made.ErrorMessage, "80 MiB free") {
		t.Errorf("create: %s", said(made.ErrorCode, made.ErrorMessage))
	}
	if more := ask[*kmsg.CreatePartitionsResponse](t, w, 3,
		morePartitions("t", 2, nil)).Topics[0]; more.ErrorCode != kerr.PolicyViolation.Code {
		t.Errorf("more partitions: %s", said(more.ErrorCode, more.ErrorMessage))
	}
	if m := ask[*kmsg.MetadataResponse](t, w, 12, metadataRequest(true, "auto")).Topics[0]; m.ErrorCode != kerr.KafkaStorageError.Code {
		t.Errorf("a topic that is made on demand: %d", m.ErrorCode)
	}
	n.registerMember(t, 2, metadata.BrokerState{Liveness: metadata.Active}, metadata.BrokerDir{ID: [16]byte{2}})
	if err := n.canCreate(n.image()); err != nil {
		t.Errorf("another broker has room: %v", err)
	}
	n.registerMember(t, 2, metadata.BrokerState{Liveness: metadata.Fenced})
	n.mustHave(t, "t", 1)
	if got := show(t, ask[*kmsg.FetchResponse](t, w, 12, fetchRequest(0, named("t", [16]byte{})))); got != "t-0[0 2: [0 1]]" {
		t.Errorf("fetched %s", got)
	}
	if codes := commit(t, w, 9, "g", [16]byte{}, "t", 0); codes[0] != 0 {
		t.Errorf("commit of an offset: %v", codes)
	}
	if got := deletions(ask[*kmsg.DeleteTopicsResponse](t, w, 6, deleteRequest(6, byName("old")))); len(got) != 1 || got[0] != "old "+
		said(0, nil) {
		t.Errorf("delete: %v", got)
	}

	// A real producer retries until there is space.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	before := testutil.ToFloat64(counted.LowSpaceRefused)
	c := n.client(t, kgo.DefaultProduceTopic("t"), kgo.MetadataMinAge(10*time.Millisecond))
	done := make(chan error, 1)
	c.Produce(ctx, kgo.StringRecord("patient"), func(_ *kgo.Record, err error) { done <- err })
	for testutil.ToFloat64(counted.LowSpaceRefused) < before+3 {
		select {
		case err := <-done:
			t.Fatalf("the producer gave up: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	disk.leave(t, n, 1<<39)
	must(t, <-done)
	if at := n.highWatermark(t, id); at != 3 {
		t.Errorf("the log ends at %d, want 3", at)
	}
	if made := ask[*kmsg.CreateTopicsResponse](t, w, 7, createRequest(false, newTopic("new", 1, 1))).Topics[0]; made.ErrorCode != 0 {
		t.Errorf("create again: %s", said(made.ErrorCode, made.ErrorMessage))
	}
}

// If not even the broker itself may write, commits are refused one by one, and nothing else
// happens: no shard reads its log again, committed offsets are shown, and when there is space
// commits resume.
func TestADiskThatIsFullKeepsTheGroups(t *testing.T) {
	t.Parallel()
	disk := &filling{FS: vfs.Memory()}
	disk.free.Store(1 << 39)
	n := newNode(t, quick, func(o *nodeOptions) {
		o.fs = disk
		o.storage = func(s *storage.Options) { s.MinFree = func() int64 { return 100 << 20 } }
	})
	id := n.topic(t, "t", 2)
	n.coordinates(t)
	w := n.dial(t)
	if codes := commit(t, w, 9, "g", id, "t", 0); codes[0] != 0 {
		t.Fatal(codes)
	}
	disk.leave(t, n, 10<<20)
	for range 300 {
		if codes := commit(t, w, 9, "g", id, "t", 1); codes[0] != kerr.CoordinatorNotAvailable.Code {
			t.Fatal(codes)
		}
		if got := fetched(t, w, 9, "g", nil); got != "t/0=5 note" {
			t.Fatal(got)
		}
	}
	var refused, failures int64
	for _, s := range n.groups.Stats() {
		refused, failures = refused+s.Refused, failures+s.Failures
	}
	if refused != 300 || failures != 0 {
		t.Errorf("%d requests were refused, and %d appends or loads failed", refused, failures)
	}
	disk.leave(t, n, 1<<39)
	if codes := commit(t, w, 9, "g", id, "t", 1); codes[0] != 0 {
		t.Error(codes)
	}
	if got := fetched(t, w, 9, "g", nil); got != "t/0=5 note, t/1=15 note" {
		t.Error(got)
	}
}

// The marker of a transaction is written although nothing else is: readers wait for it. The pending
// offset becomes the committed one, and the records before and after it stay refused.
func TestTransactionsEndOnADiskThatIsFull(t *testing.T) {
	t.Parallel()
	disk := &filling{FS: vfs.Memory()}
	disk.free.Store(1 << 39)
	n := newNode(t, quick, func(o *nodeOptions) {
		o.fs = disk
		o.storage = func(s *storage.Options) { s.MinFree = func() int64 { return 100 << 20 } }
		o.broker = func(b *Options) { b.Coordinators = &permitter{} }
	})
	id := n.topic(t, "t", 2)
	n.coordinates(t)
	w := n.dial(t)
	if codes := commitInTxn(t, w, 5, "g", 7, 0); codes[0] != 0 {
		t.Fatal(codes)
	}
	disk.leave(t, n, 10<<20)
	refused := func(when string) {
		t.Helper()
		if codes := commit(t, w, 9, "g", id, "t", 1); codes[0] != kerr.CoordinatorNotAvailable.Code {
			t.Errorf("%s: commit of an offset: %v", when, codes)
		}
		if codes := commitInTxn(t, w, 5, "g", 8, 0); codes[0] != kerr.CoordinatorNotAvailable.Code {
			t.Errorf("%s: commit of an offset in a transaction: %v", when, codes)
		}
	}
	refused("before the marker")
	if _, code := stableOffset(t, w, n, 9, "g"); code != kerr.UnstableOffsetCommit.Code {
		t.Errorf("before the marker: %d", code)
	}
	n.marked(t, "g", 7, true)
	if at, code := stableOffset(t, w, n, 9, "g"); at != 7 || code != 0 {
		t.Errorf("after the marker: offset %d, %d", at, code)
	}
	refused("after the marker")
	disk.leave(t, n, 1<<39)
	if codes := commit(t, w, 9, "g", id, "t", 1); codes[0] != 0 {
		t.Error(codes)
	}
	for _, s := range n.groups.Stats() {
		if s.Failures != 0 {
			t.Errorf("%+v", s)
		}
	}
}
