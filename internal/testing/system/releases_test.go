package system

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/durability"
)

// releases is where the directories of three brokers of each release are kept for ever:
// VERSION.tar.zst, with what clients see of them in VERSION.txt.
const releases = "testdata/releases"

// keeps names the release whose directories TestKeepARelease writes; see `make keep-release`.
const keeps = "CHRONIK_KEEP_RELEASE"

// What every release has kept is there: a cluster of this version starts on the directories of
// three brokers, one of them killed, and clients see what they saw. After a stop, it starts again
// on what this version has written.
func TestDirectoriesOfEachRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	archives, err := filepath.Glob(filepath.Join(releases, "*.tar.zst"))
	must.OK(t, err)
	changes, err := os.ReadFile("../../../CHANGELOG.md")
	must.OK(t, err)
	for _, m := range regexp.MustCompile(`(?m)^## (\d\S*) (\(unreleased\))?`).FindAllStringSubmatch(string(changes), -1) {
		if name := filepath.Join(releases, m[1]+".tar.zst"); m[2] == "" && !slices.Contains(archives, name) {
			t.Errorf("the release %s has no %s: run `make keep-release VERSION=%[1]s` at its tag", m[1], name)
		}
	}
	if len(archives) == 0 {
		t.Fatalf("nothing is kept in %s", releases)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.zst"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(strings.TrimSuffix(archive, ".tar.zst") + ".txt")
			must.OK(t, err)
			root := t.TempDir()
			unpackSparse(t, archive, root)
			c := keptNodes(t, root, 3)
			for _, when := range []string{"its directories", "what this version has made of them"} {
				c.launch(0, 1, 2)
				c.await(0, 1, 2)
				c.eventually("with "+when, func(context.Context) string { // high watermarks need all brokers
					return differ(c.facts(), string(want))
				})
				c.end(syscall.SIGTERM, 0, 1, 2)
			}
			c.restores(filepath.Join(root, "store"))
		})
	}
}

// differ returns the lines that only one of two texts has, empty if there are none.
func differ(got, want string) string {
	var only []string
	for line := range strings.Lines(got) {
		if !strings.Contains(want, line) {
			only = append(only, "+ "+line)
		}
	}
	for line := range strings.Lines(want) {
		if !strings.Contains(got, line) {
			only = append(only, "- "+line)
		}
	}
	return strings.Join(only, "")
}

// TestKeepARelease writes the archive of a release. It overwrites none: what a release has written
// is a fact.
func TestKeepARelease(t *testing.T) {
	version := os.Getenv(keeps)
	if version == "" {
		t.Skip("`make keep-release VERSION=…` runs it")
	}
	archive := filepath.Join(releases, version+".tar.zst")
	if _, err := os.Stat(archive); err == nil {
		t.Fatalf("%s is there: a release is kept once; remove it if it was not published", archive)
	}
	root := t.TempDir()
	c := keptNodes(t, root, 4)
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	c.furnish()
	c.unregister()
	c.end(syscall.SIGTERM, 0, 1, 2)
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	c.addLater()
	seen := c.facts()
	c.end(syscall.SIGKILL, 2)
	_, err := c.admin(0).DeleteTopics(t.Context(), "doomed") // broker 3 still has its log
	must.OK(t, err)
	c.eventually("all kinds of keys", func(context.Context) string {
		is := keptMetadata(t, c.dirs)
		return strings.Join(slices.DeleteFunc(kindsOfKeys(), func(kind string) bool { return slices.Contains(is, kind) }), "; ")
	})
	c.eventually("progress of reading segments", func(context.Context) string {
		if found, err := filepath.Glob(filepath.Join(root, "[12]", "d", "?", "chronik.scrub")); len(found) == 0 {
			return fmt.Sprint("no file, ", err)
		}
		return ""
	})
	c.end(syscall.SIGTERM, 0, 1)
	packTree(t, root, archive)
	seen = regexp.MustCompile(`(?m)^.*\bdoomed\b.*\n`).ReplaceAllString(seen, "")
	must.OK(t, os.WriteFile(strings.TrimSuffix(archive, ".tar.zst")+".txt", []byte(seen), 0o600))
}

