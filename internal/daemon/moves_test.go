package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl"
	ctlapp "github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/vfs"
)

// moveAll asks for the move of partitions to a directory, and returns the error of each.
func moveAll(t *testing.T, admin *kadm.Client, dir, topic string, partitions ...int32) (errs []error) {
	t.Helper()
	var req kadm.AlterReplicaLogDirsReq
	set := kadm.TopicsSet{}
	set.Add(topic, partitions...)
	req.Add(dir, set)
	resp, err := admin.AlterAllReplicaLogDirs(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	byPartition := map[int32]error{}
	for _, broker := range resp {
		for p, one := range broker[topic] {
			byPartition[p] = one.Err
		}
	}
	for _, p := range partitions {
		errs = append(errs, byPartition[p])
	}
	return errs
}

// whereIs returns the directories of a partition, those of a copy with "+".
func whereIs(t *testing.T, admin *kadm.Client, topic string, partition int32) (dirs []string) {
	t.Helper()
	all, err := admin.DescribeAllLogDirs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all.Each(func(d kadm.DescribedLogDir) {
		if p, ok := d.Topics.Lookup(topic, partition); ok {
			name := d.Dir
			if p.IsFuture {
				name += "+"
			}
			dirs = append(dirs, name)
		}
	})
	return dirs
}

// Logs move to another directory while an idempotent and a transactional producer, and a group, use
// them: each record is there once, and read once.
func TestLogsMoveUnderLoad(t *testing.T) {
	const dirs = "log.dirs=/one,/two"
	mem := vfs.Memory()
	b, _ := startHere(t, mem, dirs)
	fill(t, b, "t", 4, 3)
	seeds := kgo.SeedBrokers(b.Addrs()...)
	c, err := kgo.NewClient(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	group, err := kgo.NewClient(seeds, kgo.ConsumeTopics("t"), kgo.ConsumerGroup("g"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	seen := map[string]int{}
	group.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) { seen[fmt.Sprint(r.Partition, "/", r.Offset)]++ })

	ctx, stop := context.WithCancel(t.Context())
	wrote := make(chan [4]int)
	go func() {
		var n [4]int
		for p := 0; ctx.Err() == nil; p++ {
			r := &kgo.Record{Topic: "t", Partition: int32(p % 4), Value: fmt.Append(nil, p)}
			if err := c.ProduceSync(context.WithoutCancel(ctx), r).FirstErr(); err != nil {
				t.Error(err)
				break
			}
			n[p%4]++
		}
		wrote <- n
	}()
	for _, to := range []string{"/two", "/one", "/two"} {
		for p, err := range moveAll(t, admin, to, "t", 0, 1, 2, 3) {
			if err != nil {
				t.Errorf("t-%d to %s: %v", p, to, err)
			}
		}
		for p := range int32(4) {
			eventually(t, "the log has moved", func() bool { return strings.Join(whereIs(t, admin, "t", p), " ") == to })
		}
		for _, p := range []int32{0, 7, 49} { // also the offsets of the group
			if err := moveAll(t, admin, to, "__consumer_offsets", p)[0]; err != nil {
				t.Errorf("__consumer_offsets-%d to %s: %v", p, to, err)
			}
			eventually(t, "the log has moved", func() bool { return strings.Join(whereIs(t, admin, "__consumer_offsets", p), " ") == to })
		}
	}
	stop()
	n := <-wrote
	for want := n[0] + n[1] + n[2] + n[3] + 12; len(seen) < want; {
		f := group.PollFetches(t.Context())
		f.EachRecord(func(r *kgo.Record) { seen[fmt.Sprint(r.Partition, "/", r.Offset)]++ })
	}
	if err := group.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Error(err)
	}
	for at, times := range seen {
		if times > 1 {
			t.Errorf("the record at %s was read %d times", at, times)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, _ = startHere(t, mem, dirs)
	again, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	ends, err := kadm.NewClient(again).ListEndOffsets(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(4) {
		if end, _ := ends.Lookup("t", p); end.Offset != int64(n[p]+3) {
			t.Errorf("t-%d ends at %d, want %d", p, end.Offset, n[p]+3)
		}
	}
}

// What Kafka answers to a move that is not possible.
func TestMovesThatAreNotPossible(t *testing.T) {
	b, _ := startHere(t, vfs.Memory(), "log.dirs=/one,/two")
	fill(t, b, "t", 1, 1)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, x := range []struct {
		dir, topic string
		partition  int32
		want       error
	}{
		{"/three", "t", 0, kerr.LogDirNotFound},
		{"two", "t", 0, kerr.LogDirNotFound},
		{"/two", "t", 1, kerr.UnknownTopicOrPartition},
		{"/two", "u", 0, kerr.UnknownTopicOrPartition},
		{"/one", "t", 0, nil}, // where it is
	} {
		req := kmsg.NewPtrAlterReplicaLogDirsRequest()
		req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: x.dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: x.topic,
			Partitions: []int32{x.partition}}}}}
		resp, err := req.RequestWith(t.Context(), c.Broker(int(b.components.conf.NodeID)))
		if err != nil {
			t.Fatal(err)
		}
		if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); !errors.Is(err, x.want) {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

// log.dirs grows and shrinks. A directory that has no logs leaves without a trace. One that has
// some is missed until it is back, and its records are neither lost nor made again.
func TestLogDirectoriesComeAndGo(t *testing.T) {
	mem := vfs.Memory()
	b, _ := startHere(t, mem, "log.dirs=/one")
	fill(t, b, "t", 4, 3)
	restart := func(dirs string) func(string) (int, map[string]any) {
		t.Helper()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		var ask func(string) (int, map[string]any)
		b, ask = startHere(t, mem, "log.dirs="+dirs)
		return ask
	}
	moves := func(args ...string) string {
		t.Helper()
		out, err := runCtl(t, b, append([]string{"broker", "move-logs", fmt.Sprint(b.components.conf.NodeID)}, args...)...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	ends := func() (sum int64, offline int) {
		t.Helper()
		c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all, _ := kadm.NewClient(c).ListEndOffsets(t.Context(), "t")
		for p := range int32(4) {
			if end, ok := all.Lookup("t", p); ok && end.Err == nil {
				sum += end.Offset
			} else {
				offline++
			}
		}
		return sum, offline
	}
	restart("/one,/two")
	if out := moves(); !strings.Contains(out, "moved from /one to /two") {
		t.Errorf("nothing was spread over the new directory:\n%s", out)
	}
	ask := restart("/one")
	if sum, offline := ends(); sum+int64(3*offline) != 12 || offline == 0 {
		t.Errorf("without /two: %d records, %d partitions offline", sum, offline)
	}
	if text := found(t, ask); !strings.Contains(text, "put the directory back") {
		t.Errorf("without /two:\n%s", text)
	}
	restart("/one,/two")
	if sum, offline := ends(); sum != 12 || offline != 0 {
		t.Errorf("with /two: %d records, %d partitions offline", sum, offline)
	}
	if out := moves("/two", "--dry-run"); !strings.Contains(out, "would move from /two to /one") {
		t.Error(out)
	}
	if out := moves("/two"); !strings.Contains(out, "/two") || !strings.Contains(out, "it may be removed from log.dirs") {
		t.Error(out)
	}
	ask = restart("/one")
	if sum, offline := ends(); sum != 12 || offline != 0 {
		t.Errorf("after /two was emptied: %d records, %d partitions offline", sum, offline)
	}
	if text := found(t, ask); strings.Contains(text, "two") || strings.Contains(text, "log_dir") {
		t.Errorf("after /two was emptied:\n%s", text)
	}
}

// runCtl runs chronikctl against a broker, and returns what it prints.
func runCtl(t *testing.T, b *Broker, args ...string) (string, error) {
	t.Helper()
	var stdout, stderr strings.Builder
	code := ctl.Main(t.Context(), append(args, "--brokers", b.Addrs()[0]), "test", ctl.Streams{Out: &stdout, Err: &stderr})
	if code != ctlapp.ExitOK {
		return stdout.String(), errors.New(stderr.String())
	}
	return stdout.String() + stderr.String(), nil
}

// A move that stands still is a finding, and is in the metrics and the description of the
// directory. It continues when the cause is gone, or is canceled; the partition is used meanwhile.
func TestAMoveThatStandsStillIsReported(t *testing.T) {
	errs := errfs.New(vfs.Memory())
	b, ask := startHere(t, errs, "log.dirs=/one,/two")
	fill(t, b, "t", 2, 50)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	admin, id := kadm.NewClient(c), fmt.Sprint(b.components.conf.NodeID)
	for _, cancels := range []bool{true, false} {
		from := whereIs(t, admin, "t", 0)[0]
		to := map[string]string{"/one": "/two", "/two": "/one"}[from]
		errs.Add(errfs.Rule{Ops: errfs.Write, Path: to + "/*-future/*.log", Err: syscall.EIO})
		if err := moveAll(t, admin, to, "t", 0)[0]; err != nil {
			t.Fatal(err)
		}
		eventually(t, "the move is reported", func() bool {
			return strings.Contains(found(t, ask), "warn log_dir moves to "+to+": 1 log cannot be moved there (t-0)")
		})
		_, v := ask("/v1/dirs")
		for _, d := range v["dirs"].([]any) {
			d := d.(map[string]any)
			if list, _ := d["arriving"].([]any); (len(list) == 1) != (d["path"] == to) {
				t.Errorf("%v: %v", d["path"], list)
			}
		}
		scrape, err := prometheusText(b)
		if line := fmt.Sprintf("chronik_log_dir_arriving_bytes{dir=%q} 0\n", to); err != nil || strings.Contains(scrape, line) {
			t.Errorf("%v: %s", err, line)
		}
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Error(err)
		}
		want := to
		if cancels {
			want = from
			if out, err := runCtl(t, b, "broker", "move-logs", id, "--cancel"); err != nil || !strings.Contains(out, "stays in "+from) {
				t.Errorf("%s: %v", out, err)
			}
		}
		errs.Clear()
		eventually(t, "the log is where it belongs", func() bool { return strings.Join(whereIs(t, admin, "t", 0), " ") == want })
		if text := found(t, ask); strings.Contains(text, "moves to") {
			t.Error(text)
		}
	}
}

// While a log has left one directory and cannot come to the other one, its partition is offline,
// and is found. Afterwards, it is in every list once.
func TestALogBetweenDirectoriesIsFound(t *testing.T) {
	for _, rule := range []errfs.Rule{{Ops: errfs.Stat, Path: "/t-0"}, {Ops: errfs.Write, Path: "/checkpoint/*"}} {
		errs := errfs.New(vfs.Memory())
		b, ask := startHere(t, errs, "chronik.disk.min.free.bytes=0", "log.dirs=/one,/two")
		fill(t, b, "t", 1, 3)
		c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.TransactionalID("x"), kgo.TransactionTimeout(10*time.Minute))
		must.OK(t, err)
		t.Cleanup(c.Close)
		must.OK(t, c.BeginTransaction())
		must.OK(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("x")}).FirstErr())
		admin := kadm.NewClient(c)
		to := map[string]string{"/one": "/two", "/two": "/one"}[whereIs(t, admin, "t", 0)[0]]
		rule.Path, rule.Err = to+rule.Path, syscall.EIO
		errs.Add(rule)
		if failed := moveAll(t, admin, to, "t", 0); len(failed) > 0 && failed[0] != nil {
			t.Fatal(failed)
		}
		eventually(t, "it is found", func() bool {
			return strings.Contains(found(t, ask), "bad partition partition t-0: it can be neither written nor read: ")
		})
		errs.Clear()
		eventually(t, "the log has moved", func() bool { return strings.Join(whereIs(t, admin, "t", 0), " ") == to })
		eventually(t, "nothing is found", func() bool { return found(t, ask) == "" })
		held := 0
		for _, p := range b.components.replicas.Unstable() {
			if p.Log().Topic() == "t" {
				held++
			}
		}
		if text := body(t, b, "/metrics"); held != 1 || !strings.Contains(text, "\nchronik_txn_open{") {
			t.Errorf("%d partitions t-0 have an open transaction; the metrics begin with %.300s", held, text)
		}
	}
}
