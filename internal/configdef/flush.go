package configdef

import (
	"fmt"
	"math"

	"github.com/chronik-io/chronik/pkg/durability"
)

const (
	flushMessages = "flush.messages"
	flushMs       = "flush.ms"
)

// flushDefs are Kafka's configs for syncing the records of a topic. Profiles that acknowledge only
// synced records satisfy all of their values; for other profiles see checkFlush and synced.
func flushDefs() []*Def {
	return []*Def{
		topicDef(flushMessages, Long, "9223372036854775807",
			"The maximum number of records appended before they are synced. Durability profiles that acknowledge only synced records, such as sync, satisfy every value.",
			from("log.flush.interval.messages"), atLeast(1)),
		topicDef(flushMs, Long, "9223372036854775807",
			"The maximum number of milliseconds before records are synced. Durability profiles that acknowledge only synced records, such as sync, satisfy every value.",
			from("log.flush.interval.ms"), atLeast(0)),
	}
}

// checkFlush refuses a topic that asks for syncs and selects a profile that acknowledges without
// them.
func (r *Registry) checkFlush(set map[string]string) error {
	name, chosen := set[DurabilityProfile]
	if !chosen {
		return nil
	}
	p, err := r.profiles.Lookup(name)
	if err != nil || p.Ack == durability.Synced {
		return nil // an unknown profile was reported before
	}
	for _, asks := range []string{flushMessages, flushMs} {
		text, ok := set[asks]
		if !ok {
			continue
		}
		if v, err := r.topic[asks].parse(text); err == nil && v.n < math.MaxInt64 {
			return &Error{asks, fmt.Sprintf(
				"conflict topic config setting %s (%d) asks for synced records, and %s (%s) acknowledges before they are; leave one of them out",
				asks, v.n, DurabilityProfile, name)}
		}
	}
	return nil
}

// synced returns the profile of a topic that asks for syncs: the given one, or the default profile
// if the given one acknowledges before a sync and was not selected for this topic.
func (f *reader) synced(p durability.Profile) (durability.Profile, error) {
	asks := min(f.value(flushMessages).n, f.value(flushMs).n) < math.MaxInt64
	if _, chosen := f.l.Topic[DurabilityProfile]; chosen || !asks || p.Ack == durability.Synced || f.err != nil {
		return p, f.err
	}
	return f.r.profiles.Lookup(durability.Default)
}
