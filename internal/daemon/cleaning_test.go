package daemon

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Kafka's tools and test suites of clients change settings of compaction while a broker runs. Those
// that have an effect are applied; the others are stored and described.
func TestSettingsOfCompactionAreAlteredWhileTheBrokerRuns(t *testing.T) {
	b, _ := startHere(t, vfs.Memory(), "log.cleaner.backoff.ms=60000")
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	must.OK(t, err)
	defer c.Close()
	want := map[string]string{
		"log.cleaner.backoff.ms": "7000", "log.cleaner.dedupe.buffer.size": "2097152", "log.cleaner.io.max.bytes.per.second": "1000000",
		"log.cleaner.threads": "2", "log.cleaner.io.buffer.size": "1048576", "log.cleaner.io.buffer.load.factor": "0.8",
		"chronik.log.scrub.interval.ms": "60000",
	}
	var set []kadm.AlterConfig
	for name, value := range want {
		set = append(set, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	admin := kadm.NewClient(c)
	answers, err := admin.AlterBrokerConfigs(t.Context(), set) // of all brokers
	if err != nil || answers[0].Err != nil {
		t.Fatal(err, answers)
	}
	if got := *b.components.cleaning.Load(); got != (storage.Cleaning{Backoff: 7 * time.Second, KeyBytes: 2 << 20,
		BytesPerSecond: 1_000_000, Scrub: time.Minute}) {
		t.Errorf("%+v", got)
	}
	described, err := admin.DescribeBrokerConfigs(t.Context(), b.components.conf.NodeID)
	must.OK(t, err)
	for _, got := range described[0].Configs {
		if v, ok := want[got.Key]; ok && got.Value != nil && (*got.Value == v || got.Key == "log.cleaner.io.max.bytes.per.second") {
			delete(want, got.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("not described with the values that were set: %v", want)
	}
}
