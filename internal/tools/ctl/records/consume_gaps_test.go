package records

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// nextRecord returns the first record at or after an offset.
func TestABrokerIsAskedWhatIsLeft(t *testing.T) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(chronik.StartTest(t).Addr()), kgo.AllowAutoTopicCreation())
	must.OK(t, err)
	defer cl.Close()
	for range 3 {
		must.OK(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("x")}).FirstErr())
	}
	r := &reader{consumeOptions: &consumeOptions{}, topics: []string{"t"}, client: cl, admin: kadm.NewClient(cl),
		ends: app.OffsetRanges{"t": {0: {Start: 0, End: 3}}}}
	for from, want := range map[int64]int64{0: 0, 1: 1, 2: 2, 3: 3} {
		if got, err := r.nextRecord(t.Context(), partition{"t", 0}, from); err != nil || got != want {
			t.Errorf("from %d: %d, %v", from, got, err)
		}
	}
	// skipGaps keeps a partition that has a record left, and drops one that has none.
	for next, left := range map[int64]int{2: 1, 3: 0} {
		r.left = map[partition]span{{"t", 0}: {next, 3}}
		if err := r.skipGaps(t.Context()); err != nil || len(r.left) != left {
			t.Errorf("at %d: %v left, %v", next, r.left, err)
		}
	}
	if _, err := r.nextRecord(t.Context(), partition{"t", 7}, 0); err == nil {
		t.Error("nextRecord succeeds on a partition that does not exist")
	}
}
