package daemon

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// tiered starts a broker with an object store in a directory, and a topic whose old records are to
// be in the store only. produce adds two full segments.
func tiered(t *testing.T) (s *sick, store string, produce func()) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "store")
	must.OK(t, os.Mkdir(store, 0o700))
	s = start(t, vfs.Memory(), tieredSettings(store))
	c := client(t, s.Broker)
	_, err := kadm.NewClient(c).CreateTopic(t.Context(), 1, 1, map[string]*string{"remote.storage.enable": new("true"),
		"segment.bytes": new("1048576"), "local.retention.bytes": new("0"), "retention.bytes": new("1000000000")}, "t")
	must.OK(t, err)
	value := []byte(strings.Repeat("x", 40_000))
	return s, store, func() {
		t.Helper()
		for range 60 {
			must.OK(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: value}).FirstErr())
		}
	}
}

func tieredSettings(store string) []string {
	return []string{"archive.url=file://" + store, "snapshot.interval.ms=0", "remote.log.manager.task.interval.ms=10",
		"log.retention.check.interval.ms=10"}
}

// tierOf returns what /v1/logs shows of the topic's partition.
func tierOf(t *testing.T, b *Broker) *view.Log {
	t.Helper()
	var all view.Logs
	must.OK(t, json.Unmarshal([]byte(body(t, b, "/v1/logs?topic=t")), &all))
	if len(all.List) != 1 || all.List[0].Tier == nil {
		t.Fatalf("%+v", all.List)
	}
	return &all.List[0]
}

// ListOffsets, /v1/logs and the metrics agree on where the records are, and a consumer gets all of
// them.
func TestSurfacesShowWhatTheObjectStoreHas(t *testing.T) {
	s, _, produce := tiered(t)
	produce()
	var x *view.Log
	eventually(t, "the local disk keeps the active segment only", func() bool {
		x = tierOf(t, s.Broker)
		return x.LocalStart > 0 && x.LocalStart == x.Tier.End && x.Tier.Pending == 0
	})
	if x.LogStart != 0 || x.Tier.Start != 0 || x.HighWatermark != 60 || x.Tier.Bytes < x.Tier.End*40_000 || x.Tier.Error != "" ||
		x.RetentionBytes != 1_000_000_000 {
		t.Errorf("%+v %+v", x, x.Tier)
	}
	adm := kadm.NewClient(client(t, s.Broker))
	for at, want := range map[int64]int64{-1: 60, -2: 0, -4: x.LocalStart, -5: x.Tier.End - 1, -6: x.Tier.End} {
		list, err := adm.ListOffsetsAfterMilli(t.Context(), at, "t")
		must.OK(t, err)
		if got, ok := list.Lookup("t", 0); !ok || got.Err != nil || got.Offset != want {
			t.Errorf("ListOffsets %d: %+v, want %d", at, got, want)
		}
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		"t": {0: kgo.NewOffset().AtStart()}}))
	must.OK(t, err)
	defer c.Close()
	for next := int64(0); next < 60; {
		f := c.PollFetches(t.Context())
		must.OK(t, f.Err())
		f.EachRecord(func(r *kgo.Record) {
			if r.Offset != next {
				t.Fatalf("offset %d, want %d", r.Offset, next)
			}
			next++
		})
	}
	text := scraped(t, s.Broker, "chronik_tier_partitions 1\n")
	for _, line := range []string{"chronik_tier_partitions_failing 0", "chronik_tier_lag_records 0", "chronik_tier_copy_failures_total 0",
		"chronik_tier_size_bytes " + strconv.FormatFloat(float64(x.Tier.Bytes), 'g', -1, 64)} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
	for _, name := range []string{"chronik_tier_copied_bytes_total", "chronik_tier_read_bytes_total", "chronik_tier_copied_objects_total"} {
		if strings.Contains(text, name+" 0\n") {
			t.Errorf("%s is 0", name)
		}
	}
}

// Without the store, records are acknowledged and stay on the local disk, and the surfaces say what
// is not copied and why.
func TestSurfacesShowWhatIsNotCopied(t *testing.T) {
	s, store, produce := tiered(t)
	must.OK(t, os.Rename(store, store+".away"))
	produce()
	var x *view.Log
	eventually(t, "copies fail", func() bool {
		x = tierOf(t, s.Broker)
		return x.Tier.Error != "" && x.Tier.Pending > 0
	})
	if x.LocalStart != 0 || x.Tier.End != 0 || x.Tier.FailingMs == 0 || x.Tier.PendingBytes < x.Tier.Pending*40_000 ||
		!strings.Contains(x.Tier.Error, store) {
		t.Errorf("%+v %+v", x, x.Tier)
	}
	if page := body(t, s.Broker, "/topic?name=t"); !strings.Contains(page, "copies to the object store fail") {
		t.Error("the page does not say that copies fail")
	}
	scraped(t, s.Broker, "chronik_tier_partitions_failing 1\n")
	scraped(t, s.Broker, "chronik_tier_lag_records "+strconv.FormatInt(x.Tier.Pending, 10)+"\n")
	must.OK(t, os.Rename(store+".away", store))
	eventually(t, "all is copied", func() bool {
		x = tierOf(t, s.Broker)
		return x.Tier.Error == "" && x.Tier.Pending == 0 && x.LocalStart > 0
	})
	scraped(t, s.Broker, "chronik_tier_partitions_failing 0\n")
}

// A collection, which a start begins, deletes what nothing names: also objects of a topic that does
// not use the store for its old records.
func TestACollectionKeepsWhatIsCopied(t *testing.T) {
	s, store, produce := tiered(t)
	produce()
	eventually(t, "all is copied", func() bool { return tierOf(t, s.Broker).Tier.Pending == 0 && tierOf(t, s.Broker).LocalStart > 0 })
	adm := kadm.NewClient(client(t, s.Broker))
	plain, err := adm.CreateTopic(t.Context(), 1, 1, nil, "plain")
	must.OK(t, err)
	logs, err := filepath.Glob(filepath.Join(store, "*", "log", "*", "0", "*"))
	must.OK(t, err)
	if len(logs) == 0 {
		t.Fatal("no object has records")
	}
	unused := func(topic string, name string) string {
		dir := filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(logs[0]))), topic, "0")
		must.OK(t, os.MkdirAll(dir, 0o700))
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte("unused"), 0o600))
		return path
	}
	nonce := strings.Repeat("ab", 16)
	name := strings.Repeat("0", 20) + "-" + strings.Repeat("0", 19) + "1-" + nonce
	garbage := []string{unused(hex.EncodeToString(plain.ID[:]), name), unused(filepath.Base(filepath.Dir(filepath.Dir(logs[0]))), name)}
	must.OK(t, s.Close())
	again := start(t, s.disk.FS, tieredSettings(store))
	eventually(t, "what nothing names is deleted", func() bool {
		for _, path := range garbage {
			if _, err := os.Stat(path); err == nil {
				return false
			}
		}
		return true
	})
	for _, path := range logs {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if x := tierOf(t, again.Broker); x.Tier.Start != 0 || x.Tier.End == 0 {
		t.Errorf("%+v", x.Tier)
	}
}
