package config

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// A broker that is down is one of the cluster's if it has replicas: advice does not change because
// of it.
func TestBrokersAreAlsoThoseThatAreDown(t *testing.T) {
	meta := kadm.Metadata{
		Brokers: kadm.BrokerDetails{{NodeID: 1}, {NodeID: 2}},
		Topics: kadm.TopicDetails{"a": kadm.TopicDetail{Topic: "a", Partitions: kadm.PartitionDetails{
			0: kadm.PartitionDetail{Replicas: []int32{1, 2}}, 1: kadm.PartitionDetail{Replicas: []int32{2, 3}}}}},
	}
	if n := CountBrokers(meta); n != 3 {
		t.Errorf("%d brokers, want 3", n)
	}
}
