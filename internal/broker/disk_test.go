package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// stuck makes calls of a disk wait until release is called, which also happens when the test ends.
// began receives a value for every call that waits.
func stuck(t testing.TB, disk *errfs.FS, ops errfs.Op) (began <-chan errfs.Call, release func()) {
	t.Helper()
	calls, free := make(chan errfs.Call, 1000), make(chan struct{})
	disk.Add(errfs.Rule{Ops: ops, Before: func(c errfs.Call) {
		calls <- c
		<-free
	}})
	freed := false
	release = func() {
		if !freed {
			freed = true
			disk.Clear()
			close(free)
		}
	}
	t.Cleanup(release)
	return calls, release
}

// changes are the calls that change a disk.
const changes = errfs.Create | errfs.Mkdir | errfs.Remove | errfs.Rename | errfs.SyncDir |
	errfs.Write | errfs.Datasync | errfs.Allocate | errfs.Truncate

// TestI14NothingWaitsForTheDiskButItsOwnRequest: while no call that changes the disk returns,
// or no datasync, records under every kind of profile and a metadata change wait for it. Fetches of
// the same partitions, metadata, lookups and further produces continue, and requests behind a
// produce without acks on the same connection. When the disk responds again, all are answered.
func TestI14NothingWaitsForTheDiskButItsOwnRequest(t *testing.T) {
	for what, ops := range map[string]errfs.Op{"every change": changes, "datasync": errfs.Datasync} {
		t.Run(what, func(t *testing.T) { nothingWaitsFor(t, ops) })
	}
}

func nothingWaitsFor(t *testing.T, ops errfs.Op) {
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs = disk })
	ids := map[string][16]byte{}
	for _, profile := range []string{"sync", "high", "os"} {
		ids[profile] = n.topic(t, profile, 1, "chronik.durability.profile", profile)
		n.put(t, profile, 1, "before")
	}
	calls, release := stuck(t, disk, ops)
	var waiting []*wire
	var asked []kmsg.Request
	later := func(req kmsg.Request, version int16) {
		w := n.dial(t)
		req.SetVersion(version)
		must(t, w.send(req))
		waiting, asked = append(waiting, w), append(asked, req)
	}
	for profile, id := range ids {
		for range 3 {
			later(produceRequest("", id, -1, plain(t, profile)), 13)
		}
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = "new", 1, 1
	create.Topics, create.TimeoutMillis = append(create.Topics, ct), 120_000
	later(create, 7)
	// The journal and the metadata.
	for range 2 {
		<-calls
	}
	w := n.dial(t)
	for range 3 {
		for profile, id := range ids {
			shown := profile == "os" && ops&errfs.Write == 0 // what was written then counts without the datasync
			got := show(t, ask[*kmsg.FetchResponse](t, w, 12, fetchRequest(0, named(profile, [16]byte{}))))
			if want := fmt.Sprintf("%s-0[0 1: [0]]", profile); got != want && !(shown && strings.HasPrefix(got, "os-0[0 ")) {
				t.Errorf("fetched %s, want %s", got, want)
			}
			list := kmsg.NewPtrListOffsetsRequest()
			lt := kmsg.NewListOffsetsRequestTopic()
			lp := kmsg.NewListOffsetsRequestTopicPartition()
			lp.Timestamp, lp.CurrentLeaderEpoch = -1, -1
			lt.Topic, lt.Partitions = profile, append(lt.Partitions, lp)
			list.ReplicaID, list.Topics = -1, append(list.Topics, lt)
			p := ask[*kmsg.ListOffsetsResponse](t, w, 7, list).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.Offset < 1 || p.Offset > 1 && !shown {
				t.Errorf("end of %s: %+v", profile, p)
			}
			later(produceRequest("", id, 1, plain(t, "more")), 13)
			unanswered := produceRequest("", id, 0, plain(t, "even more"))
			unanswered.SetVersion(13)
			must(t, w.send(unanswered))
		}
		if m := ask[*kmsg.MetadataResponse](t, w, 12, kmsg.NewPtrMetadataRequest()); len(m.Topics) != len(ids) {
			t.Errorf("%d topics in the metadata", len(m.Topics))
		}
		if v := ask[*kmsg.ApiVersionsResponse](t, w, 3, apiVersionsRequest("test", "1")); v.ErrorCode != 0 {
			t.Errorf("%+v", v)
		}
	}
	release()
	for i, w := range waiting {
		resp, err := w.receive(asked[i])
		must(t, err)
		switch resp := resp.(type) {
		case *kmsg.ProduceResponse:
			if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 {
				t.Errorf("produce %d: %+v", i, p)
			}
		case *kmsg.CreateTopicsResponse:
			if resp.Topics[0].ErrorCode != 0 {
				t.Errorf("%+v", resp.Topics[0])
			}
		}
	}
}

