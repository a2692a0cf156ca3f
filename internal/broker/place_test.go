package broker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/storage"
)

// A request that names much, or has a large answer, waits while others have the places; small ones
// don't. The place ends with the answer, or when the request is parked.
func TestLargeRequestsTakePlaces(t *testing.T) {
	const many = 10_000
	absent := make([]any, many)
	created := createRequest(true)
	deleted := kmsg.NewPtrDeleteTopicsRequest()
	deleted.TimeoutMillis = 1000
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "small"}}
	for i := range many {
		name := fmt.Sprintf("absent-%06d", i)
		absent[i] = name
		created.Topics = append(created.Topics, newTopic(name, 1, 1))
		deleted.TopicNames = append(deleted.TopicNames, name)
		offsets.Topics[0].Partitions = append(offsets.Topics[0].Partitions,
			kmsg.ListOffsetsRequestTopicPartition{Partition: int32(i), Timestamp: -1})
	}
	parked := waiting(0, 1<<20, named("small", [16]byte{}))
	parked.MaxWaitMillis = 10_000
	parked.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "small", Partitions: make([]int32, largeBody/4)}}
	for name, x := range map[string]struct {
		version int16
		req     kmsg.Request
		waits   bool
		wide    bool // if there is a wide topic
	}{
		"metadata of many topics":     {9, metadataRequest(false, absent...), true, false},
		"metadata of a wide topic":    {9, metadataRequest(false, "wide"), true, true},
		"metadata of all topics":      {9, kmsg.NewPtrMetadataRequest(), true, true},
		"metadata of a small topic":   {9, metadataRequest(false, "small"), false, true},
		"many topics to validate":     {5, created, true, false},
		"many topics to delete":       {5, deleted, true, false},
		"many offsets":                {5, offsets, true, false},
		"logs":                        {1, kmsg.NewPtrDescribeLogDirsRequest(), true, true},
		"a large fetch that waits":    {12, parked, true, false},
		"versions":                    {3, kmsg.NewPtrApiVersionsRequest(), false, false},
		"offsets of no partition":     {5, kmsg.NewPtrListOffsetsRequest(), false, false},
		"topics that are not deleted": {5, kmsg.NewPtrDeleteTopicsRequest(), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, quick, func(o *nodeOptions) { o.pipe = true })
				n.topic(t, "small", 1)
				if x.wide {
					n.topic(t, "wide", largeAnswer/partitionAnswer+1)
				}
				fill(t, n.large)
				w := n.dial(t)
				defer w.Close()
				var answered atomic.Bool
				ended := make(chan error, 1)
				x.req.SetVersion(x.version)
				go func() {
					err := w.send(x.req)
					if err == nil {
						_, err = w.receive(x.req)
					}
					answered.Store(true)
					ended <- err
				}()
				synctest.Wait()
				if answered.Load() == x.waits || n.park.Waiting() > 0 {
					t.Errorf("answered: %v", answered.Load())
				}
				empty(n.large)
				synctest.Wait()
				if n.large.Held() > 0 {
					t.Error("the place was not given back")
				}
				must(t, <-ended)
			})
		})
	}
}

// fill takes all places of the processors for a class.
func fill(t *testing.T, p *share.Places) {
	t.Helper()
	for range share.Half() {
		must(t, p.Take(t.Context(), nil, netip.Prefix{}))
	}
}

// empty gives all places of a class back.
func empty(p *share.Places) {
	for range p.Held() {
		p.Leave()
	}
}

// A request keeps its place while it computes, however long that takes. From when its handler waits
// for something else, others get the place soon.
func TestAPlaceLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := share.New().Of(share.Requests)
		var list []*place
		for range share.Half() {
			must(t, all.Take(t.Context(), nil, netip.Prefix{}))
			list = append(list, newPlace(all))
		}
		waits := list[0].context(t.Context())
		time.Sleep(2 * placeTime) // in the bubble's time
		if all.Held() != share.Half() {
			t.Error("a request that only computes lost its place: others compute beside it on all processors")
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(waits, time.Hour) // as what a handler waits for does
		defer cancel()
		must(t, all.Take(t.Context(), nil, netip.Prefix{}))
		if took := time.Since(began); took != placeTime || ctx.Err() != nil {
			t.Errorf("the next place was free after %v; %v", took, ctx.Err())
		}
		for _, p := range list {
			p.end()
			p.mayWait()
		}
		time.Sleep(2 * placeTime)
		if all.Held() != 1 {
			t.Errorf("%d places are held: one that had lapsed was given back twice", all.Held())
		}
		all.Leave()
	})
}

// Large requests of an address take turns with those of others: many connections of one address do
// not make the first request of another one wait for all of them.
func TestLargeRequestsTakeTurnsByAddress(t *testing.T) {
	const first, many = "127.0.0.1", 20
	n := newNode(t, quick)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.SetVersion(5)
	for i := range 10_000 {
		req.TopicNames = append(req.TopicNames, fmt.Sprintf("absent-%06d", i))
	}
	fill(t, n.large)
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	for i, ip := range append(slices.Repeat([]string{first}, many), "127.0.0.2") {
		w := n.dialFrom(t, ip)
		all.Go(func() {
			err := w.send(req)
			if err == nil {
				_, err = w.receive(req)
			}
			mu.Lock()
			defer mu.Unlock()
			if order = append(order, ip); err != nil {
				t.Error(err)
			}
		})
		eventually(t, "the request waits", func() bool { return n.large.Waiting() > i })
	}
	for range share.Half() {
		n.large.Leave()
	}
	all.Wait()
	if at := slices.Index(order, "127.0.0.2"); at > many/2 {
		t.Errorf("the request of the second address was answered after %d of %d of the first one", at, many)
	}
}

// A large request that searches records gives its place back first: inflating them takes another
// one, which may be the last.
func TestALargeSearchHasOnePlace(t *testing.T) {
	// Other tests use what this one leaves: places, and decoders. Those of zstd have channels.
	heavy := batchOf(t, record.BatchOptions{Compression: compressed(t, record.Gzip)}, 1, strings.Repeat("\x00", 1<<20))
	synctest.Test(t, func(t *testing.T) {
		all := share.New()
		n := newNode(t, quick, func(o *nodeOptions) {
			o.pipe = true
			o.storage = func(s *storage.Options) { s.Places = all.Of(share.Batches) }
			o.broker = func(b *Options) { b.Share = all }
		})
		id := n.topic(t, "t", 1)
		w := n.dial(t)
		defer w.Close()
		if p := produced(t, w, 13, produceRequest("", id, -1, heavy)); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
		for range share.Half() - 1 {
			must(t, n.large.Take(t.Context(), nil, netip.Prefix{}))
		}
		req := kmsg.NewPtrListOffsetsRequest()
		req.SetVersion(5)
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: 1}}},
			{Topic: strings.Repeat("u", largeBody/4)}, {Topic: strings.Repeat("u", largeBody/4)}, {Topic: strings.Repeat("u", largeBody/4)},
			{Topic: strings.Repeat("u", largeBody/4)}}
		began := time.Now()
		must(t, w.send(req))
		resp, err := w.receive(req)
		must(t, err)
		if p := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != 0 {
			t.Errorf("%+v", p)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the search waited %v for the request's own place", took)
		}
	})
}