// keptNodes prepares three brokers, and perhaps others that are no voters, with directories and an
// object store below root. Nothing that they keep may expire, however old it is.
func keptNodes(t *testing.T, root string, n int) *nodes {
	c := newNodes(t, n)
	c.voters, c.expected = 3, append(slices.Clone(othersEnd), `"logger":"health"`)
	store := filepath.Join(root, "store")
	must.OK(t, os.MkdirAll(store, 0o700))
	for i := range c.dirs {
		c.dirs[i] = filepath.Join(root, fmt.Sprint(i+1))
		must.OK(t, os.MkdirAll(c.dirs[i], 0o700))
	}
	own := t.TempDir()
	secret, users := filepath.Join(own, "secret"), filepath.Join(own, "users")
	must.OK(t, os.WriteFile(users, []byte("first:SCRAM-SHA-512:secret\n"), 0o600))
	must.OK(t, os.WriteFile(secret, []byte("what the brokers of a kept release share"), 0o600))
	c.set = []string{"log.dirs=d/a,d/b", "offsets.topic.num.partitions=2", "transaction.state.log.num.partitions=2",
		"share.coordinator.state.topic.num.partitions=2", "archive.url=file://" + store,
		"snapshot.interval.ms=0", "chronik.log.scrub.interval.ms=1000", "remote.log.manager.task.interval.ms=50",
		"log.retention.check.interval.ms=50",
		"log.retention.ms=-1", "offsets.retention.minutes=2147483647", "transactional.id.expiration.ms=2147483647",
		"producer.id.expiration.ms=2147483647", "group.initial.rebalance.delay.ms=0", "log.cleaner.enable=false",
		"authorization=acl", "super-users=User:ANONYMOUS", "cluster.secret.file=" + secret, "bootstrap.users=" + users}
	return c
}

// furnish makes what the directories of a release have, except what addLater adds.
func (c *nodes) furnish() {
	t, ctx := c.t, c.t.Context()
	adm := c.admin(0)
	made := succeeds(t)
	text := func(s string) *string { return &s }
	made(adm.CreateTopic(ctx, 3, 3, map[string]*string{"min.insync.replicas": text("2"), "segment.ms": text("1000"),
		"index.interval.bytes": text("0")}, "records"))
	made(adm.CreateTopic(ctx, 1, 2, map[string]*string{"cleanup.policy": text("compact")}, "table"))
	made(adm.CreateTopic(ctx, 1, 3, nil, "paid"))
	made(adm.CreateTopic(ctx, 1, 1, nil, "gone"))
	made(adm.CreateTopic(ctx, 1, 3, nil, "doomed"))
	made(adm.CreateTopic(ctx, 2, 1, nil, "alone"))
	b := &keptBroker{addr: strings.Join(c.seeds[:c.voters], ","), admin: adm}
	for _, profile := range durability.Builtin() {
		topic := "profile-" + profile.Name
		made(adm.CreateTopic(ctx, 1, 3, map[string]*string{"chronik.durability.profile": text(profile.Name)}, topic))
		b.write(t, topic, topic)
	}
	for _, codec := range slices.Sorted(maps.Keys(codecs())) {
		b.write(t, "records", codec, kgo.ProducerBatchCompression(codecs()[codec]))
	}
	for _, topic := range []string{"table", "table", "gone", "doomed", "alone"} {
		b.write(t, topic, topic)
	}
	b.transact(t, "paid", "committed", kgo.TryCommit)
	b.transact(t, "paid", "aborted", kgo.TryAbort)
	b.transact(t, "paid", "again", kgo.TryCommit)
	made(adm.DeleteTopics(ctx, "gone"))
	offsets := kadm.Offsets{}
	offsets.AddOffset("alone", 0, 5, -1)
	made(adm.DeleteRecords(ctx, offsets))

	made(adm.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{
		{User: "alice", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "secret"},
		{User: "bob", Mechanism: kadm.ScramSha256, Iterations: 8192, Password: "other"}}))
	made(adm.CreateACLs(ctx, kadm.NewACLs().Topics("records").ResourcePatternType(kadm.ACLPatternPrefixed).
		Operations(kadm.OpRead, kadm.OpDescribe).Allow("User:alice").AllowHosts("*")))
	made(adm.CreateACLs(ctx, kadm.NewACLs().Groups("*").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDelete).
		Deny("User:bob").DenyHosts("10.0.0.1")))
	user := "alice"
	made(adm.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{
		{Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}},
			Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1 << 20}}},
		{Entity: kadm.ClientQuotaEntity{{Type: "client-id"}},
			Ops: []kadm.AlterClientQuotaOp{{Key: "consumer_byte_rate", Value: 1 << 30}}}}))
	made(adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.cleaner.threads", Value: text("2")}}))
	for kind, resource := range map[kmsg.ConfigResourceType][2]string{
		kmsg.ConfigResourceTypeGroupConfig:   {"consumer.session.timeout.ms", "50000"},
		kmsg.ConfigResourceTypeClientMetrics: {"interval.ms", "300000"}} {
		c.alterConfig(kind, "kept", resource[0], resource[1])
	}
	c.groups()
	c.shares(b)
	c.tier(b)
	c.move("alone", 1)
}

