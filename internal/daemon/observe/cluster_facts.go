package observe

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/text"
)

// uncleanFor is how long an unclean election remains a finding, as long as the process lives.
const uncleanFor = 24 * time.Hour

// electedWithin is how long an election may take before it is reported.
const electedWithin = 3 * time.Second

// ClusterFacts finds out what a member of a cluster knows of it. Facts is called by one goroutine;
// Follow by the applier's.
type ClusterFacts struct {
	Image  func() *metadata.Image
	MinISR func(*metadata.Image, *metadata.Topic, *metadata.Partition) int
	// Member sets what the metadata do not show: the quorum, the lease, the metadata leader's
	// clock, and the replicas that have stopped. It must not block.
	Member func(*metadata.Image, *checks.Cluster)

	stuck   map[string]time.Time // since when partitions wait, by their reason
	orphans time.Time            // since when there are voters without a broker

	mu      sync.Mutex
	unclean map[metadata.TopicPartition]time.Time // by partition, when its unclean election was seen
}

// Follow is a metadata.Subscriber that remembers unclean elections. It never blocks.
func (c *ClusterFacts) Follow(_ context.Context, _, _ *metadata.Image, d *metadata.Delta) error {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	note := func(t *metadata.Topic, i, before int32) {
		if p := t.Partitions.At(i); p.Unclean > max(before, 0) {
			if c.unclean == nil {
				c.unclean = map[metadata.TopicPartition]time.Time{}
			}
			c.unclean[metadata.TopicPartition{Topic: t.ID, Partition: i}] = now
		}
	}
	for _, t := range d.Created { // when the broker starts, all topics
		for i, p := range t.Partitions.All() {
			note(t, i, p.LeaderEpoch-1) // of earlier elections, only that of the present leader
		}
	}
	for _, x := range d.Changed {
		for _, i := range x.Partitions {
			if before := x.Prev.Partitions.At(i); before != nil {
				note(x.Next, i, before.Unclean)
			}
		}
	}
	return nil
}

// Source is a checks.Source.
func (c *ClusterFacts) Source(f *checks.Facts) {
	img := c.Image()
	x := &checks.Cluster{}
	c.Member(img, x)
	c.brokers(img, x)
	c.uncleanElections(img, x, f.Now)
	if x.Quorum.Orphans == 0 {
		c.orphans = time.Time{}
	} else if c.orphans.IsZero() {
		c.orphans = f.Now
	}
	if !c.orphans.IsZero() {
		x.Quorum.Orphaned = f.Now.Sub(c.orphans)
	}
	x.Leaderless = slices.DeleteFunc(x.Leaderless, func(l checks.Leaderless) bool {
		return l.Why == checks.Elected && f.Now.Sub(c.stuck[key(&l)]) < electedWithin
	})
	f.Cluster = x
}

// brokers adds the registered brokers, the replicas that are not in sync, and the partitions
// without a leader.
func (c *ClusterFacts) brokers(img *metadata.Image, x *checks.Cluster) {
	at := map[int32]int{}
	for i, b := range img.Brokers() {
		state, _ := img.State(b.ID)
		at[b.ID] = i
		seen := checks.Broker{ID: b.ID, State: state.Liveness.String()}
		for _, d := range state.Unable {
			switch d.Why {
			case metadata.DirFailed:
				seen.FailedDirs++
			case metadata.DirHung:
				seen.HungDirs++
			case metadata.DirLow:
				seen.LowDirs++
			}
		}
		for _, tp := range state.Damaged {
			if t := img.TopicByID(tp.Topic); t != nil {
				seen.Damaged.Add(t.Name, tp.Partition)
				if p := t.Partitions.At(tp.Partition); p != nil && p.Leader == b.ID {
					seen.Last.Add(t.Name, tp.Partition)
				}
			}
		}
		x.Brokers = append(x.Brokers, seen)
	}
	groups := map[string]*checks.Leaderless{}
	for t := range img.Topics() {
		for i, p := range t.Partitions.All() {
			if b, led := at[p.Leader]; led && !t.Internal && !writes(img, p.Leader, metadata.TopicPartition{Topic: t.ID, Partition: i}) {
				x.Brokers[b].Full.Add(t.Name, i)
			}
			switch {
			case p.Leader < 0:
				l := leaderless(img, metadata.TopicPartition{Topic: t.ID, Partition: i}, p)
				k := key(&l)
				if groups[k] == nil {
					groups[k] = &l
				}
				groups[k].Add(t.Name, i)
			case len(p.ISR) < len(p.Replicas):
				least := c.MinISR(img, t, p)
				for _, id := range p.Replicas {
					b, known := at[id]
					if !known || slices.Contains(p.ISR, id) || slices.Contains(p.Adding, id) {
						continue
					}
					x.Brokers[b].Behind.Add(t.Name, i)
					switch {
					case len(p.ISR) < least:
						x.Brokers[b].Refusing.Add(t.Name, i)
					case len(p.ISR) == least && least > 1:
						x.Brokers[b].Limit++
					}
				}
			}
		}
	}
	now, stuck := time.Now(), map[string]time.Time{}
	for _, k := range slices.Sorted(maps.Keys(groups)) {
		x.Leaderless = append(x.Leaderless, *groups[k])
		stuck[k] = now
		if since, ok := c.stuck[k]; ok {
			stuck[k] = since
		}
	}
	c.stuck = stuck
}