// A produce that isn't durable in time is answered with REQUEST_TIMED_OUT. Its record may still be
// stored, and here it is: the retry with the same sequence is answered with its offset, and the
// next sequence follows it.
func TestFault09ASlowDiskTimesProducesOut(t *testing.T) {
	for _, profile := range []string{"sync", "high", "os"} {
		t.Run(profile, func(t *testing.T) {
			disk := errfs.New(vfs.Memory())
			n := newNode(t, func(o *nodeOptions) { o.fs, o.broker = disk, func(b *Options) { b.AppendTime = 30 * time.Millisecond } })
			id := n.topic(t, "t", 1, "chronik.durability.profile", profile)
			n.put(t, "t", 1, "0")
			_, release := stuck(t, disk, errfs.Write|errfs.Datasync)
			w := n.dial(t)
			send := func(seq int32) kmsg.ProduceResponseTopicPartition {
				b := batchOf(t, record.BatchOptions{Producer: &record.Producer{ID: 5, Sequence: seq}}, 1000+int64(seq), fmt.Sprint(seq+1))
				req := produceRequest("", id, -1, b)
				if seq == 0 && release != nil {
					req.TimeoutMillis = 30
				}
				return produced(t, w, 13, req)
			}
			p := send(0)
			if p.ErrorCode != kerr.RequestTimedOut.Code || p.BaseOffset != -1 {
				t.Fatalf("while the disk is stuck: %+v", p)
			}
			if used := n.server.Load().Stats().Produce.Used; used != 0 {
				t.Errorf("%d bytes are still held for a request that was answered", used)
			}
			release()
			release = nil
			if p := send(0); p.ErrorCode != 0 || p.BaseOffset != 1 {
				t.Fatalf("retry: %+v", p)
			}
			if p := send(1); p.ErrorCode != 0 || p.BaseOffset != 2 {
				t.Fatalf("next: %+v", p)
			}
			if there := n.readAll(t, id); there != 3 {
				t.Errorf("%d records, want 3", there)
			}
		})
	}
}

// Clients that keep producing while the disk hangs fill the deferred bytes and then the produce
// budget, and no more. Records that time out in the log's queue are not stored later.
func TestFault09AStuckDiskBoundsMemory(t *testing.T) {
	const deferred = 256 << 10
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) {
		o.fs = disk
		o.storage = func(s *storage.Options) { s.DeferredBytes = deferred }
		o.broker = func(b *Options) { b.AppendTime = time.Millisecond }
	})
	id := n.topic(t, "t", 1)
	n.put(t, "t", 1, "0")
	_, release := stuck(t, disk, errfs.Write|errfs.Datasync)
	w := n.dial(t)
	const size = 32 << 10
	value := string(bytes.Repeat([]byte{'x'}, size))
	for range 4 * deferred / size {
		req := produceRequest("", id, -1, plain(t, value))
		req.TimeoutMillis = 1
		if p := produced(t, w, 13, req); p.ErrorCode != kerr.RequestTimedOut.Code {
			t.Fatalf("%+v", p)
		}
	}
	if held := n.storage.Dirs()[0].Usage().DeferredBytes; held > 2*deferred {
		t.Errorf("%d bytes are deferred, the bound is %d", held, deferred)
	}
	if used := n.server.Load().Stats().Produce.Used; used != 0 {
		t.Errorf("%d bytes of answered requests", used)
	}
	end := func() int64 {
		p, err := n.opt.Replicas.Partition(id, 0)
		must(t, err)
		return p.Ends().LogEnd
	}()
	release()
	if p := produced(t, w, 13, produceRequest("", id, -1, plain(t, "last"))); p.ErrorCode != 0 || p.BaseOffset != end {
		t.Fatalf("after the disk came back: %+v, want offset %d", p, end)
	}
}

