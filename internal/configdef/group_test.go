package configdef

import (
	"testing"
	"time"
)

// The texts are Apache Kafka 4.3.1's answers.
func TestGroupConfigsWithinTheBrokersLimits(t *testing.T) {
	r := registry()
	b, err := r.ResolveBroker(nil)
	if err != nil {
		t.Fatal(err)
	}
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
		{"nope", "1", "Unknown group config name: nope"},
		{"share.auto.offset.reset", "earliest",
			"Group config share.auto.offset.reset exists in Kafka, but this version of chronik does not support it; leave it out: there are no share groups or streams groups yet"},
	} {
		wantMsg(t, r.CheckGroup(map[string]string{c.name: c.value}, &b.Groups), c.want)
	}
	wantMsg(t, r.CheckGroup(nil, &b.Groups), "")
	wide, err := r.ResolveBroker(map[string]string{"group.consumer.max.heartbeat.interval.ms": "50000"})
	if err != nil {
		t.Fatal(err)
	}
	wantMsg(t, r.CheckGroup(map[string]string{"consumer.heartbeat.interval.ms": "45000"}, &wide.Groups),
		"consumer.heartbeat.interval.ms must be less than consumer.session.timeout.ms")
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
	v := find(t, r.DescribeGroup(l), "consumer.session.timeout.ms")
	want := []Setting{{"consumer.session.timeout.ms", "50000", SourceGroup}, {"group.consumer.session.timeout.ms", "46000", SourceStatic},
		{"group.consumer.session.timeout.ms", "45000", SourceDefault}}
	if v.Value != "50000" || v.Source != SourceGroup || len(v.Settings) != 3 || v.Settings[0] != want[0] || v.Settings[1] != want[1] ||
		v.Settings[2] != want[2] {
		t.Errorf("%+v", v)
	}
}
