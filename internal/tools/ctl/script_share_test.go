package ctl_test

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kgo"
)

// share GROUP TOPIC makes a member of a share group hold all records of a topic but the first of
// partition 0, which it accepts. It stays until the end of the script.
func share(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: share GROUP TOPIC")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BROKER")), kgo.ShareGroup(args[0]), kgo.ConsumeTopics(args[1]))
	ts.Check(err)
	ts.Defer(cl.Close)
	for range 6 { // a poll accepts what the one before has returned and no acknowledgement names
		list := cl.PollRecords(ctx, 100).Records()
		ts.Check(ctx.Err())
		for _, r := range list {
			if r.Partition == 0 && r.Offset == 0 {
				cl.MarkAcks(kgo.AckAccept, r)
				ts.Check(cl.FlushAcks(ctx))
				return
			}
		}
	}
	ts.Fatalf("the member gets no record")
}