// TestI8BytesAreTheClients: fetched batches, from memory and after a restart from the disk, are
// byte for byte those that were sent, except for base offset and leader epoch.
func TestI8BytesAreTheClients(t *testing.T) {
	fs := vfs.Memory()
	var sent [][]byte
	check := func(t *testing.T, n *node) {
		p := ask[*kmsg.FetchResponse](t, n.dial(t), 12, fetchRequest(0, named("t", [16]byte{}))).Topics[0].Partitions[0]
		rest := p.RecordBatches
		for i, want := range sent {
			got, more, err := record.Next(rest)
			must(t, err)
			rest = more
			w := record.Batch(bytes.Clone(want))
			if got.BaseOffset() != int64(3*i) || got.LeaderEpoch() < 0 {
				t.Errorf("batch %d: offset %d, epoch %d", i, got.BaseOffset(), got.LeaderEpoch())
			}
			w.SetBaseOffset(got.BaseOffset())
			w.SetLeaderEpoch(got.LeaderEpoch())
			if !bytes.Equal(got, w) {
				t.Errorf("batch %d is not what was sent", i)
			}
		}
		if len(rest) != 0 {
			t.Errorf("%d bytes more", len(rest))
		}
	}
	t.Run("first life", func(t *testing.T) {
		n := newNode(t, func(o *nodeOptions) { o.fs = fs })
		id := n.topic(t, "t", 1)
		w := n.dial(t)
		for i, c := range []record.Codec{record.None, record.Gzip, record.Snappy, record.Lz4, record.Zstd} {
			o := record.BatchOptions{Producer: &record.Producer{ID: 3, Sequence: int32(3 * i)}}
			if c != record.None {
				o.Compression = compressed(t, c)
			}
			b := batchOf(t, o, time.Now().UnixMilli(), "a", "", string(bytes.Repeat([]byte("b"), 5000)))
			sent = append(sent, bytes.Clone(b))
			if p := produced(t, w, 13, produceRequest("", id, -1, b)); p.ErrorCode != 0 {
				t.Fatalf("%v: %+v", c, p)
			}
		}
		check(t, n)
	})
	t.Run("second life", func(t *testing.T) { check(t, newNode(t, func(o *nodeOptions) { o.fs = fs })) })
}

// A request that waits for a disk does not keep the broker from stopping.
func TestCloseEndsWithItsContext(t *testing.T) {
	n := newNode(t)
	free := make(chan struct{})
	n.work.Go(func() { <-free })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTimedOut)
	if err := n.Close(ctx); !errors.Is(err, errTimedOut) {
		t.Errorf("Close says %v", err)
	}
	close(free)
	must(t, n.Close(t.Context()))
}

// CreateTopics and CreatePartitions report logs that could not be created: success means that the
// topic is usable.
func TestLogThatCannotBeCreatedIsReported(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs = disk })
	n.topic(t, "old", 1)
	disk.Add(errfs.Rule{Ops: errfs.Mkdir, When: func(c errfs.Call) bool { return strings.HasSuffix(c.Path, "-1") }, Err: syscall.EMFILE})
	w := n.dial(t)
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 120_000
	for name, partitions := range map[string]int32{"one": 1, "two": 2} {
		ct := kmsg.NewCreateTopicsRequestTopic()
		ct.Topic, ct.NumPartitions, ct.ReplicationFactor = name, partitions, 1
		create.Topics = append(create.Topics, ct)
	}
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.TimeoutMillis = 120_000
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "old", Count: 3}}
	for _, out := range ask[*kmsg.CreateTopicsResponse](t, w, 7, create).Topics {
		if out.Topic == "one" {
			if out.ErrorCode != 0 {
				t.Errorf("%+v", out)
			}
		} else if out.ErrorCode != kerr.KafkaStorageError.Code || !strings.Contains(*out.ErrorMessage, "two-1") ||
			!strings.Contains(*out.ErrorMessage, syscall.EMFILE.Error()) {
			t.Errorf("%+v: %s", out, *out.ErrorMessage)
		}
	}
	if out := ask[*kmsg.CreatePartitionsResponse](t, w, 3, grow).Topics[0]; out.ErrorCode != kerr.KafkaStorageError.Code ||
		!strings.Contains(*out.ErrorMessage, "old-1") {
		t.Errorf("%+v", out)
	}
	grow.Topics[0].Count = 4 // partitions that were missing before do not concern this request
	if out := ask[*kmsg.CreatePartitionsResponse](t, w, 3, grow).Topics[0]; out.ErrorCode != 0 {
		t.Errorf("%+v: %s", out, *out.ErrorMessage)
	}
}
