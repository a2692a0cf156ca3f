package broker

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// remove deletes a topic and returns when it is no longer visible.
func (n *node) remove(t testing.TB, id [16]byte) {
	t.Helper()
	revision, err := n.control.DeleteTopic(t.Context(), id)
	must(t, err)
	must(t, n.applier.WaitFor(t.Context(), revision))
}

// A topic that is created again under a name is another one: requests for the old one are refused,
// and read and leave nothing in the new one.
func TestStaleIDsAreRefused(t *testing.T) {
	n := newNode(t, quick)
	old := n.topic(t, "t", 1)
	n.put(t, "t", 3, "old")
	n.coordinates(t)
	w := n.dial(t)
	byIDSession := ask[*kmsg.FetchResponse](t, w, 13, inSession(fetchRequest(3, named("", old)), 0, 0)).SessionID
	byNameSession := ask[*kmsg.FetchResponse](t, w, 12, inSession(fetchRequest(3, named("t", old)), 0, 0)).SessionID
	n.remove(t, old)
	id := n.topic(t, "t", 1)
	n.put(t, "t", 1, "new")

	expect := func(what string, code int16, want *kerr.Error) {
		t.Helper()
		if code != want.Code {
			t.Errorf("%s: %v, want %v", what, kerr.ErrorForCode(code), want)
		}
	}
	expect("produce", produced(t, w, 13, produceRequest("", old, -1, plain(t, "x"))).ErrorCode, kerr.UnknownTopicID)
	expect("fetch", ask[*kmsg.FetchResponse](t, w, 13, fetchRequest(0, named("", old))).Topics[0].Partitions[0].ErrorCode,
		kerr.UnknownTopicID)
	// With ids, a session remembers the topic, not its name.
	expect("fetch in a session", ask[*kmsg.FetchResponse](t, w, 13,
		inSession(fetchRequest(0), byIDSession, 1)).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicID)
	expect("fetch in a session without ids", ask[*kmsg.FetchResponse](t, w, 12,
		inSession(fetchRequest(0), byNameSession, 1)).Topics[0].Partitions[0].ErrorCode,
		kerr.OffsetOutOfRange)
	expect("commit", commit(t, w, 10, "g", old, "", 0)[0], kerr.UnknownTopicID)
	if got, want := fetched(t, w, 10, "g", []kmsg.OffsetFetchRequestGroupTopic{some(old, "", 0)}),
		kerr.UnknownTopicID.Error(); !strings.HasSuffix(got, want) {
		t.Errorf("offsets of the old topic: %s, want %s", got, want)
	}
	expect("delete", ask[*kmsg.DeleteTopicsResponse](t, w, 6, deleteRequest(6, byID(old))).Topics[0].ErrorCode, kerr.UnknownTopicID)
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{{TopicID: old}}
	expect("metadata", ask[*kmsg.MetadataResponse](t, w, 12, meta).Topics[0].ErrorCode, kerr.UnknownTopicID)

	if end := n.highWatermark(t, id); end != 1 {
		t.Errorf("the new topic ends at %d", end)
	}
	if got := show(t, ask[*kmsg.FetchResponse](t, w, 12, fetchRequest(0, named("t", id)))); got != "t-0[0 1: [0]]" {
		t.Errorf("the new topic: %s", got)
	}
}

// While clients produce and fetch, topics are deleted and created again: each produce is
// acknowledged or refused with a fitting error, and the remaining topics have what was acknowledged
// to them.
func TestTopicsAreDeletedUnderLoad(t *testing.T) {
	n := newNode(t)
	var id atomic.Pointer[[16]byte]
	publish := func() [16]byte {
		made := n.topic(t, "t", 1)
		id.Store(&made)
		return made
	}
	publish()
	stop := make(chan struct{})
	var work sync.WaitGroup
	var mu sync.Mutex
	acked := map[[16]byte]int{}
	allowed := []int16{0, kerr.UnknownTopicID.Code, kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code}
	each := func(do func(w *wire, to [16]byte) (int16, string)) {
		w := n.dial(t)
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				to := *id.Load()
				code, what := do(w, to)
				if !slices.Contains(allowed, code) {
					t.Errorf("%s: %v", what, kerr.ErrorForCode(code))
				}
				if code == 0 && what == "produce" {
					mu.Lock()
					acked[to]++
					mu.Unlock()
				}
			}
		})
	}
	for range 3 {
		each(func(w *wire, to [16]byte) (int16, string) {
			return produced(t, w, 13, produceRequest("", to, -1, plain(t, "v"))).ErrorCode, "produce"
		})
	}
	each(func(w *wire, to [16]byte) (int16, string) {
		req := fetchRequest(0, named("", to))
		req.MaxWaitMillis, req.MinBytes = 20, 1<<20
		return ask[*kmsg.FetchResponse](t, w, 13, req).Topics[0].Partitions[0].ErrorCode, "fetch"
	})
	var last [16]byte
	for range 20 {
		n.remove(t, *id.Load())
		last = publish()
		eventually(t, "they write some", func() bool { return t.Failed() || n.highWatermark(t, last) >= 5 })
	}
	close(stop)
	work.Wait()
	mu.Lock()
	defer mu.Unlock()
	if end := n.highWatermark(t, last); end != int64(acked[last]) {
		t.Errorf("the last topic has %d records, %d were acknowledged", end, acked[last])
	}
	if logs := n.storage.Logs(); len(logs) != 1 {
		t.Errorf("%d logs are left", len(logs))
	}
}
