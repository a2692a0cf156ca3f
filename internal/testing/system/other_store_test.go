package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// The file system of the object store is not mounted for a while. What may have been put below it
// does not count, and local disks keep what the store does not have.
func TestAStoreThatIsNotMounted(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	must.OK(t, os.Mkdir(store, 0o700))
	c := newNodes(t, 1)
	c.expected = []string{`"logger":"health"`, `records are not copied to the object store`}
	c.set = tiered(store)
	c.launch(0)
	c.await(0)
	c.does(tieredTopic, "t created")
	want := sendTransactions(t, c, "t")
	c.onlyStored("t")

	must.OK(t, os.Rename(store, store+".mounted"))
	must.OK(t, os.Mkdir(store, 0o700))
	want = append(want, sendTransactions(t, c, "t")...)
	c.refusesStore(0)
	must.OK(t, os.RemoveAll(store))
	must.OK(t, os.Rename(store+".mounted", store))
	copied := len(objectsIn(t, store))
	c.eventually("the copies continue", func(context.Context) string {
		if n := len(objectsIn(t, store)); n == copied {
			return fmt.Sprintf("the store has %d objects", n)
		}
		return ""
	})
	c.onlyStored("t")
	if got := valuesOf(t, c.seeds[0], "t"); len(got) != len(want) {
		t.Errorf("%d records are read, %d were committed", len(got), len(want))
	}
}

// The directories of three brokers are not the same one. Only one of them becomes the store, and
// what the leaders of the others have stays on their disks.
func TestBrokersWithoutASharedStore(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	c := newNodes(t, 3)
	c.expected = append([]string{`records are not copied to the object store`}, othersEnd...)
	var stores []string
	c.own = map[int][]string{}
	for i := range 3 {
		stores = append(stores, t.TempDir())
		c.own[i] = tiered(stores[i])
	}
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	c.does(strings.Replace(tieredTopic, "--partitions 1", "--partitions 6 --replication-factor 3", 1), "t created")
	cl, err := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	must.OK(t, err)
	defer cl.Close()
	value := []byte(strings.Repeat("x", 100_000))
	var all []*kgo.Record
	for i := range 180 { // three segments of each partition
		all = append(all, &kgo.Record{Topic: "t", Partition: int32(i % 6), Value: value})
	}
	must.OK(t, cl.ProduceSync(t.Context(), all...).FirstErr())
	c.eventually("one broker copies, and two refuse their stores", func(context.Context) string {
		copies, refusals := 0, 0
		for i := range 3 {
			if len(objectsIn(t, stores[i])) > 0 {
				copies++
			}
			if strings.Contains(c.run[i].logged(), notTheStore) {
				refusals++
			}
		}
		if copies != 1 || refusals != 2 {
			return fmt.Sprintf("%d brokers copy, %d refuse", copies, refusals)
		}
		return ""
	})
	if got := len(committed(t, c.seeds[0], "t")); got != len(all) {
		t.Errorf("%d records are read, %d were written", got, len(all))
	}
}

const (
	tieredTopic = "topic create t --partitions 1 --config remote.storage.enable=true --config segment.bytes=1048576 " +
		"--config local.retention.bytes=1 --config file.delete.delay.ms=0"
	notTheStore = "the object store is not the one of this cluster"
)

// tiered returns the settings of a broker that copies old records to a directory at once.
func tiered(store string) []string {
	return []string{"archive.url=file://" + store, "snapshot.interval.ms=0", "remote.log.manager.task.interval.ms=50",
		"log.retention.check.interval.ms=50"}
}

// refusesStore waits until a broker has refused its object store.
func (c *nodes) refusesStore(i int) {
	c.t.Helper()
	c.eventually("the broker refuses the store", func(context.Context) string {
		if !strings.Contains(c.run[i].logged(), notTheStore) {
			return c.run[i].logged()
		}
		return ""
	})
}

// objectsIn returns the objects of logs in a directory.
func objectsIn(t *testing.T, store string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(store, "*", "log", "*", "*", "*"))
	must.OK(t, err)
	return files
}
