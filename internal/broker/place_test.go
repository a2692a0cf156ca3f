package broker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
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

// A large request that moves logs waits for a directory, and keeps no other from its place
// meanwhile: a disk that hangs does not end its calls when their context does.
func TestAMoveToADiskThatHangsKeepsNoPlace(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs, o.second = disk, "/data/second" })
	n.topic(t, "t", 1)
	p, err := n.opt.Replicas.Partition(n.image().Topic("t").ID, 0)
	must(t, err)
	to := "/data/second"
	if p.Log().Dir().Path() == to {
		to = "/data/logs"
	}
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: to, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{
		{Topic: "t", Partitions: []int32{0}}, {Topic: "absent", Partitions: make([]int32, largeBody/4)}}}}
	req.SetVersion(2)
	calls, release := stuck(t, disk, errfs.Mkdir)
	w := n.dial(t)
	must(t, w.send(req))
	<-calls
	eventually(t, "the place is free", func() bool { return n.large.Held() == 0 })
	release()
	_, err = w.receive(req)
	must(t, err)
}

// A move that fails with an error of the disk, and a request that fails with an error for which the
// protocol has no code, are in the log, which is all that names the error.
func TestErrorsWithoutACodeAreLogged(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	core, said := observer.New(zap.WarnLevel)
	n := newNode(t, func(o *nodeOptions) {
		o.fs, o.second = disk, "/data/second"
		o.broker = func(opt *Options) { opt.Logger = zap.New(core) }
	})
	n.topic(t, "t", 1)
	p, err := n.opt.Replicas.Partition(n.image().Topic("t").ID, 0)
	must(t, err)
	to := "/data/second"
	if p.Log().Dir().Path() == to {
		to = "/data/logs"
	}
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: to, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{
		{Topic: "t", Partitions: []int32{0}}}}}
	disk.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "*-future", Err: syscall.EROFS, Count: 1})
	w := n.dial(t)
	got := ask[*kmsg.AlterReplicaLogDirsResponse](t, w, 2, req).Topics[0].Partitions[0].ErrorCode
	all := said.FilterMessage("a log is not moved").All()
	if got != kerr.UnknownServerError.Code && got != kerr.KafkaStorageError.Code || len(all) != 1 || all[0].ContextMap()["topic"] != "t" ||
		!strings.Contains(fmt.Sprint(all[0].ContextMap()["error"]), syscall.EROFS.Error()) {
		t.Errorf("code %d, said %+v", got, said.All())
	}
	r := &network.Request{Key: int16(kmsg.ListOffsets)}
	for range 4 {
		n.code(r, fmt.Errorf("read: %w", syscall.EIO))
	}
	n.code(r, kerr.UnknownServerError)
	n.code(r, kerr.NotController)
	lines := said.FilterField(zap.String("request", "ListOffsets")).All()
	if len(lines) != 3 || lines[2].ContextMap()["failures"] != int64(3) {
		t.Errorf("said of another request: %+v", lines)
	}
}

// deaf are leaders of share partitions that do not answer until free is closed. asked receives a
// value for each question.
type deaf struct{ asked, free chan struct{} }

func (x deaf) InspectRecords(_ context.Context, _ []sharestate.Operating, done func([]sharestate.Operated)) {
	x.asked <- struct{}{}
	go func() {
		<-x.free
		done([]sharestate.Operated{{Err: kerr.NotLeaderForPartition}})
	}()
}

func (x deaf) Operate(ctx context.Context, items []sharestate.Operating, done func([]sharestate.Operated)) {
	x.InspectRecords(ctx, items, done)
}

// A large request of an operator waits for the leader of a share partition without a place.
func TestAnOperatorThatWaitsKeepsNoPlace(t *testing.T) {
	x := deaf{make(chan struct{}, 1), make(chan struct{})}
	n, _, _ := shareNode(t, func(o *nodeOptions) { o.broker = func(opt *Options) { opt.Operators = x } })
	req := kmsg.NewPtrShareFetchRequest()
	req.GroupID = kmsg.StringPtr("g")
	req.UnknownTags.Set(view.ShareTag, []byte(`{"topic":"t","partition":0,"first":0,"limit":10}`))
	req.Topics = []kmsg.ShareFetchRequestTopic{{Partitions: make([]kmsg.ShareFetchRequestTopicPartition, largeBody/4)}}
	req.SetVersion(2)
	w := n.dial(t)
	must(t, w.send(req))
	<-x.asked
	if n.large.Held() > 0 {
		t.Error("it has a place")
	}
	close(x.free)
	_, err := w.receive(req)
	must(t, err)
}

// A large request that asks all brokers waits for them without a place.
func TestARequestThatAsksAllBrokersKeepsNoPlace(t *testing.T) {
	n, x, _, away := front(t)
	away()
	x.passed <- 0 // the other broker gets the request and does not answer before this is taken
	req := kmsg.NewPtrListGroupsRequest()
	req.StatesFilter = slices.Repeat([]string{"no state"}, largeBody/8)
	req.SetVersion(4)
	fill(t, n.large)
	w := n.dial(t)
	must(t, w.send(req))
	eventually(t, "it waits for a place", func() bool { return n.large.Waiting() == 1 })
	for range share.Half() {
		n.large.Leave()
	}
	eventually(t, "the place is free", func() bool { return n.large.Held() == 0 })
	if n.server.Load().Waits(1).Waiting == 0 {
		t.Error("it had the place until its answer")
	}
	<-x.passed
	_, err := w.receive(req)
	must(t, err)
}
