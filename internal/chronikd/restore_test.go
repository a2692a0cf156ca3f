package chronikd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/restore"
	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// archived is a log that is archived.
type archived struct{ *storage.Log }

// AbortedIn implements upload.Log.
func (l archived) AbortedIn(offset int64, s *storage.Slice) ([]txnindex.Entry, error) {
	return l.Log.AbortedIn(offset, s, math.MaxInt)
}

// archive makes a snapshot of the broker whose directories are in /data, and which is stopped. The
// logs of the topics that unread has could not be read, and end there as far as it is known.
func archive(t *testing.T, mem vfs.FS, unread map[string]int64) {
	t.Helper()
	ctx := context.Background()
	must.OK(t, mem.MkdirAll("/backup"))
	store, err := dirstore.Open(mem, "/backup")
	must.OK(t, err)
	c, err := raftstore.Read(mem, "/data/metadata")
	must.OK(t, err)
	img, err := metadata.Load(c.Keys, c.Revision)
	must.OK(t, err)
	m, err := storage.Open([]storage.Location{{Path: "/data/logs"}}, storage.Options{FS: mem, JournalFileSize: 1 << 20,
		Config: func(string, storage.ID) storage.Config {
			return storage.Config{Profile: durability.Profile{Name: "os", Ack: durability.Written, Sync: durability.SyncOS}}
		}})
	must.OK(t, err)
	defer func() { must.OK(t, m.Close()) }()
	cluster, err := metadata.ParseID(img.ClusterID())
	must.OK(t, err)
	x := &format.Index{Cluster: cluster, Number: c.Revision, Time: time.Now().UnixMilli(), Release: "test"}
	for _, kv := range c.Keys {
		x.Keys = append(x.Keys, format.Key{Key: kv.Key, Value: kv.Value, Revision: kv.ModRevision})
	}
	batch := upload.NewBatch(upload.Options{Store: store, Prefix: format.Prefix(cluster), ObjectBytes: 64 << 20, PackBytes: 64 << 20,
		PieceBytes: 8 << 20, ManifestParts: 1000})
	var all []*upload.Archived
	for topic := range img.Topics() {
		for i, p := range topic.Partitions.All() {
			id := format.ID{Topic: topic.ID, Partition: i}
			if known, ok := unread[topic.Name]; ok {
				all, x.Partitions = append(all, nil), append(x.Partitions, format.Unread(id, p.LeaderEpoch, known, x.Time))
				continue
			}
			l := m.Get(storage.ID{Topic: topic.ID, Partition: i})
			e := l.Ends()
			a, err := batch.Add(ctx, &upload.Target{ID: id, Log: archived{l}, Start: e.LogStart, End: e.LogEnd}, &upload.Archived{}, false)
			must.OK(t, err)
			all = append(all, a)
			x.Partitions = append(x.Partitions, format.Partition{ID: id, State: format.Kept, Epoch: p.LeaderEpoch, Start: e.LogStart,
				End: e.LogEnd})
		}
	}
	must.OK(t, batch.Close(ctx))
	for i, a := range all {
		if a != nil {
			a.Fill(&x.Partitions[i])
		}
	}
	slices.SortFunc(x.Partitions, func(a, b format.Partition) int {
		return cmp.Or(bytes.Compare(a.ID.Topic[:], b.ID.Topic[:]), cmp.Compare(a.ID.Partition, b.ID.Partition))
	})
	sealed, err := x.Encode()
	must.OK(t, err)
	n := format.Name{Kind: objects.Index, Number: x.Number, Nonce: objects.NewNonce()}
	must.OK(t, objects.Write(ctx, store, format.Prefix(cluster)+n.String(), objects.Index, sealed))
}

// few are settings with few partitions of internal topics.
var few = []string{"offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1", "group.initial.rebalance.delay.ms=0"}

// restoreTo runs chronikd restore with a data directory.
func restoreTo(t *testing.T, mem vfs.FS, dir string, args ...string) (code int, out string) {
	t.Helper()
	var b bytes.Buffer
	args = append([]string{"restore", "file:///backup", "--data-dir", dir}, args...)
	code = Main(t.Context(), Process{Args: args, Out: &b, Err: &b, FS: mem})
	return code, b.String()
}

