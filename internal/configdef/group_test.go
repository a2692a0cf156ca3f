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
		{"share.session.timeout.ms", "60000", ""}, {"share.assignment.interval.ms", "0", ""},
		{"share.isolation.level", "read_committed", ""},
		{"share.session.timeout.ms", "60001",
			"share.session.timeout.ms must be less than or equal to group.share.max.session.timeout.ms"},
		{"share.heartbeat.interval.ms", "4999",
			"share.heartbeat.interval.ms must be greater than or equal to group.share.min.heartbeat.interval.ms"},
		{"share.assignment.interval.ms", "15001",
			"share.assignment.interval.ms must be less than or equal to group.share.max.assignment.interval.ms"},
		{"share.auto.offset.reset", "none", "Invalid value none for configuration share.auto.offset.reset: The value must be either " +
			"'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'"},
		{"share.isolation.level", "x",
			"Invalid value x for configuration share.isolation.level: String must be one of: read_committed, read_uncommitted"},
		{"consumer.assignment.interval.ms", "1", "Group config consumer.assignment.interval.ms exists in Kafka, " +
			"but this version of chronik does not support it; leave it out: " +
			"the pause between two targets of a consumer group depends on what a target costs"},
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
	wide, err = r.ResolveBroker(map[string]string{"group.share.max.heartbeat.interval.ms": "50000"})
	must.OK(t, err)
	wantMsg(t, r.CheckGroup(map[string]string{"share.heartbeat.interval.ms": "45000"}, &wide.Groups),
		"share.session.timeout.ms must be greater than share.heartbeat.interval.ms")
	for name, want := range map[string]string{
		"group.share.heartbeat.interval.ms=16000": "group.share.heartbeat.interval.ms must be less than or equal to " +
			"group.share.max.heartbeat.interval.ms",
		"group.share.session.timeout.ms=44000": "group.share.session.timeout.ms must be greater than or equal to " +
			"group.share.min.session.timeout.ms",
		"group.share.min.assignment.interval.ms=20000": "group.share.max.assignment.interval.ms must be greater than or equal to " +
			"group.share.min.assignment.interval.ms",
		"group.share.max.size=1001":                 "Invalid value 1001 for configuration group.share.max.size: Value must be no more than 1000",
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

func TestShareGroupsStartSomewhere(t *testing.T) {
	r := registry()
	for value, want := range map[string]ShareStart{"latest": {}, "earliest": {Earliest: true},
		"by_duration:PT1H30M": {Ago: 90 * time.Minute}, "by_duration:P2DT3S": {Ago: 48*time.Hour + 3*time.Second},
		"by_duration:p1d": {Ago: 24 * time.Hour}, "by_duration:PT0.5S": {Ago: 500 * time.Millisecond}} {
		g, err := r.ResolveGroup(Layers{Group: map[string]string{shareReset: value, shareIsolation: "read_committed"}})
		if err != nil || g.ShareGroup.Start != want || !g.ShareGroup.Committed {
			t.Errorf("%s: %+v, %v", value, g.ShareGroup, err)
		}
	}
	b, err := r.ResolveBroker(nil)
	must.OK(t, err)
	for _, value := range []string{"", "Latest", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:P1DT", "by_duration:-PT1H",
		"by_duration:PT1H1H", "PT1H", "by_duration:P99999999999999999999D", "by_duration:P106752D", "by_duration:PT9223372036854775807S"} {
		if err := r.CheckGroup(map[string]string{shareReset: value}, &b.Groups); err == nil {
			t.Errorf("%q is accepted", value)
		}
	}
	g, err := r.ResolveGroup(Layers{Group: map[string]string{shareSession: "50000"},
		Static: map[string]string{"group.share.heartbeat.interval.ms": "7000"}})
	want := ShareGroup{Session: 50 * time.Second, Heartbeat: 7 * time.Second, Interval: time.Second}
	if err != nil || g.ShareGroup != want {
		t.Errorf("%+v, %v", g.ShareGroup, err)
	}
	b.Groups.ShareGroupMax.Session = 46 * time.Second // lowered since
	if s := b.Groups.ShareGroupOf(g.ShareGroup); s.Session != 46*time.Second || s.Heartbeat != 7*time.Second {
		t.Errorf("%+v", s)
	}
}