// key identifies a group of partitions without a leader.
func key(l *checks.Leaderless) string { return string(l.Why) + " " + text.Numbers(l.Brokers) }

// leaderless returns why a partition has no leader; its name is not added.
func leaderless(img *metadata.Image, tp metadata.TopicPartition, p *metadata.Partition) checks.Leaderless {
	could := slices.Concat(p.ISR, p.ELR)
	if len(could) == 0 {
		switch {
		case p.Last.IsZero():
			return checks.Leaderless{Why: checks.ForDirectory, Brokers: p.Replicas}
		case p.Last.Lossy:
			return checks.Leaderless{Why: checks.Lossy, Brokers: absent(img, p.Replicas)}
		}
		could = []int32{p.Last.Broker}
	}
	slices.Sort(could)
	for _, id := range could {
		if active(img, id) && hasLog(img, id, tp) {
			return checks.Leaderless{Why: checks.Elected, Brokers: could}
		}
	}
	if away := absent(img, could); len(away) > 0 {
		return checks.Leaderless{Why: checks.ForBrokers, Brokers: away}
	}
	return checks.Leaderless{Why: checks.ForDirectory, Brokers: could}
}

func active(img *metadata.Image, broker int32) bool {
	state, _ := img.Liveness(broker)
	return state == metadata.Active
}

func absent(img *metadata.Image, brokers []int32) (list []int32) {
	for _, id := range brokers {
		if !active(img, id) {
			list = append(list, id)
		}
	}
	return list
}

// hasLog reports whether the log directory with a broker's replica is registered and works, and the
// log is intact.
func hasLog(img *metadata.Image, broker int32, tp metadata.TopicPartition) bool {
	dir, placed := img.Placement(broker, tp)
	b, ok := img.Broker(broker)
	if !placed || !ok {
		return false
	}
	if p := img.Partition(tp); !p.Last.IsZero() && p.Last.Broker == broker && p.Last.Dir != dir {
		return false
	}
	state, _ := img.State(broker)
	works, _ := b.Able(&state, dir)
	return works && !slices.Contains(state.Damaged, tp)
}

// writes reports whether the log directory of a broker's replica takes records of clients.
func writes(img *metadata.Image, broker int32, tp metadata.TopicPartition) bool {
	b, _ := img.Broker(broker)
	state, _ := img.State(broker)
	dir, _ := img.Placement(broker, tp)
	_, writes := b.Able(&state, dir)
	return writes
}

// uncleanElections adds the recent ones, and forgets the others.
func (c *ClusterFacts) uncleanElections(img *metadata.Image, x *checks.Cluster, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []metadata.TopicPartition
	for tp, at := range c.unclean {
		if now.Sub(at) >= uncleanFor || img.Partition(tp) == nil {
			delete(c.unclean, tp)
			continue
		}
		list = append(list, tp)
	}
	slices.SortFunc(list, func(a, b metadata.TopicPartition) int {
		return cmp.Or(strings.Compare(img.TopicByID(a.Topic).Name, img.TopicByID(b.Topic).Name), cmp.Compare(a.Partition, b.Partition))
	})
	for _, tp := range list {
		x.Unclean.Add(img.TopicByID(tp.Topic).Name, tp.Partition)
	}
}
