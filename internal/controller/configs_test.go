package controller

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Apache Kafka 4.3.1's answers, except for configs that chronik does not have.
func TestRefusedAlterationsMatchKafka(t *testing.T) {
	c, s := cluster(t, 1)
	mustCreate(t, c, "a.b", 1)
	before := image(t, s).Version()
	topic, broker, all := Resource{TopicResource, "a.b"}, Resource{BrokerResource, "1"}, Resource{BrokerResource, ""}
	set := func(name, value string) []ConfigOp { return []ConfigOp{{Name: name, Value: &value}} }
	for _, r := range []struct {
		res  Resource
		ops  []ConfigOp
		kind Kind
		msg  string
	}{
		{Resource{TopicResource, "nope"}, set("segment.bytes", "2097152"), UnknownTopic, "The topic 'nope' does not exist."},
		{Resource{TopicResource, "nope"}, set("segment.bytes", "x"), InvalidConfig,
			"Invalid value x for configuration segment.bytes: Not a number of type INT"},
		{Resource{TopicResource, ""}, set("segment.bytes", "2097152"), InvalidRequest, "Default topic resources are not allowed."},
		{Resource{TopicResource, "b!d"}, set("segment.bytes", "2097152"), InvalidTopic,
			"Topic name is invalid: 'b!d' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{topic, []ConfigOp{{Name: "segment.bytes"}}, InvalidRequest, "Null value not supported for : segment.bytes"},
		{topic, []ConfigOp{{Name: "segment.bytes", Op: Append, Value: ptr("5")}}, InvalidConfig,
			"Can't APPEND to key segment.bytes because its type is not LIST."},
		{topic, []ConfigOp{{Name: "no.such", Op: Subtract, Value: ptr("5")}}, InvalidConfig,
			"Can't SUBTRACT to key no.such because its type is not LIST."},
		{topic, []ConfigOp{{Name: "cleanup.policy", Op: 9, Value: ptr("5")}}, InvalidRequest, "Unknown operations type 9"},
		{topic, append(set("segment.ms", "1"), set("segment.ms", "2")...), InvalidRequest, "Error due to duplicate config keys"},
		{topic, append(set("segment.ms", "1"), set("no.such", "2")...), InvalidConfig, "Unknown topic config name: no.such"},
		{topic, []ConfigOp{{Name: "cleanup.policy", Op: Append, Value: ptr("shrink")}}, InvalidConfig,
			"Invalid value shrink for configuration cleanup.policy: String must be one of: compact, delete"},
		{topic, append(set("min.compaction.lag.ms", "10"), set("max.compaction.lag.ms", "9")...), InvalidConfig,
			"conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)"},
		{Resource{77, "a"}, nil, InvalidRequest, "Unknown resource type 77"},
		{Resource{BrokerResource, "x"}, set("message.max.bytes", "1"), InvalidRequest, "Node id must be an integer, but it is: x"},
		{Resource{BrokerResource, "-1"}, set("message.max.bytes", "1"), InvalidRequest, "Invalid negative broker ID."},
		{Resource{BrokerResource, "424242"}, set("message.max.bytes", "1"), BrokerNotRegistered,
			"Broker ID 424242 is not currently registered"},
		{broker, set("log.dirs", "/x"), InvalidRequest, "Cannot update these configs dynamically: [log.dirs]"},
		{broker, set("message.max.bytes", "abc"), InvalidRequest,
			"Invalid value abc for configuration message.max.bytes: Not a number of type INT"},
		{all, set("log.roll.hours", "5"), InvalidRequest, "Cannot update these configs dynamically: [log.roll.hours]"},
	} {
		for _, validate := range []bool{true, false} {
			_, err := c.AlterConfigs(context.Background(), r.res, r.ops, validate)
			wantError(t, err, r.kind, r.msg)
		}
	}
	if v := image(t, s).Version(); v != before {
		t.Errorf("refusals wrote something: version %d after %d", v, before)
	}
}

func TestTopicConfigsAreAltered(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	mustCreate(t, c, "x", 1)
	res := Resource{TopicResource, "x"}
	for i, step := range []struct {
		ops  []ConfigOp
		want map[string]string
	}{
		{[]ConfigOp{{Name: "segment.ms", Value: ptr("5")}, {Name: "preallocate", Value: ptr("true")}},
			map[string]string{"segment.ms": "5", "preallocate": "true"}},
		{[]ConfigOp{{Name: "segment.ms", Op: Delete}, {Name: "never.set", Op: Delete}}, map[string]string{"preallocate": "true"}},
		{[]ConfigOp{{Name: "cleanup.policy", Op: Append, Value: ptr("delete")}},
			map[string]string{"preallocate": "true", "cleanup.policy": "delete"}},
		{[]ConfigOp{{Name: "cleanup.policy", Op: Delete}, {Name: "preallocate", Op: Delete}}, nil},
	} {
		before := image(t, s)
		if rev, err := c.AlterConfigs(ctx, res, step.ops, true); rev != 0 || err != nil {
			t.Errorf("step %d, validate only: %d, %v", i, rev, err)
		}
		rev, err := c.AlterConfigs(ctx, res, step.ops, false)
		m := image(t, s)
		if err != nil || rev != before.Version()+1 || !maps.Equal(m.Topic("x").Configs, step.want) {
			t.Errorf("step %d: %v at %d, %v; want %v at %d", i, m.Topic("x").Configs, rev, err, step.want, before.Version()+1)
		}
		if again, err := c.AlterConfigs(ctx, res, step.ops, false); again != rev || err != nil {
			t.Errorf("step %d: unchanged configs were written again: %d after %d, %v", i, again, rev, err)
		}
	}
}

func TestReplaceRemovesAllOldConfigs(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	mustCreate(t, c, "x", 1)
	res := Resource{TopicResource, "x"}
	for _, want := range []map[string]string{{"segment.ms": "5", "preallocate": "true"}, {"segment.ms": "6"}, {}} {
		given := map[string]*string{}
		for k, v := range want {
			given[k] = &v
		}
		if _, err := c.ReplaceConfigs(ctx, res, given, false); err != nil || !maps.Equal(image(t, s).Topic("x").Configs, want) {
			t.Errorf("%v, %v, want %v", image(t, s).Topic("x").Configs, err, want)
		}
	}
	_, err := c.ReplaceConfigs(ctx, res, map[string]*string{"b": nil, "a": nil}, false)
	wantError(t, err, InvalidRequest, "Null value not supported for : a, b")
	_, err = c.ReplaceConfigs(ctx, Resource{BrokerResource, "1"}, map[string]*string{"node.id": ptr("2")}, false)
	wantError(t, err, InvalidRequest, "Cannot update these configs dynamically: [node.id]")
}

func TestBrokerConfigsAreAltered(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	for res, id := range map[Resource]int32{{BrokerResource, "1"}: 1, {BrokerResource, ""}: metadata.DefaultBroker} {
		if _, err := c.AlterConfigs(ctx, res, []ConfigOp{{Name: "message.max.bytes", Value: ptr("1100000")}}, false); err != nil {
			t.Fatal(err)
		}
		if got := image(t, s).BrokerConfig(id); !maps.Equal(got, map[string]string{"message.max.bytes": "1100000"}) {
			t.Errorf("%+v: %v", res, got)
		}
		if _, err := c.AlterConfigs(ctx, res, []ConfigOp{{Name: "message.max.bytes", Op: Delete}}, false); err != nil ||
			image(t, s).BrokerConfig(id) != nil {
			t.Errorf("%+v after the deletion: %v, %v", res, image(t, s).BrokerConfig(id), err)
		}
	}
}

// Comparing each entry with each would take minutes.
func TestManyEntriesAreAppendedAndSubtracted(t *testing.T) {
	c, _ := cluster(t, 1)
	var b strings.Builder
	const n = 200_000
	for i := range n {
		fmt.Fprintf(&b, "%d,%d,", i, i/2)
	}
	many := b.String()
	set := map[string]string{"cleanup.policy": "delete"}
	must.OK(t, c.apply(TopicResource, set, ConfigOp{Name: "cleanup.policy", Op: Append, Value: &many}))
	if got := set["cleanup.policy"]; strings.Count(got, ",") != n || !strings.HasPrefix(got, "delete,0,1,2,") {
		t.Errorf("%d commas: %.50s", strings.Count(got, ","), got)
	}
	if err := c.apply(TopicResource, set, ConfigOp{Name: "cleanup.policy", Op: Subtract, Value: &many}); err != nil ||
		set["cleanup.policy"] != "delete" {
		t.Errorf("%.50s, %v", set["cleanup.policy"], err)
	}
}

// A client is compared with the expressions of all subscriptions, so they have a bound together. A
// change that adds no instruction is accepted also beyond it.
func TestTheExpressionsOfAllSubscriptionsAreBounded(t *testing.T) {
	c, s := cluster(t, 1)
	alter := func(name, key, value string) error {
		_, err := c.AlterConfigs(t.Context(), Resource{SubscriptionResource, name}, []ConfigOp{{Name: key, Value: &value}}, false)
		return err
	}
	const slow = "client_id=(.?){400}" // 2,001 instructions
	for i := range 4 {
		must.OK(t, alter(fmt.Sprint("s", i), "match", slow))
	}
	must.OK(t, alter("names", "match", "client_id="+strings.Repeat("name-0123456789|", 60)+"x"))
	const msg = "the expressions in match of all subscriptions would have 10019 instructions together, the limit is 10000, because a client " +
		"is compared with all of them: shorten some, or delete a subscription"
	wantError(t, alter("s4", "match", slow), InvalidConfig, msg)
	must.OK(t, alter("s4", "match", "client_id=orders-.*"))
	wantError(t, alter("s4", "match", slow), InvalidConfig, msg)

	earlier := metadata.KV{Key: metadata.SubscriptionKey("earlier"), Value: metadata.EncodeConfigs(map[string]string{"match": slow})}
	if _, err := s.Txn(t.Context(), metadata.Txn{Put: []metadata.KV{earlier}}); err != nil {
		t.Fatal(err)
	}
	must.OK(t, alter("s1", "interval.ms", "1000"))
	must.OK(t, alter("s1", "match", "client_id=(.?){300}"))
}

// APPEND makes no value larger than its bound.
func TestTheSizeOfAValueIsBounded(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	mustCreate(t, c, "a", 1)
	err := error(nil)
	for i := 0; i < 20 && err == nil; i++ {
		var list []string
		for n := range 3000 {
			list = append(list, fmt.Sprintf("%d:1", 3000*i+n))
		}
		v := strings.Join(list, ",")
		_, err = c.AlterConfigs(ctx, Resource{TopicResource, "a"}, []ConfigOp{{Name: "leader.replication.throttled.replicas", Op: Append,
			Value: &v}}, false)
	}
	got := image(t, s).Topic("a").Configs["leader.replication.throttled.replicas"]
	if !isRefusal(err, InvalidConfig) || len(got) > maxValue {
		t.Errorf("%v; the value has %d bytes", err, len(got))
	}
}
