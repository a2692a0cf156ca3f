package chronik_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// A group resumes when the broker starts again; a broker that closes does not wait for the members
// of its groups.
func TestAGroupOutlivesItsBroker(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{"classic": nil, "consumer": {kgo.ServerSideBalancer()}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var gone atomic.Bool // the broker is gone for good: a leave need not be retried for long
			patience := func(int16) time.Duration {
				if gone.Load() {
					return time.Second
				}
				return time.Minute
			}
			for round := range 3 {
				b, err := chronik.Open(t.Context(), dir,
					chronik.Options{Settings: map[string]string{"group.initial.rebalance.delay.ms": "0"}})
				must.OK(t, err)
				write(t, b, "kept", fmt.Sprint("round ", round), 1)
				cl := client(t, b, append([]kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("kept"), kgo.DisableAutoCommit(),
					kgo.RetryTimeoutFn(patience)}, opts...)...)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				f := cl.PollFetches(ctx)
				cancel()
				if r := f.Records(); f.Err() != nil || len(r) != 1 || string(r[0].Value) != fmt.Sprintf("round %d 0", round) {
					t.Fatalf("round %d: %v, %v", round, r, f.Err())
				}
				must.OK(t, cl.CommitUncommittedOffsets(t.Context()))
				offsets, err := kadm.NewClient(cl).FetchOffsets(t.Context(), "g")
				if o, ok := offsets.Lookup("kept", 0); err != nil || !ok || o.At != int64(round)+1 {
					t.Errorf("round %d: offset %d, %v", round, o.At, err)
				}
				if round < 2 { // the last one stops without its members leaving
					cl.Close()
				}
				gone.Store(round == 2)
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
