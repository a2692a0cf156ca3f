package system

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

// A restore copies old records within the store: the new cluster's disk has a part of them, its
// consumers of committed records get what those of the original got, and the original may delete
// its topic.
func TestOldRecordsAreRestoredWithinTheStore(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	store := t.TempDir()
	settings := tiered(store)
	c := newNodes(t, 1)
	c.expected = []string{`"logger":"health"`}
	c.set = settings
	c.launch(0)
	c.await(0)
	c.does(tieredTopic, "t created")
	want := sendTransactions(t, c, "t")
	c.onlyStored("t")
	values := func(addr string) []string { return valuesOf(t, addr, "t") }
	if got := values(c.seeds[0]); !slices.Equal(got, want) {
		t.Fatalf("%d records are read, %d were committed", len(got), len(want))
	}
	c.does("snapshot create", "uploaded")

	dir := t.TempDir()
	var args []string
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	p, err := launch(dir, nil, append([]string{"restore", "file://" + store, "--data-dir", "d"}, args...)...)
	must.OK(t, err)
	if err := <-p.done; err != nil {
		t.Fatalf("restore: %v\n%s", err, p.logged())
	}
	local := int64(0)
	must.OK(t, filepath.Walk(filepath.Join(dir, "d", "logs", "t-0"), func(_ string, in os.FileInfo, err error) error {
		if err == nil && strings.HasSuffix(in.Name(), ".log") {
			local += in.Size()
		}
		return err
	}))
	if local == 0 || local > 3<<20 {
		t.Errorf("the disk of the restored broker has %d bytes of records", local)
	}
	_, text := c.ctl(t.Context(), "snapshot list -o json")
	var all view.SnapshotList
	must.OK(t, json.Unmarshal([]byte(text), &all))
	c.does(fmt.Sprintf("snapshot delete %d", all.Snapshots[0].Number), "deleted")
	c.does("topic delete t", "t deleted")
	c.end(syscall.SIGTERM, 0)
	c.launch(0) // a collection deletes the original's objects
	c.await(0)
	c.eventually("the original's objects are deleted", func(context.Context) string {
		clusters, _ := filepath.Glob(filepath.Join(store, "*", "log", "*", "0"))
		left := 0
		for _, dir := range clusters {
			if files, _ := os.ReadDir(dir); len(files) > 0 {
				left++
			}
		}
		if left != 1 {
			return fmt.Sprintf("%d clusters have objects", left)
		}
		return ""
	})
	p, err = start(dir, nil, append([]string{"--data-dir", "d", "--listen", "127.0.0.1:0", "--admin-listen", "off"}, args...)...)
	must.OK(t, err)
	defer func() { must.OK(t, p.end(syscall.SIGTERM)) }()
	if got := values(p.Addr); !slices.Equal(got, want) {
		t.Errorf("%d records are read from the restored broker, %d were committed", len(got), len(want))
	}
}

// onlyStored waits until only the store has the full segments of what sendTransactions has sent to
// a topic: 52 transactions of 60.
func (c *nodes) onlyStored(topic string) {
	c.t.Helper()
	cl, err := c.client()
	must.OK(c.t, err)
	defer cl.Close()
	c.eventually("old records are in the store only", func(ctx context.Context) string {
		list, err := kadm.NewClient(cl).ListOffsetsAfterMilli(ctx, -4, topic)
		if o, ok := list.Lookup(topic, 0); err != nil || !ok || o.Err != nil || o.Offset < 300 {
			return fmt.Sprintf("%+v, %v", o, err)
		}
		return ""
	})
}

// valuesOf returns the values of the committed records of a topic.
func valuesOf(t *testing.T, addr, topic string) (list []string) {
	t.Helper()
	for _, r := range committed(t, addr, topic) {
		list = append(list, string(r.Value))
	}
	return list
}

// sendTransactions produces 60 transactions of five records of 20 kB each to a topic, aborts every
// third, and returns the values of those committed.
func sendTransactions(t *testing.T, c *nodes, topic string) (want []string) {
	sender, err := c.client(kgo.TransactionalID("tx"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	must.OK(t, err)
	defer sender.Close()
	value := strings.Repeat("x", 20_000)
	for i := range 60 {
		must.OK(t, sender.BeginTransaction())
		var sent []string
		for k := range 5 {
			text := fmt.Sprintf("%d %d %s", i, k, value)
			must.OK(t, sender.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(text)}).FirstErr())
			sent = append(sent, text)
		}
		end := kgo.TryAbort
		if i%3 > 0 {
			want, end = append(want, sent...), kgo.TryCommit
		}
		must.OK(t, sender.EndTransaction(t.Context(), end))
	}
	return want
}
