package system

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	doomedRecord = 16 << 10 // so large that the journal does not copy the bytes
	doomedLife   = 20 * time.Millisecond
)

// doom creates topics and deletes them while it writes records to them, until ctx ends. No test
// reads those records, but their frames in the journal must not damage others. It ignores all
// errors, because the broker is killed meanwhile.
func doom(ctx context.Context, t *testing.T, addr string, tokens <-chan struct{}) (topics int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ProducerLinger(0), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0),
		kgo.UnknownTopicRetries(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MetadataMinAge(10*time.Millisecond), kgo.MaxProduceRequestsInflightPerBroker(8))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer cl.Close()
	value := bytes.Repeat([]byte("doomed"), doomedRecord/6)
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("doomed-%d", n)
		if _, err := kadm.NewClient(cl).CreateTopic(ctx, killPartitions, 1, nil, name); err != nil {
			pause(ctx, doomedLife)
			continue
		}
		life, end := context.WithTimeout(ctx, doomedLife)
		for life.Err() == nil {
			select {
			case <-tokens:
				cl.TryProduce(life, &kgo.Record{Topic: name, Value: value}, nil)
			case <-life.Done():
			}
		}
		if _, err := kadm.NewClient(cl).DeleteTopic(ctx, name); err == nil {
			topics++
		}
		end()
		cl.PurgeTopicsFromProducing(name)
	}
	return topics
}
