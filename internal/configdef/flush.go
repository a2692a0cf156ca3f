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

// flushDefs are Kafka's way to have the records of a topic synced. A profile that
// acknowledges what is synced keeps each of their values; see checkFlush and
// synced for one that doesn't.
func flushDefs() []*Def {
	return []*Def{
		topicDef(flushMessages, Long, "9223372036854775807",
			"How many records may be appended before they are synced. Kept by every durability profile that acknowledges only what is synced, as sync does, whatever the value.",
			from("log.flush.interval.messages"), atLeast(1)),
		topicDef(flushMs, Long, "9223372036854775807",
			"How many milliseconds records may wait to be synced. Kept as flush.messages is.",
			from("log.flush.interval.ms"), atLeast(0)),
	}
}

// checkFlush refuses a topic that asks for syncs and chooses a profile that
// acknowledges without them.
func (r *Registry) checkFlush(set map[string]string) error {
	name, chosen := set[DurabilityProfile]
	if !chosen {
		return nil
	}
	p, err := r.profiles.Lookup(name)
	if err != nil || p.Ack == durability.Synced {
		return nil // an unknown one was told before
	}
	for _, asks := range []string{flushMessages, flushMs} {
		text, ok := set[asks]
		if !ok {
			continue
		}
		if v, err := r.topic[asks].parse(text); err == nil && v.n < math.MaxInt64 {
			return &Error{asks, fmt.Sprintf("conflict topic config setting %s (%d) asks for records that are synced, and %s (%s) acknowledges before they are; leave one of them out",
				asks, v.n, DurabilityProfile, name)}
		}
	}
	return nil
}

// synced returns the profile of a topic for which syncs are asked: the one that was
// looked up, or the default one where that acknowledges before a sync and was not
// chosen for this topic.
func (f *reader) synced(p durability.Profile) (durability.Profile, error) {
	asks := min(f.value(flushMessages).n, f.value(flushMs).n) < math.MaxInt64
	if _, chosen := f.l.Topic[DurabilityProfile]; chosen || !asks || p.Ack == durability.Synced || f.err != nil {
		return p, f.err
	}
	return f.r.profiles.Lookup(durability.Default)
}