// alterConfig sets a config of a kind of resource that kadm has no method for.
func (c *nodes) alterConfig(kind kmsg.ConfigResourceType, name, config, value string) {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	x := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	x.Name, x.Value = config, &value
	r.Configs = append(r.Configs, x)
	req.Resources = append(req.Resources, r)
	cl, err := c.client()
	must.OK(c.t, err)
	defer cl.Close()
	resp, err := req.RequestWith(c.t.Context(), cl)
	must.OK(c.t, err)
	if resp.Resources[0].ErrorCode != 0 {
		c.t.Fatalf("%s of %s: %+v", config, name, resp.Resources[0])
	}
}

// groups makes a group of each kind, with offsets.
func (c *nodes) groups() {
	t, ctx := c.t, c.t.Context()
	for name, opts := range map[string][]kgo.Opt{"classic": {kgo.InstanceID("static")}, "consumer": {kgo.ServerSideBalancer()}} {
		cl, err := c.client(append(opts, kgo.ConsumerGroup(name), kgo.ConsumeTopics("records"), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		must.OK(t, err)
		within, cancel := context.WithTimeout(ctx, startTime)
		for n := 0; n < keptRecords && within.Err() == nil; {
			n += cl.PollFetches(within).NumRecords()
		}
		must.OK(t, cl.CommitUncommittedOffsets(within))
		cancel()
		cl.Close()
	}
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = "streams", "member", 60_000
	req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Epoch: 1,
		Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{
			{SubtopologyID: "0", SourceTopics: []string{"records"}}}}
	process := "process"
	req.ProcessID = &process
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	cl, err := c.client(kgo.MaxVersions(nil))
	must.OK(t, err)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	c.eventually("a streams group", func(ctx context.Context) string {
		at := adm.FindGroupCoordinators(ctx, "streams")["streams"]
		resp, err := req.RequestWith(ctx, cl.Broker(int(at.NodeID)))
		if err = errors.Join(at.Err, err); err != nil || resp.ErrorCode != 0 {
			return fmt.Sprintf("%v, %+v", err, resp)
		}
		return ""
	})
	offsets := kadm.Offsets{}
	offsets.AddOffset("table", 0, 3, -1)
	must.OK(t, adm.CommitAllOffsets(ctx, "simple", offsets))
}

// move moves each replica of a partition to the other log directory of its broker.
func (c *nodes) move(topic string, partition int32) {
	t, ctx := c.t, c.t.Context()
	adm := c.admin(0)
	where := func() map[int32]string {
		at := map[int32]string{}
		dirs, err := adm.DescribeAllLogDirs(ctx, kadm.TopicsSet{topic: {partition: {}}})
		must.OK(t, err)
		dirs.Each(func(d kadm.DescribedLogDir) {
			if _, has := d.Topics.Lookup(topic, partition); has {
				at[d.Broker] = d.Dir
			}
		})
		return at
	}
	for broker, dir := range where() {
		to := strings.TrimSuffix(dir, "a") + "b"
		if strings.HasSuffix(dir, "b") {
			to = strings.TrimSuffix(dir, "b") + "a"
		}
		_, err := adm.AlterBrokerReplicaLogDirs(ctx, broker, kadm.AlterReplicaLogDirsReq{to: kadm.TopicsSet{topic: {partition: {}}}})
		must.OK(t, err)
		c.eventually("the move", func(context.Context) string {
			if now := where()[broker]; now != to {
				return fmt.Sprintf("%s-%d of broker %d is in %s, not in %s", topic, partition, broker, now, to)
			}
			return ""
		})
	}
}

// addLater adds, after a restart, what only the journals have when a broker is killed, and a
// transaction that stays open.
func (c *nodes) addLater() {
	b := &keptBroker{addr: strings.Join(c.seeds, ","), admin: c.admin(0)}
	b.write(c.t, "records", "later")
	b.write(c.t, "table", "newest")
	b.transact(c.t, "paid", "open", kgo.TryCommit)
}

// facts returns what clients see of the cluster, a line for each fact. What depends on the time is
// left out: states of groups, the open transaction.
func (c *nodes) facts() string {
	t := c.t
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for topic, partitions := range map[string]int{"records": 3, "alone": 2, "table": 1, "paid": 1, "old": 1, "jobs": 1} {
		c.sees(0, []int{0, 1, 2}, topic, partitions)
	}
	adm := c.admin(0)
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	meta, err := adm.Metadata(ctx)
	must.OK(t, err)
	say("cluster %s, brokers %v", meta.Cluster, meta.Brokers.NodeIDs())
	var names []string
	for _, topic := range meta.Topics.Sorted() {
		say("topic %s: id %v, internal %t", topic.Topic, topic.ID, topic.IsInternal)
		for _, p := range topic.Partitions.Sorted() {
			say("partition %s-%d: replicas %v", p.Topic, p.Partition, slices.Sorted(slices.Values(p.Replicas)))
		}
		if !topic.IsInternal {
			names = append(names, topic.Topic)
		}
	}
	configs, err := adm.DescribeTopicConfigs(ctx, names...)
	must.OK(t, err)
	for _, topic := range configs {
		for _, x := range topic.Configs {
			if x.Source == kmsg.ConfigSourceDynamicTopicConfig {
				say("config of topic %s: %s=%s", topic.Name, x.Key, x.MaybeValue())
			}
		}
	}
	for _, name := range []string{"kept", "share"} {
		lines = append(lines, c.configs(ctx, kmsg.ConfigResourceTypeGroupConfig, name)...)
	}
	lines = append(lines, c.configs(ctx, kmsg.ConfigResourceTypeBroker, "")...)
	lines = append(lines, c.configs(ctx, kmsg.ConfigResourceTypeClientMetrics, "kept")...)
	starts := listed(t, func(ctx context.Context) (kadm.ListedOffsets, error) { return adm.ListStartOffsets(ctx, names...) })
	starts.Each(func(o kadm.ListedOffset) { say("start of %s-%d: %d", o.Topic, o.Partition, o.Offset) })
	for _, topic := range names {
		lines = append(lines, c.recordsOf(ctx, topic)...)
	}
	lines = append(lines, c.groupFacts(ctx, adm)...)
	lines = append(lines, c.securityFacts(ctx, adm)...)
	lines = append(lines, c.storeFacts(ctx, adm)...)
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	must.OK(t, err)
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			say("log %s-%d of broker %d: in %s", p.Topic, p.Partition, p.Broker, filepath.Base(p.Dir))
		})
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// configs returns the configs of a resource that the metadata have.
func (c *nodes) configs(ctx context.Context, kind kmsg.ConfigResourceType, name string) (lines []string) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	req.Resources = append(req.Resources, r)
	cl, err := c.client()
	must.OK(c.t, err)
	defer cl.Close()
	resp, err := req.RequestWith(ctx, cl)
	must.OK(c.t, err)
	for _, x := range resp.Resources[0].Configs {
		if x.Source != kmsg.ConfigSourceDefaultConfig && x.Source != kmsg.ConfigSourceStaticBrokerConfig && x.Value != nil {
			lines = append(lines, fmt.Sprintf("config of %v %q: %s=%s", kind, name, x.Name, *x.Value))
		}
	}
	return lines
}

