package health

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/sorts"
)

// InOrder puts what must come first before the remedies in list that stop a broker. all are the
// findings of the cluster, as far as they are known, with those in list. A stop may cost the
// majority of the metadata or the last copy of records while another broker is away, copies
// records, or is stopped for a remedy of its own. What is more than a note does not wait for the
// remedies of notes. list and all must not share an array.
func InOrder(list, all []Finding) {
	everything := stopping(all)
	urgent := stopping(slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Severity == Note }))
	for i := range list {
		if f := &list[i]; f.Stops {
			stopped := urgent
			if f.Severity == Note {
				stopped = everything
			}
			f.Remedy = before(f, all, stopped) + f.Remedy
		}
	}
}

// stopping returns the brokers whose findings have a remedy that stops them, in the order in which
// to stop them: first those on which others cannot rely now, then those with the worst findings.
func stopping(all []Finding) (brokers []int32) {
	worst := map[int32]int{}
	for i := range all {
		f := &all[i]
		if !f.Stops || f.Broker == NoBroker {
			continue
		}
		rank := slices.Index(Severities(), f.Severity)
		if slices.ContainsFunc(all, func(h Finding) bool { return h.Holds != "" && h.concerns(f.Broker) }) {
			rank -= len(Severities())
		}
		if known, ok := worst[f.Broker]; !ok || rank < known {
			worst[f.Broker] = rank
		}
	}
	return sorts.Sorted(maps.Keys(worst), func(a, b int32) int { return cmp.Or(cmp.Compare(worst[a], worst[b]), cmp.Compare(a, b)) })
}

// concerns reports whether a finding describes a broker: its own, or what others find about it.
func (f *Finding) concerns(broker int32) bool {
	return broker != NoBroker && (f.Broker == broker || f.IsAbout(broker))
}

// awaits reports whether what a finding describes waits for the remedies of a broker, which would
// wait without end if they came after it.
func (f *Finding) awaits(broker int32) bool {
	return f.About != nil && slices.Contains(f.About.Awaits, broker)
}

// before returns what must come before the remedy of a finding, empty if nothing must. stopped are
// the brokers of stopping.
func before(f *Finding, all []Finding, stopped []int32) string {
	var first []string
	for i := range all {
		h := &all[i]
		if h.Holds != "" && !h.concerns(f.Broker) && !h.awaits(f.Broker) && !stopMends(all, h) && !slices.Contains(first, h.Holds) {
			first = append(first, h.Holds)
		}
	}
	lead := ""
	if len(first) > 0 {
		lead = "first " + strings.Join(first, ", and ") + ", before any other broker stops; then "
	}
	if len(stopped) > 1 && f.Broker != NoBroker {
		lead += "one broker at a time, in the order " + numbers(stopped) +
			", and the next one only when `chronikctl cluster health` shows the former in sync, as far as its partitions have leaders: "
	}
	return lead
}

// stopMends reports whether the broker that h is about has a remedy which stops it, so that nothing
// is gained by waiting until h is resolved: the order of stopping has that broker first.
func stopMends(all []Finding, h *Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool {
		return f.Stops && f.Severity != Note && f.Broker != NoBroker && h.concerns(f.Broker)
	})
}
