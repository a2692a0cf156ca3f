package system

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

// kept is where a data directory of each format is kept: N.tar.gz, with the versions of the formats
// in N.txt.
const kept = "testdata/formats"

// A directory of each format that a broker has written is kept, and this broker starts with it: all
// records, groups, transactions and settings are there. The newest one has the formats of this
// version.
func TestDirectoriesOfEachFormat(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	dirs, err := filepath.Glob(filepath.Join(kept, "*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(dirs, func(a, b string) int { return numberOf(t, a) - numberOf(t, b) })
	newest := ""
	if len(dirs) > 0 {
		text, err := os.ReadFile(strings.TrimSuffix(dirs[len(dirs)-1], ".tar.gz") + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		newest = string(text)
	}
	if now := formatVersions(t); now != newest {
		if !golden.Update() {
			t.Fatalf("no directory has the formats of this version:\n%s\nkeep one: go test ./internal/testing/system -run DirectoriesOfEachFormat -update; "+
				"until a release, remove those that this version cannot read, and say so in CHANGELOG.md", now)
		}
		name := filepath.Join(kept, fmt.Sprint(len(dirs)+1))
		keepDirectory(t, name+".tar.gz")
		if err := os.WriteFile(name+".txt", []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, name+".tar.gz")
	}
	for _, d := range dirs {
		t.Run(filepath.Base(d), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, d, dir)
			b := startKept(t, dir)
			b.check(t)
			b.end(t, syscall.SIGTERM)
			b = startKept(t, dir) // what this version has written
			b.check(t)
			b.end(t, syscall.SIGTERM)
		})
	}
}

func numberOf(t *testing.T, name string) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(filepath.Base(name), "%d.tar.gz", &n); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// formatVersions returns the versions of the formats on the disk, as docs/formats.md names them.
func formatVersions(t *testing.T) string {
	t.Helper()
	root := "../../.."
	page, err := os.ReadFile(filepath.Join(root, "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## On the disk\n")
	table, _, _ = strings.Cut(table, "\n## Between processes\n")
	constant := regexp.MustCompile("`([A-Za-z]+)` in (?:`([^`]+\\.go)`|that file)")
	var out strings.Builder
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			continue
		}
		m := constant.FindStringSubmatch(cells[3])
		if m == nil {
			continue
		}
		file := m[2]
		if file == "" {
			file = regexp.MustCompile("`(internal/[^`]+\\.go)`").FindStringSubmatch(cells[2])[1]
		}
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		declared := regexp.MustCompile(`(?mi)^\s*(?:const |var )?(?:\w+, )?` + m[1] + ` *= .*?(\d+)\D*$`).FindSubmatch(source)
		if declared == nil {
			t.Fatalf("%s declares no version %s", file, m[1])
		}
		fmt.Fprintf(&out, "%s: %s\n", strings.TrimSpace(cells[1]), declared[1])
	}
	return out.String()
}

// keptBroker is a broker of such a directory, and a client of it.
type keptBroker struct {
	process *process
	client  *kgo.Client
	admin   *kadm.Client
	addr    string
}

func startKept(t *testing.T, dir string) *keptBroker {
	t.Helper()
	addr, err := ports.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	b := &keptBroker{addr: addr}
	b.process, err = start(dir, nil, "--data-dir", "d", "--listen", addr, "--admin-listen", "off",
		"--set", "offsets.topic.num.partitions=2", "--set", "transaction.state.log.num.partitions=2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.process.end(syscall.SIGKILL) })
	if b.client, err = kgo.NewClient(outlives(addr)...); err != nil {
		t.Fatal(err)
	}
	b.admin = kadm.NewClient(b.client)
	return b
}

func (b *keptBroker) end(t *testing.T, sig syscall.Signal) {
	t.Helper()
	b.client.Close()
	if err := b.process.end(sig); err != nil && sig == syscall.SIGTERM {
		t.Fatalf("it ended with %v:\n%s", err, b.process.logged())
	}
}

// codecs are the compressions of the records that a directory has.
func codecs() map[string]kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
}

const (
	keptRecords = 20 // of each codec
	keptOffset  = 7  // that the group has committed
)