// startTwin restores a broker into /twin and starts it. It returns what the restore printed.
func startTwin(t *testing.T, mem vfs.FS, args ...string) (*daemon.Broker, string) {
	t.Helper()
	code, out := restoreTo(t, mem, "/twin", args...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	flags := here()
	flags[config.KeyDataDir] = "/twin"
	twin, err := tryStart(t, mem, few, flags)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, twin.Close()) })
	return twin, out
}

// patient returns a client that repeats what fails.
func patient(t *testing.T, b *daemon.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addrs()...))...)
	must.OK(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// producerID returns a new producer id.
func producerID(t *testing.T, cl *kgo.Client) int64 {
	t.Helper()
	r, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(t.Context(), cl)
	must.OK(t, err)
	must.OK(t, kerr.ErrorForCode(r.ErrorCode))
	return r.ProducerID
}

// coordinated repeats a request until its group has a coordinator that has loaded it.
func coordinated(t *testing.T, request func() error) {
	t.Helper()
	for {
		err := request()
		if err == nil {
			return
		}
		if t.Context().Err() != nil || !kerr.IsRetriable(err) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// A broker is restored from a snapshot while the original runs on: it has the records, the offsets
// of groups without their members, and ends the transaction that was open. What clients may have
// seen of the original is not used again.
func TestARestoredBrokerIsAClusterOfItsOwn(t *testing.T) {
	mem := vfs.Memory()
	b := start(t, mem, few...)
	must.OK(t, produce(t, b, "t"))
	must.OK(t, produce(t, b, "t"))
	member := patient(t, b, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	polled := member.PollRecords(t.Context(), 1)
	must.OK(t, polled.Err())
	must.OK(t, member.CommitRecords(t.Context(), polled.Records()...))
	id, generation := member.GroupMetadata()
	sender := patient(t, b, kgo.TransactionalID("tx"))
	must.OK(t, sender.BeginTransaction())
	must.OK(t, sender.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("open")}).FirstErr())
	must.OK(t, b.Close())
	archive(t, mem, nil)

	b = start(t, mem, few...)
	original := clientOf(t, b)
	must.OK(t, produce(t, b, "t"))
	seen := producerID(t, original)

	code, out := restoreTo(t, mem, "/twin", "--dry-run")
	if code != 0 || !strings.Contains(out, "the snapshot is whole") {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if _, err := mem.Stat("/twin"); err == nil {
		t.Fatal("a dry run has written")
	}
	twin, out := startTwin(t, mem)
	cl := clientOf(t, twin)
	admin := kadm.NewClient(cl)
	before, err := kadm.NewClient(original).Metadata(t.Context(), "t")
	must.OK(t, err)
	after, err := admin.Metadata(t.Context(), "t")
	must.OK(t, err)
	if after.Cluster == before.Cluster || !strings.Contains(out, after.Cluster) || after.Topics["t"].ID != before.Topics["t"].ID {
		t.Errorf("cluster %s, restored from %s: %s", after.Cluster, before.Cluster, out)
	}
	if was, is := before.Topics["t"].Partitions[0].LeaderEpoch, after.Topics["t"].Partitions[0].LeaderEpoch; is < was+1<<20 {
		t.Errorf("leader epoch %d after %d", is, was)
	}
	if next := producerID(t, cl); next < seen+1<<40 {
		t.Errorf("producer id %d after %d", next, seen)
	}
	var offsets kadm.OffsetResponses
	coordinated(t, func() (err error) { offsets, err = admin.FetchOffsets(t.Context(), "g"); return err })
	groups, err := admin.DescribeGroups(t.Context(), "g")
	must.OK(t, err)
	if o, ok := offsets.Lookup("t", 0); !ok || o.At != 1 || groups["g"].State != "Empty" {
		t.Errorf("group %+v, %+v", groups["g"], offsets)
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = "g", id, generation
	if r, err := beat.RequestWith(t.Context(), cl); err != nil || r.ErrorCode != kerr.UnknownMemberID.Code {
		t.Errorf("the former member: %+v, %v", r, err)
	}
	again := patient(t, twin, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit())
	must.OK(t, again.PollRecords(t.Context(), 1).Err())
	if _, now := again.GroupMetadata(); now < generation+1<<16 {
		t.Errorf("generation %d after %d", now, generation)
	}
	checkTransaction(t, twin)
	must.OK(t, produce(t, twin, "t"))
	if code, out := restoreTo(t, mem, "/twin"); code != exit.Data {
		t.Errorf("a running broker's directory: exit code %d: %s", code, out)
	}
}

// checkTransaction checks that the transaction of the snapshot is aborted, and that its id can be
// used again.
func checkTransaction(t *testing.T, b *daemon.Broker) {
	t.Helper()
	admin := kadm.NewClient(clientOf(t, b))
	for {
		stable, err := admin.ListCommittedOffsets(t.Context(), "t")
		must.OK(t, err)
		ends, err := admin.ListEndOffsets(t.Context(), "t")
		must.OK(t, err)
		s, _ := stable.Lookup("t", 0)
		e, _ := ends.Lookup("t", 0)
		if s.Offset == e.Offset && e.Offset == 4 { // two records, that of the transaction, and its marker
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the transaction stays open")
		}
		time.Sleep(time.Millisecond)
	}
	sender := patient(t, b, kgo.TransactionalID("tx"))
	must.OK(t, sender.BeginTransaction())
	must.OK(t, sender.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("next")}).FirstErr())
	must.OK(t, sender.EndTransaction(t.Context(), kgo.TryCommit))
	reader := patient(t, b, kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var values []string
	for !slices.Contains(values, "next") {
		f := reader.PollFetches(t.Context())
		must.OK(t, f.Err())
		f.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	if !slices.Equal(values, []string{"v", "v", "next"}) {
		t.Errorf("a reader of committed records gets %q", values)
	}
}

// One topic of a cluster is restored: the broker has no other one, and what groups and transactions
// had of others is as if these had been deleted.
func TestOneTopicIsRestored(t *testing.T) {
	mem := vfs.Memory()
	b := start(t, mem, few...)
	cl := clientOf(t, b)
	admin := kadm.NewClient(cl)
	made, err := admin.CreateTopics(t.Context(), 1, 1, nil, "t", "u.x")
	must.OK(t, errors.Join(err, made.Error()))
	must.OK(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}, &kgo.Record{Topic: "t", Value: []byte("v")},
		&kgo.Record{Topic: "u.x", Value: []byte("v")}).FirstErr())
	var at kadm.Offsets
	at.AddOffset("t", 0, 1, -1)
	at.AddOffset("u.x", 0, 1, -1)
	coordinated(t, func() error {
		committed, err := admin.CommitOffsets(t.Context(), "g", at)
		return errors.Join(err, committed.Error())
	})
	sender := patient(t, b, kgo.TransactionalID("tx"))
	must.OK(t, sender.BeginTransaction())
	must.OK(t, sender.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("open")},
		&kgo.Record{Topic: "u.x", Value: []byte("open")}).FirstErr())
	must.OK(t, b.Close())
	archive(t, mem, nil)

	twin, out := startTwin(t, mem, "--topic", "t")
	if !strings.Contains(out, "without 1 topic that") {
		t.Errorf("the restore prints %s", out)
	}
	checkTransaction(t, twin)
	admin = kadm.NewClient(clientOf(t, twin))
	topics, err := admin.ListTopics(t.Context())
	must.OK(t, err)
	if names := topics.Names(); !slices.Equal(names, []string{"t"}) {
		t.Errorf("topics %v", names)
	}
	made, err = admin.CreateTopics(t.Context(), 1, 1, nil, "u.x") // the name is free
	must.OK(t, errors.Join(err, made.Error()))
	var offsets kadm.OffsetResponses
	coordinated(t, func() (err error) { offsets, err = admin.FetchOffsets(t.Context(), "g"); return err })
	if o, ok := offsets.Lookup("t", 0); !ok || o.At != 1 || len(offsets) != 1 {
		t.Errorf("the offsets of the group: %+v", offsets)
	}
}

