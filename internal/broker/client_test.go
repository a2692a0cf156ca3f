package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A client that knows nothing about the topic produces, and another one reads.
func TestAClientProducesToATopicThatIsMadeForItAndReadsBack(t *testing.T) {
	n := newNode(t)
	ctx := deadline(t)
	producer := n.client(t, kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("fresh"))
	for i := range 100 {
		producer.Produce(ctx, kgo.StringRecord(fmt.Sprint(i)), func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	must(t, producer.Flush(ctx))
	consumer := n.client(t, kgo.ConsumeTopics("fresh"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for want := 0; want < 100; {
		fetches := consumer.PollFetches(ctx)
		must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != fmt.Sprint(want) || r.Offset != int64(want) {
				t.Errorf("offset %d: %s, want %d", r.Offset, r.Value, want)
			}
			want++
		})
	}
}

func TestAnAdminClientDoesItsWork(t *testing.T) {
	n := newNode(t)
	ctx := deadline(t)
	admin := kadm.NewClient(n.client(t))
	_, err := admin.CreateTopic(ctx, 2, -1, map[string]*string{"segment.ms": kadm.StringPtr("5000")}, "t")
	must(t, err)
	if _, err := admin.CreateTopic(ctx, 2, -1, nil, "t"); !isCode(err, kerr.TopicAlreadyExists) {
		t.Errorf("the same topic again: %v", err)
	}
	more, err := admin.CreatePartitions(ctx, 3, "t")
	must(t, err)
	must(t, more.Error())
	details, err := admin.ListTopics(ctx)
	must(t, err)
	if len(details) != 1 || len(details["t"].Partitions) != 5 {
		t.Errorf("%+v", details)
	}
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "segment.bytes",
		Value: kadm.StringPtr("2000000")}}, "t")
	must(t, err)
	must(t, altered[0].Err)
	configs, err := admin.DescribeTopicConfigs(ctx, "t")
	must(t, err)
	values := map[string]string{}
	for _, c := range configs[0].Configs {
		values[c.Key] = c.MaybeValue()
	}
	if values["segment.ms"] != "5000" || values["segment.bytes"] != "2000000" || values["compression.type"] != "producer" {
		t.Errorf("%v", values)
	}
	brokers, err := admin.BrokerMetadata(ctx)
	must(t, err)
	if brokers.Controller != 1 || brokers.Cluster != n.image().ClusterID() || len(brokers.Brokers) != 1 {
		t.Errorf("%+v", brokers)
	}
	gone, err := admin.DeleteTopics(ctx, "t", "no")
	must(t, err)
	if gone["t"].Err != nil || !isCode(gone["no"].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("%+v", gone)
	}
}

func isCode(err error, want *kerr.Error) bool {
	var got *kerr.Error
	return errors.As(err, &got) && got.Code == want.Code
}