// keepDirectory writes an archive of the directory of a broker that was stopped once, and then
// killed with a transaction open.
func keepDirectory(t *testing.T, name string) {
	t.Helper()
	dir := t.TempDir()
	b := startKept(t, dir)
	ctx := t.Context()
	one, compact := int32(1), "compact"
	for _, topic := range []string{"records", "paid"} {
		succeeds(t)(b.admin.CreateTopic(ctx, one, 1, nil, topic))
	}
	succeeds(t)(b.admin.CreateTopic(ctx, one, 1, map[string]*string{"cleanup.policy": &compact}, "table"))
	for codec, c := range codecs() {
		b.write(t, "records", codec, kgo.ProducerBatchCompression(c))
	}
	b.write(t, "table", "key")
	b.transact(t, "paid", "committed", kgo.TryCommit)
	b.transact(t, "paid", "aborted", kgo.TryAbort)
	b.end(t, syscall.SIGTERM)

	b = startKept(t, dir)
	b.write(t, "records", "later")
	var offsets kadm.Offsets
	offsets.AddOffset("records", 0, keptOffset, -1)
	if err := b.admin.CommitAllOffsets(ctx, "group", offsets); err != nil {
		t.Fatal(err)
	}
	retention := "123456789"
	succeeds(t)(b.admin.AlterTopicConfigs(ctx,
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}, "records"))
	succeeds(t)(b.admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{
		User: "alice", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "secret",
	}}))
	b.transact(t, "paid", "open", kgo.TryCommit) // its client leaves it open
	b.end(t, syscall.SIGKILL)
	pack(t, dir, name)
}

// succeeds returns a function that fails the test for an error.
func succeeds(t *testing.T) func(answer any, err error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// write writes records KIND-N with the keys N to a topic.
func (b *keptBroker) write(t *testing.T, topic, kind string, opts ...kgo.Opt) {
	t.Helper()
	cl, err := kgo.NewClient(outlives(b.addr, append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), keptRecordsOf(topic, kind)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func keptRecordsOf(topic, kind string) (all []*kgo.Record) {
	for i := range keptRecords {
		all = append(all, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, "%s-%d", kind, i),
			Headers: []kgo.RecordHeader{{Key: "kind", Value: []byte(kind)}}})
	}
	return all
}

// transact writes records in a transaction of the id KIND, and ends it unless it is "open".
func (b *keptBroker) transact(t *testing.T, topic, kind string, end kgo.TransactionEndTry) {
	t.Helper()
	cl, err := txnClient(b.addr, kgo.TransactionalID(kind), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	err = cl.BeginTransaction()
	if err == nil {
		err = cl.ProduceSync(t.Context(), keptRecordsOf(topic, kind)...).FirstErr()
	}
	if err == nil && kind != "open" {
		err = cl.EndTransaction(t.Context(), end)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// check reads everything back. The open transaction is aborted by the next producer of its id.
func (b *keptBroker) check(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	want := []string{}
	for codec := range codecs() {
		want = append(want, codec)
	}
	b.has(t, "records", append(want, "later")...)
	b.has(t, "table", "key")
	cl, err := txnClient(b.addr, kgo.TransactionalID("open"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, _, err := cl.ProducerID(ctx); err != nil {
		t.Errorf("the transactional id cannot be taken over: %v", err)
	}
	b.has(t, "paid", "committed")
	offsets := committedBy(t, b.admin, "group")
	if at, _ := offsets.Lookup("records", 0); at.At != keptOffset {
		t.Errorf("the group has the offset %d, not %d", at.At, keptOffset)
	}
	configs, err := b.admin.DescribeTopicConfigs(ctx, "records")
	if err != nil || len(configs) != 1 {
		t.Fatal(configs, err)
	}
	if i := slices.IndexFunc(configs[0].Configs, func(c kadm.Config) bool { return c.Key == "retention.ms" }); i < 0 ||
		configs[0].Configs[i].MaybeValue() != "123456789" {
		t.Errorf("configs of the topic: %+v", configs[0].Configs)
	}
	if users, err := b.admin.DescribeUserSCRAMs(ctx, "alice"); err != nil || len(users["alice"].CredInfos) != 1 {
		t.Errorf("users: %+v %v", users, err)
	}
}

// has compares the committed records of a topic with those of the kinds.
func (b *keptBroker) has(t *testing.T, topic string, kinds ...string) {
	t.Helper()
	cl, err := kgo.NewClient(outlives(b.addr, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var want, got []string
	for _, kind := range kinds {
		for i := range keptRecords {
			want = append(want, fmt.Sprintf("%d %s-%d", i, kind, i))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for len(got) < len(want) && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got = append(got, fmt.Sprintf("%s %s", r.Key, r.Value)) })
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("%s has %d records, not %d: %.300q", topic, len(got), len(want), got)
	}
}

// pack writes the files below a directory to an archive.
func pack(t *testing.T, dir, name string) {
	t.Helper()
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(zip)
	err = errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), zip.Close())
	if err == nil {
		err = os.WriteFile(name, out.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// unpack writes the files of an archive below a directory.
func unpack(t *testing.T, name, dir string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !fs.ValidPath(strings.TrimSuffix(h.Name, "/")) {
			t.Fatalf("%s: %q: %v", name, h.Name, err)
		}
		path := filepath.Join(dir, h.Name)
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o700)
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
