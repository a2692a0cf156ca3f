package broker

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/vfs"
)

const groupType = kmsg.ConfigResourceTypeGroupConfig

// beatInterval joins a consumer group and returns its heartbeat interval.
func beatInterval(t *testing.T, w *wire, group, member string) int32 {
	t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis, req.SubscribedTopicNames = group, member, 10_000, []string{"t"}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](t, w, 1, req)
	if resp.ErrorCode != 0 {
		t.Fatalf("%s of %s: %+v", member, group, resp)
	}
	return resp.HeartbeatIntervalMillis
}

// A group's configs can be set before or after it exists, apply to its members at once, and survive
// a restart.
func TestAGroupHasConfigsOfItsOwn(t *testing.T) {
	fs := vfs.Memory()
	own := func(o *nodeOptions) { o.fs, o.static["group.consumer.heartbeat.interval.ms"] = fs, "5500" }
	const odd = "g/1 %"
	t.Run("before", func(t *testing.T) {
		n := newNode(t, quick, own)
		n.topic(t, "t", 1)
		n.coordinates(t)
		w := n.dial(t)
		if got := beatInterval(t, w, odd, "a"); got != 5500 {
			t.Errorf("at first: %d", got)
		}
		mustAlter(t, w, incremental(groupType, odd, "consumer.heartbeat.interval.ms", set, "7000", "consumer.session.timeout.ms", set,
			"50000"))
		mustAlter(t, w, incremental(groupType, "later", "consumer.heartbeat.interval.ms", set, "8000"))
		for group, want := range map[string]int32{odd: 7000, "later": 8000, "other": 5500} {
			if got := beatInterval(t, w, group, "b"); got != want {
				t.Errorf("%s: %d, want %d", group, got, want)
			}
		}
		wantConfigs(t, w, describing(groupType, odd),
			"chronik.share.retry.backoff.max.ms=60000 DEFAULT_CONFIG",
			"chronik.share.retry.backoff.ms=0 DEFAULT_CONFIG",
			"consumer.heartbeat.interval.ms=7000 GROUP_CONFIG {GROUP_CONFIG:consumer.heartbeat.interval.ms=7000} "+
				"{STATIC_BROKER_CONFIG:group.consumer.heartbeat.interval.ms=5500} {DEFAULT_CONFIG:group.consumer.heartbeat.interval.ms=5000}",
			"consumer.session.timeout.ms=50000 GROUP_CONFIG {GROUP_CONFIG:consumer.session.timeout.ms=50000} {DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}",
			"errors.deadletterqueue.copy.record.enable=false DEFAULT_CONFIG",
			"errors.deadletterqueue.topic.name= DEFAULT_CONFIG",
			"share.assignment.interval.ms=1000 DEFAULT_CONFIG {DEFAULT_CONFIG:group.share.assignment.interval.ms=1000}",
			"share.auto.offset.reset=latest DEFAULT_CONFIG",
			"share.delivery.count.limit=5 DEFAULT_CONFIG {DEFAULT_CONFIG:group.share.delivery.count.limit=5}",
			"share.heartbeat.interval.ms=5000 DEFAULT_CONFIG {DEFAULT_CONFIG:group.share.heartbeat.interval.ms=5000}",
			"share.isolation.level=read_uncommitted DEFAULT_CONFIG",
			"share.partition.max.record.locks=2000 DEFAULT_CONFIG {DEFAULT_CONFIG:group.share.partition.max.record.locks=2000}",
			"share.record.lock.duration.ms=30000 DEFAULT_CONFIG {DEFAULT_CONFIG:group.share.record.lock.duration.ms=30000}",
			"share.renew.acknowledge.enable=true DEFAULT_CONFIG",
			"share.session.timeout.ms=45000 DEFAULT_CONFIG {DEFAULT_CONFIG:group.share.session.timeout.ms=45000}",
			"streams.assignment.interval.ms=1000 DEFAULT_CONFIG {DEFAULT_CONFIG:group.streams.assignment.interval.ms=1000}",
			"streams.heartbeat.interval.ms=5000 DEFAULT_CONFIG {DEFAULT_CONFIG:group.streams.heartbeat.interval.ms=5000}",
			"streams.initial.rebalance.delay.ms=3000 DEFAULT_CONFIG {DEFAULT_CONFIG:group.streams.initial.rebalance.delay.ms=3000}",
			"streams.num.standby.replicas=0 DEFAULT_CONFIG {DEFAULT_CONFIG:group.streams.num.standby.replicas=0}",
			"streams.session.timeout.ms=45000 DEFAULT_CONFIG {DEFAULT_CONFIG:group.streams.session.timeout.ms=45000}")
		mustAlter(t, w, incremental(groupType, "later", "consumer.heartbeat.interval.ms", unset, "null"))
		if got := beatInterval(t, w, "later", "b"); got != 5500 {
			t.Errorf("after it was taken away: %d", got)
		}
	})
	n := newNode(t, quick, own)
	n.coordinates(t)
	w := n.dial(t)
	if got := beatInterval(t, w, odd, "c"); got != 7000 {
		t.Errorf("after a restart: %d", got)
	}
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = []int8{int8(groupType)}
	if got := ask[*kmsg.ListConfigResourcesResponse](t, w, 1, req).ConfigResources; len(got) != 1 || got[0].Name != odd ||
		got[0].Type != int8(groupType) {
		t.Errorf("%+v", got)
	}
}

// The messages are those of an Apache Kafka 4.3.1.
func TestConfigsOfGroupsAreRefused(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	for _, c := range []struct{ group, name, value, want string }{
		{"g", "consumer.session.timeout.ms", "44999",
			"INVALID_CONFIG: consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"},
		{"g", "consumer.heartbeat.interval.ms", "15001",
			"INVALID_CONFIG: consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms"},
		{"g", "consumer.session.timeout.ms", "x",
			"INVALID_CONFIG: Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT"},
		{"g", "nope", "1", "INVALID_CONFIG: Unknown group config name: nope"},
		{"g", "consumer.assignment.interval.ms", "1",
			"INVALID_CONFIG: Group config consumer.assignment.interval.ms exists in Kafka, but this version of chronik does not support it; leave it out: " +
				"the pause between two targets of a consumer group depends on what a target costs"},
		{"", "consumer.session.timeout.ms", "50000", "INVALID_REQUEST: Default group resources are not allowed."},
	} {
		if diff := cmp.Diff(c.want, alter(t, w, incremental(groupType, c.group, c.name, set, c.value))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	x := ask[*kmsg.DescribeConfigsResponse](t, w, 4, describing(groupType, "")).Resources[0]
	if got := said(x.ErrorCode, x.ErrorMessage); got != "INVALID_REQUEST: Group name must not be empty" {
		t.Error(got)
	}
	if len(n.image().GroupConfig("g")) != 0 {
		t.Error("something was set")
	}
}
