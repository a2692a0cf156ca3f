package configdef

import "testing"

// A topic that asks for syncs gets them: every profile that acknowledges synced records satisfies
// it, and if the broker's default does not, the default profile is used. A topic that asks for
// syncs and selects a weaker profile is refused.
func TestSyncsAreProvidedIfAskedFor(t *testing.T) {
	r := registry()
	os := map[string]string{DurabilityProfile: "os"}
	for name, c := range map[string]struct {
		topic, broker map[string]string
		want          string // profile
	}{
		"a default that syncs":    {map[string]string{"flush.messages": "100"}, nil, "sync"},
		"a default that does not": {map[string]string{"flush.messages": "100"}, os, "sync"},
		"by time":                 {map[string]string{"flush.ms": "0"}, os, "sync"},
		"never, said aloud":       {map[string]string{"flush.messages": "9223372036854775807"}, os, "os"},
		"the broker asks, for all": {nil,
			map[string]string{DurabilityProfile: "os", "log.flush.interval.messages": "1"}, "sync"},
		"the broker asks, the topic selects": {os, map[string]string{"log.flush.interval.messages": "1"}, "os"},
		"the topic selects a weak profile and never asks": {map[string]string{DurabilityProfile: "os",
			"flush.messages": "9223372036854775807"}, nil, "os"},
	} {
		if err := r.CheckTopic(c.topic); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := r.ResolveTopic(Layers{Topic: c.topic, Static: c.broker})
		if err != nil || got.Durability.Name != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got.Durability.Name, err, c.want)
		}
		if v := find(t, r.DescribeTopic(Layers{Topic: c.topic, Static: c.broker}), DurabilityProfile); v.Value != c.want {
			t.Errorf("%s: described as %s", name, v.Value)
		}
	}
	wantMsg(t, r.CheckTopic(map[string]string{DurabilityProfile: "os", "flush.ms": "100"}),
		"conflict topic config setting flush.ms (100) asks for synced records, and chronik.durability.profile (os) acknowledges before they are; leave one of them out")
	wantMsg(t, r.CheckTopic(map[string]string{"flush.messages": "0"}),
		"Invalid value 0 for configuration flush.messages: Value must be at least 1")
}