// A group has consumed records of a log that could not be read, above the end that was known. What
// is written after the restore has other offsets: the group gets all of it.
func TestNoRecordIsSkippedInALogThatCouldNotBeRead(t *testing.T) {
	mem := vfs.Memory()
	b := start(t, mem, few...)
	for range 5 {
		must.OK(t, produce(t, b, "t"))
	}
	admin := kadm.NewClient(clientOf(t, b))
	var at kadm.Offsets
	at.AddOffset("t", 0, 5, -1)
	coordinated(t, func() error {
		committed, err := admin.CommitOffsets(t.Context(), "g", at)
		return errors.Join(err, committed.Error())
	})
	must.OK(t, b.Close())
	archive(t, mem, map[string]int64{"t": 2})

	twin, out := startTwin(t, mem)
	cl := clientOf(t, twin)
	starts, err := kadm.NewClient(cl).ListStartOffsets(t.Context(), "t")
	must.OK(t, err)
	if o, _ := starts.Lookup("t", 0); !strings.Contains(out, fmt.Sprintf("Now they begin: t-0 at %d\n", o.Offset)) ||
		!strings.Contains(out, "`chronikctl group reset GROUP --to-earliest --topic t:0`\n") {
		t.Errorf("the log begins at %d, and the restore prints %s", o.Offset, out)
	}
	var want []string
	for i := range 8 { // more than there were
		want = append(want, strconv.Itoa(i))
		must.OK(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte(want[i])}).FirstErr())
	}
	member := patient(t, twin, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []string
	for !slices.Contains(got, want[len(want)-1]) {
		f := member.PollFetches(t.Context())
		must.OK(t, f.Err())
		f.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if !slices.Equal(got, want) {
		t.Errorf("the group gets %v, want %v", got, want)
	}
}

// The command that resets groups names the partitions of each topic once.
func TestUnreadPartitionsOfSeveralTopics(t *testing.T) {
	var out bytes.Buffer
	c := commandLine{Process: Process{Out: &out}}
	must.OK(t, c.offline(&restore.Result{Offline: []restore.Unread{{Topic: "a", Partition: 1, Start: 70},
		{Topic: "a", Partition: 3, Start: 80}, {Topic: "b", Start: 90}}}))
	for _, want := range []string{"3 partitions without", "begin: a-1 at 70, a-3 at 80, b-0 at 90\n", " --topic a:1,3 --topic b:0`"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", want, out.String())
		}
	}
}

