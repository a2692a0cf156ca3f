package config

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func ref(s string) *string { return &s }

// A topic's limit after an edit is the one of the highest layer that is left, in the unit of the
// topic's config.
func TestAfterAnEdit(t *testing.T) {
	all := []Synonym{
		{retentionTime, ref("1"), "topic"},
		{"log.retention.ms", ref("2"), "broker"},
		{"log.retention.ms", ref("3"), "all brokers"},
		{"log.retention.hours", ref("4"), "broker's start"},
		{"log.retention.hours", ref("168"), byDefault},
	}
	topic := Entity{kmsg.ConfigResourceTypeTopic, "orders"}
	one, every := Entity{kmsg.ConfigResourceTypeBroker, "1"}, Entity{kmsg.ConfigResourceTypeBroker, ""}
	for _, c := range []struct {
		name string
		e    Entity
		set  []string
		drop []string
		from int // the first synonym that the topic has
		want string
	}{
		{"nothing of it", topic, []string{"segment.ms=9"}, nil, 0, "1"},
		{"set on the topic", topic, []string{"retention.ms=9"}, nil, 0, "9"},
		{"set on a topic without", topic, []string{"retention.ms=9"}, nil, 3, "9"},
		{"unset on the topic", topic, nil, []string{"retention.ms"}, 0, "2"},
		{"unset with an older default", topic, nil, []string{"retention.ms"}, 4, "604800000"},
		{"a default under the topic's own", every, []string{"log.retention.ms=9"}, nil, 0, "1"},
		{"a default of all under one of a broker", every, []string{"log.retention.ms=9"}, nil, 1, "2"},
		{"a default of all", every, []string{"log.retention.ms=9"}, nil, 2, "9"},
		{"a default of one broker", one, []string{"log.retention.ms=9"}, nil, 2, "9"},
		{"no default of all any more", every, nil, []string{"log.retention.ms"}, 2, "14400000"},
		{"no default of the broker any more", one, nil, []string{"log.retention.ms"}, 1, "3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Edit{Set: c.set, Unset: c.drop}
			must.OK(t, d.read())
			now := &Described{Key: retentionTime, Value: scaled(retentionTime, all[c.from].Name, all[c.from].Value), Synonyms: all[c.from:]}
			if got := d.after(c.e, now); *got != c.want {
				t.Errorf("retention.ms becomes %s, want %s", *got, c.want)
			}
		})
	}
}

// What falls out is what the configs before would have kept.
func TestWhatFallsOut(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	// One record a second from second 0 to 999, 10 bytes each.
	log := &held{start: 0, end: 1000, bytes: 10_000, byTime: func(at time.Time) int64 { return at.UnixMilli() / 1000 }}
	week, forever := int64(7*24*3_600_000), int64(-1)
	for name, c := range map[string]struct {
		before, after keeps
		want          int64 // records
		asks          bool
	}{
		"shorter time":          {keeps{true, false, week, -1, false}, keeps{true, false, 100_000, -1, false}, 900, true},
		"longer time":           {keeps{true, false, 100_000, -1, false}, keeps{true, false, week, -1, false}, 0, false},
		"shorter, some due":     {keeps{true, false, 500_000, -1, false}, keeps{true, false, 100_000, -1, false}, 400, true},
		"no time at all":        {keeps{true, false, week, -1, false}, keeps{true, false, 0, -1, false}, 1000, true},
		"smaller":               {keeps{true, false, -1, forever, false}, keeps{true, false, -1, 2_500, false}, 750, true},
		"smaller than none":     {keeps{true, false, -1, 20_000, false}, keeps{true, false, -1, 15_000, false}, 0, true},
		"larger":                {keeps{true, false, -1, 2_500, false}, keeps{true, false, -1, 5_000, false}, 0, false},
		"both, the larger part": {keeps{true, false, week, -1, false}, keeps{true, false, 100_000, 5_000, false}, 900, true},
		"deletes at last":       {keeps{false, true, 100_000, -1, false}, keeps{true, false, 100_000, -1, false}, 900, true},
		"deletes no more":       {keeps{true, false, 100_000, -1, false}, keeps{false, true, 100_000, -1, false}, 0, true},
		"keeps all":             {keeps{true, false, 100_000, -1, false}, keeps{false, false, 100_000, -1, false}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.after.lessThan(c.before); got != c.asks {
				t.Errorf("lessThan is %v", got)
			}
			if got := max(0, c.after.cut(log, now)-c.before.cut(log, now)); got != c.want {
				t.Errorf("%d records fall out, want %d", got, c.want)
			}
		})
	}
}

// Only retention in milliseconds without a unit, below a minute, is suspicious.
func TestUnitless(t *testing.T) {
	d := Edit{Set: []string{"retention.ms=7", "log.retention.ms=59999", "retention.ms=60000", "retention.ms=7ms", "retention.ms=-1",
		"segment.ms=7", "retention.bytes=7", "delete.retention.ms=7"}}
	if got := d.unitless(); len(got) != 2 || !strings.HasPrefix(got[0], d.Set[0]+" ") || !strings.HasPrefix(got[1], d.Set[1]+" ") {
		t.Errorf("asks about %q", got)
	}
}

// The records that only the object store has fall out when the topic no longer uses it.
func TestRecordsInTheStoreFallOut(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	log := &held{start: 0, local: 600, end: 1000, bytes: 4_000, byTime: func(at time.Time) int64 { return at.UnixMilli() / 1000 }}
	in, out := keeps{true, false, -1, -1, true}, keeps{true, false, -1, -1, false}
	if !out.lessThan(in) || in.lessThan(out) || in.lessThan(in) {
		t.Error("what is asked is wrong")
	}
	if gone := out.cut(log, now) - in.cut(log, now); gone != 600 {
		t.Errorf("%d records fall out", gone)
	}
}
