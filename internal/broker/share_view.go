package broker

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
	"github.com/chronik-io/chronik/internal/view"
)

// ackNames are the types of acknowledgements.
var ackNames = [...]string{window.Gap: "gap", window.Accept: "accept", window.Release: "release", window.Reject: "reject",
	window.Renew: "renew"}

// Shares returns the share groups whose share partitions this broker leads and has in memory. It
// takes some time for each of them.
func (b *Handler) Shares() view.Shares {
	if b.shares == nil {
		return view.Shares{}
	}
	s, img := b.shares.Survey(), b.image()
	all := view.Shares{Partitions: map[string]int{}, Loads: s.Loads, Refused: s.Refused}
	at := make(map[string]int, len(s.Totals))
	for _, id := range slices.Sorted(maps.Keys(s.Totals)) {
		c := s.Totals[id]
		g := view.ShareGroup{ID: id, Records: map[string]int64{}, Acknowledged: map[string]int64{}, Delivered: c.Delivered,
			Redelivered: c.Redelivered, TimedOut: c.Ended, Archived: c.Archived(), Copied: s.Letters[id][0], Uncopied: s.Letters[id][1],
			Failing: map[string]float64{}}
		for t, n := range c.Acknowledged {
			g.Acknowledged[ackNames[t]] = n
		}
		at[id] = len(all.Groups)
		all.Groups = append(all.Groups, g)
	}
	for id, n := range s.Sessions {
		if all.Sessions += n; n > 0 {
			if i, known := at[id]; known {
				all.Groups[i].Sessions = n
			}
		}
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		all.Partitions[stateOfShare(p)]++
		t := img.TopicByID(p.Key.Topic)
		if t == nil {
			continue // deleted; the share partition ends soon
		}
		if p.Failed != nil || p.Loading+p.Full+p.Writing+p.Letters.Failing > 0 {
			all.Slow = append(all.Slow, slowShare(p, t))
		}
		if g, known := at[p.Key.Group]; known && p.Loaded {
			addShare(&all.Groups[g], p, t)
		}
	}
	return all
}

func stateOfShare(p *shareleader.Surveyed) string {
	switch {
	case p.Failed != nil:
		return "failed"
	case p.Loaded:
		return "ready"
	}
	return "loading"
}

func slowShare(p *shareleader.Surveyed, t *metadata.Topic) view.SlowShare {
	return view.SlowShare{Group: p.Key.Group, Topic: t.Name, Partition: p.Key.Partition, Failed: p.Failed == kerr.KafkaStorageError,
		Absent: p.Failed == kerr.InvalidRequest, Loading: p.Loading, Unloaded: p.Unloaded,
		Full: p.Full, Writing: p.Writing, Uncopied: p.Letters.Failing, Uncopyable: p.Letters.Err,
		Start: p.Start, Acquired: p.Offsets[window.Acquired], Archiving: p.Offsets[window.Archiving]}
}

func addShare(g *view.ShareGroup, p *shareleader.Surveyed, t *metadata.Topic) {
	g.Records["acquired"] += p.Offsets[window.Acquired]
	g.Records["available"] += p.Offsets[window.Available] + p.Offsets[window.Delayed]
	g.Records["archiving"] += p.Offsets[window.Archiving]
	finished := p.Offsets[window.Acknowledged] + p.Offsets[window.Archived]
	g.Records["finished"] += finished
	if p.Letters.Failing > 0 {
		g.Failing[p.Letters.Reason] = max(g.Failing[p.Letters.Reason], p.Letters.Failing.Seconds())
	}
	g.Offsets = append(g.Offsets, view.GroupOffset{Topic: t.Name, Partition: p.Key.Partition, Committed: p.Start, End: p.High,
		Lag: view.LagBetween(p.Start, finished, p.LogStart, p.High)})
}
