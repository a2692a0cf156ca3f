package configdef

import (
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// The texts are Apache Kafka 4.3.1's answers.
func TestGroupConfigsWithinTheBrokersLimits(t *testing.T) {
	r := registry()
	b, err := r.ResolveBroker(nil)
	must.OK(t, err)
	for _, c := range []struct{ name, value, want string }{
		{"consumer.session.timeout.ms", "45000", ""}, {"consumer.session.timeout.ms", "60000", ""},
		{"consumer.session.timeout.ms", "44999",
			"consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"},
		{"consumer.session.timeout.ms", "60001",
			"consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"},
		{"consumer.heartbeat.interval.ms", "5000", ""}, {"consumer.heartbeat.interval.ms", "15000", ""},
		{"consumer.heartbeat.interval.ms", "4999",
			"consumer.heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms"},
		{"consumer.heartbeat.interval.ms", "15001",
			"consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms"},
		{"consumer.session.timeout.ms", "x", "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT"},
		{"streams.session.timeout.ms", "60000", ""}, {"streams.num.standby.replicas", "2", ""},
		{"streams.initial.rebalance.delay.ms", "0", ""}, {"streams.assignment.interval.ms", "0", ""},
		{"streams.session.timeout.ms", "44999",
			"streams.session.timeout.ms must be greater than or equal to group.streams.min.session.timeout.ms"},
		{"streams.heartbeat.interval.ms", "15001",
			"streams.heartbeat.interval.ms must be less than or equal to group.streams.max.heartbeat.interval.ms"},
		{"streams.assignment.interval.ms", "15001",
			"streams.assignment.interval.ms must be less than or equal to group.streams.max.assignment.interval.ms"},
		{"streams.num.standby.replicas", "3", "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas"},
		{"nope", "1", "Unknown group config name: nope"},
		{"share.auto.offset.reset", "earliest",
			"Group config share.auto.offset.reset exists in Kafka, but this version of chronik does not support it; leave it out: there are no share groups yet"},
	} {
		wantMsg(t, r.CheckGroup(map[string]string{c.name: c.value}, &b.Groups), c.want)
	}
	wantMsg(t, r.CheckGroup(nil, &b.Groups), "")
	wide, err := r.ResolveBroker(map[string]string{"group.consumer.max.heartbeat.interval.ms": "50000"})
	must.OK(t, err)
	wantMsg(t, r.CheckGroup(map[string]string{"consumer.heartbeat.interval.ms": "45000"}, &wide.Groups),
		"consumer.heartbeat.interval.ms must be less than consumer.session.timeout.ms")
	wide, err = r.ResolveBroker(map[string]string{"group.streams.max.heartbeat.interval.ms": "50000"})
	must.OK(t, err)
	wantMsg(t, r.CheckGroup(map[string]string{"streams.heartbeat.interval.ms": "45000"}, &wide.Groups),
		"streams.session.timeout.ms must be greater than streams.heartbeat.interval.ms")
	for name, want := range map[string]string{
		"group.streams.heartbeat.interval.ms=45000": "group.streams.heartbeat.interval.ms must be less than group.streams.session.timeout.ms",
		"group.streams.min.session.timeout.ms=60001": "group.streams.max.session.timeout.ms must be greater than or equal to " +
			"group.streams.min.session.timeout.ms",
		"group.streams.max.heartbeat.interval.ms=1": "group.streams.max.heartbeat.interval.ms must be greater than or equal to " +
			"group.streams.min.heartbeat.interval.ms",
		"group.streams.min.assignment.interval.ms=20000": "group.streams.max.assignment.interval.ms must be greater than or equal to " +
			"group.streams.min.assignment.interval.ms",
		"group.streams.num.standby.replicas=3": "group.streams.num.standby.replicas must be less than or equal to " +
			"group.streams.max.standby.replicas",
	} {
		name, value, _ := strings.Cut(name, "=")
		wantMsg(t, r.CheckStatic(map[string]string{name: value}), want)
	}
	wantMsg(t, r.CheckStatic(map[string]string{"group.consumer.min.session.timeout.ms": "60001"}),
		"group.consumer.max.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms")
	wantMsg(t, r.CheckStatic(map[string]string{"group.consumer.max.heartbeat.interval.ms": "4999"}),
		"group.consumer.max.heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms")
}

func TestGroupsInheritFromTheBroker(t *testing.T) {
	r := registry()
	l := Layers{Group: map[string]string{"consumer.session.timeout.ms": "50000"},
		Static: map[string]string{"group.consumer.session.timeout.ms": "46000", "group.consumer.heartbeat.interval.ms": "7000"}}
	g, err := r.ResolveGroup(l)
	if err != nil || g.Session != 50*time.Second || g.Heartbeat != 7*time.Second {
		t.Errorf("%+v, %v", g, err)
	}
	own := Layers{Group: map[string]string{streamsStandbys: "2"}, Static: map[string]string{"group.streams.session.timeout.ms": "46000"}}
	want1 := Streams{Session: 46 * time.Second, Heartbeat: 5 * time.Second, Interval: time.Second,
		InitialDelay: 3 * time.Second, Standbys: 2}
	if g, err := r.ResolveGroup(own); err != nil || g.Streams != want1 {
		t.Errorf("%+v, %v", g, err)
	}
	v := find(t, r.DescribeGroup(l), "consumer.session.timeout.ms")
	want := []Setting{{"consumer.session.timeout.ms", "50000", SourceGroup}, {"group.consumer.session.timeout.ms", "46000", SourceStatic},
		{"group.consumer.session.timeout.ms", "45000", SourceDefault}}
	if v.Value != "50000" || v.Source != SourceGroup || len(v.Settings) != 3 || v.Settings[0] != want[0] || v.Settings[1] != want[1] ||
		v.Settings[2] != want[2] {
		t.Errorf("%+v", v)
	}
}