// recordsOf returns a line for each partition, with the committed records.
func (c *nodes) recordsOf(ctx context.Context, topic string) (lines []string) {
	t := c.t
	cl, err := c.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	must.OK(t, err)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ends := listed(t, func(ctx context.Context) (kadm.ListedOffsets, error) { return adm.ListCommittedOffsets(ctx, topic) })
	starts := listed(t, func(ctx context.Context) (kadm.ListedOffsets, error) { return adm.ListStartOffsets(ctx, topic) })
	left := map[int32]int64{} // the last stable offsets that were not reached
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := starts.Lookup(topic, o.Partition); s.Offset < o.Offset {
			left[o.Partition] = o.Offset
		}
	})
	type sum struct {
		n    int
		hash uint64
	}
	sums := map[int32]sum{}
	for len(left) > 0 {
		f := cl.PollFetches(ctx)
		if err := errors.Join(f.Err(), ctx.Err()); err != nil {
			t.Fatalf("%s: %v left: %v", topic, left, err)
		}
		f.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() {
				return
			}
			h := fnv.New64a()
			fmt.Fprintf(h, "%d %d %s %s %v %d", sums[r.Partition].hash, r.Offset, r.Key, r.Value, r.Headers, r.Timestamp.UnixMilli())
			sums[r.Partition] = sum{sums[r.Partition].n + 1, h.Sum64()}
		})
	}
	for p, s := range sums {
		lines = append(lines, fmt.Sprintf("records of %s-%d: %d, hash %016x", topic, p, s.n, s.hash))
	}
	return lines
}