func TestErrorsOfRestore(t *testing.T) {
	mem := vfs.Memory()
	must.OK(t, errors.Join(mem.MkdirAll("/empty"), mem.MkdirAll("/backup")))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"restore", exit.Usage, "file:///backup"},
		{"restore a b", exit.Usage, "needs the URL"},
		{"restore /backup", exit.Usage, "write file:///DIRECTORY for a directory, or s3://BUCKET/PREFIX"},
		{"restore s4://x", exit.Usage, "write file:///DIRECTORY for a directory, or s3://BUCKET/PREFIX"},
		{"restore file:///missing", exit.Data, "mount its file system"},
		{"restore file:///empty", exit.Usage, "no snapshots"},
		{"restore file:///empty --cluster x", exit.Usage, "cluster \"x\""},
		{"restore file:///empty --at yesterday", exit.Usage, "--at yesterday"},
		{"restore file:///empty --snapshot 3 --at 2026-01-01T00:00:00Z", exit.Usage, "exclude each other"},
		{"restore file:///empty --snapshot -3", exit.Usage, "at least 1"},
	} {
		var out bytes.Buffer
		code := Main(t.Context(), Process{Args: append(strings.Fields(c.args), "--data-dir", "/data"), Out: &out, Err: &out, FS: mem})
		if code != c.code || !strings.Contains(out.String(), c.want) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: exit code %d: %s", c.args, code, out.String())
		}
	}
	if _, err := mem.Stat("/data"); err == nil {
		t.Error("a refused restore has written")
	}
}
