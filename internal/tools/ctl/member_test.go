package ctl_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// A member of a KIP-848 group starts without a partition while another member has them all. It
// does not exit, but waits for its assignment and reads what the other member left.
func TestAMemberWaitsForWhatAnotherHolds(t *testing.T) {
	b, err := chronik.OpenMemory(t.Context(),
		chronik.Options{Settings: map[string]string{"group.consumer.heartbeat.interval.ms": "100",
			"group.consumer.min.heartbeat.interval.ms": "50"}})
	must.OK(t, err)
	defer b.Close()
	client := func(opts ...kgo.Opt) *kgo.Client {
		t.Helper()
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addr()))...)
		must.OK(t, err)
		t.Cleanup(cl.Close)
		return cl
	}
	writer := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if _, err := kadm.NewClient(writer).CreateTopic(t.Context(), 2, 1, nil, "a"); err != nil {
		t.Fatal(err)
	}
	for p := range int32(2) {
		if err := writer.ProduceSync(t.Context(), &kgo.Record{Topic: "a", Partition: p, Value: []byte("there")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	holder := client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("a"), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()),
		kgo.DisableAutoCommit())
	for n := 0; n < 2; { // it has both, and commits nothing
		fetches := holder.PollFetches(t.Context())
		must.OK(t, fetches.Err())
		n += fetches.NumRecords()
	}
	var out, errs bytes.Buffer
	code := ctl.Main(t.Context(), strings.Fields("consume a --group g --group-protocol consumer"), version,
		ctl.Streams{Out: &out, Err: &errs,
			Getenv: func(name string) string {
				return map[string]string{"CHRONIK_BROKERS": b.Addr(), "HOME": t.TempDir()}[name]
			}})
	if code != 0 || out.String() != "there\n" {
		t.Errorf("code %d, printed %q, %s", code, out.String(), errs.String())
	}
}