func (c *nodes) groupFacts(ctx context.Context, adm *kadm.Client) (lines []string) {
	for _, kind := range []string{"classic", "consumer", "share", "streams"} {
		of, err := adm.ListGroupsByType(ctx, []string{kind})
		must.OK(c.t, err)
		lines = append(lines, fmt.Sprintf("groups of the type %s: %q", kind, of.Groups()))
	}
	groups, err := adm.ListGroups(ctx)
	must.OK(c.t, err)
	for _, g := range groups.Sorted() {
		lines = append(lines, fmt.Sprintf("group %s: protocol %q", g.Group, g.ProtocolType))
		if g.ProtocolType == "share" { // storeFacts has what it has finished
			continue
		}
		offsets := committedBy(c.t, adm, g.Group)
		offsets.Each(func(o kadm.OffsetResponse) {
			lines = append(lines, fmt.Sprintf("offset of %s in %s-%d: %d, metadata %q", g.Group, o.Topic, o.Partition, o.At, o.Metadata))
		})
	}
	ids, err := adm.ListTransactions(ctx, nil, nil)
	must.OK(c.t, err)
	for _, id := range ids.Sorted() {
		lines = append(lines, fmt.Sprintf("transactional id %s: producer %d", id.TxnID, id.ProducerID))
	}
	return lines
}

func (c *nodes) securityFacts(ctx context.Context, adm *kadm.Client) (lines []string) {
	users, err := adm.DescribeUserSCRAMs(ctx)
	must.OK(c.t, err)
	for _, u := range users.Sorted() {
		lines = append(lines, fmt.Sprintf("user %s: %v", u.User, u.CredInfos))
	}
	rules, err := adm.DescribeACLs(ctx, kadm.NewACLs().AnyResource().ResourcePatternType(kadm.ACLPatternAny).Operations().
		Allow().AllowHosts().Deny().DenyHosts())
	must.OK(c.t, err)
	for _, r := range rules {
		for _, x := range r.Described {
			lines = append(lines, fmt.Sprintf("rule: %+v", x))
		}
	}
	quotas, err := adm.DescribeClientQuotas(ctx, false, nil)
	must.OK(c.t, err)
	for _, q := range quotas {
		lines = append(lines, fmt.Sprintf("quota of %v: %v", q.Entity, q.Values))
	}
	cl, err := c.client()
	must.OK(c.t, err)
	defer cl.Close()
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, cl)
	must.OK(c.t, err)
	for _, f := range versions.FinalizedFeatures {
		if f.Name == "transaction.version" || f.Name == "share.version" { // the others follow from the program
			lines = append(lines, fmt.Sprintf("feature %s: %d", f.Name, f.MaxVersionLevel))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines) // a rule matches several filters
}

// packTree writes an archive of the files below a directory.
func packTree(t *testing.T, root, name string) {
	t.Helper()
	var out bytes.Buffer
	zip, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	must.OK(t, err)
	w := tar.NewWriter(zip)
	must.OK(t, fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		if err = w.WriteHeader(&tar.Header{Name: path, Mode: 0o600, Size: int64(len(text)), ModTime: time.Unix(0, 0)}); err == nil {
			_, err = w.Write(text)
		}
		return err
	}))
	must.OK(t, errors.Join(w.Close(), zip.Close()))
	const most = 300 << 10
	if out.Len() > most {
		t.Fatalf("the archive has %d bytes, more than %d", out.Len(), most)
	}
	must.OK(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.OK(t, os.WriteFile(name, out.Bytes(), 0o600))
}

// unpackSparse writes the files of an archive below a directory, without the blocks that are zero:
// a journal's files are much larger than what they hold.
func unpackSparse(t *testing.T, name, dir string) {
	t.Helper()
	file, err := os.Open(name)
	must.OK(t, err)
	defer file.Close()
	zip, err := zstd.NewReader(file)
	must.OK(t, err)
	defer zip.Close()
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatalf("%s: %q: %v", name, h.Name, err)
		}
		path := filepath.Join(dir, h.Name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
		must.OK(t, err)
		const block = 4096
		for at, buf := int64(0), make([]byte, block); at < h.Size; at += block {
			n, err := io.ReadFull(r, buf[:min(block, h.Size-at)])
			must.OK(t, err)
			if len(bytes.Trim(buf[:n], "\x00")) > 0 {
				_, err = out.WriteAt(buf[:n], at)
				must.OK(t, err)
			}
		}
		must.OK(t, errors.Join(out.Truncate(h.Size), out.Close()))
	}
}
