package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/view"
)

// Cluster reads what a broker knows of its cluster. It is safe for concurrent use.
type Cluster struct {
	Self   int32
	Image  func() *metadata.Image
	MinISR func(*metadata.Image, *metadata.Topic, *metadata.Partition) int
	// Lags returns what the followers of this broker lack.
	Lags func() map[int32]replica.Lag
	// Member sets what the metadata does not show: the quorum, the lease, the metadata leader's
	// clock, and the replicas that have stopped. It must not wait for the metadata store. It is
	// nil for a broker without a cluster.
	Member func(*metadata.Image, *view.Cluster)
	// Log has the unclean elections. Only Follow needs it.
	Log *zap.Logger
	// Elections counts new leader epochs by where the leader comes from, and ISRChanges changes of
	// the ISRs of partitions that this broker leads, by kind. Only Follow needs them.
	Elections, ISRChanges *prometheus.CounterVec
	// Changed is called with the revision of metadata that have a change of brokers, before Image
	// shows them. It must not block. Nil: nothing is.
	Changed func(revision int64)

	mu      sync.Mutex
	last    *survey              // the newest one
	stuck   map[string]time.Time // since when partitions wait, by their reason
	orphans time.Time            // since when there are voters without a broker
}

// View returns what the broker knows now.
func (c *Cluster) View() *view.Cluster {
	x := c.at(time.Now())
	c.addLags(x)
	return x
}

// Facts is a checks.Source of a member of a cluster. It leaves out what followers lack, for which
// it would have to read each partition: no check is about that.
func (c *Cluster) Facts(f *checks.Facts) { f.Cluster = c.at(f.Now) }

func (c *Cluster) at(now time.Time) *view.Cluster {
	img := c.Image()
	x := &view.Cluster{Self: c.Self, Revision: img.Version()}
	if at := img.Recovered(); at.UnixMilli() > 0 {
		x.Recovered = at.UTC()
	}
	if c.Member != nil {
		c.Member(img, x)
	}
	s := c.surveyOf(img, x)
	s.show(x)
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.Quorum.Orphans == 0 {
		c.orphans = time.Time{}
	} else if c.orphans.IsZero() {
		c.orphans = now
	}
	if !c.orphans.IsZero() {
		x.Quorum.Orphaned = now.Sub(c.orphans)
	}
	stuck := map[string]time.Time{}
	for _, k := range slices.Sorted(maps.Keys(s.groups)) {
		stuck[k] = now
		if since, ok := c.stuck[k]; ok {
			stuck[k] = since
		}
		l := *s.groups[k]
		l.For = now.Sub(stuck[k])
		x.Leaderless = append(x.Leaderless, l)
	}
	c.stuck = stuck
	return x
}

// survey is what one image says about brokers and partitions. It is made once, because it reads
// each partition, and it is not changed afterwards.
type survey struct {
	c      *Cluster
	img    *metadata.Image
	away   []int32 // the brokers that this one does not reach, sorted
	x      view.Cluster
	at     map[int32]int // in x.Brokers, by id
	regs   []metadata.Broker
	states []metadata.BrokerState
	groups map[string]*view.Leaderless // by key
}

// surveyOf returns the survey of an image. now has what this broker knows of the others.
func (c *Cluster) surveyOf(img *metadata.Image, now *view.Cluster) *survey {
	away := slices.Clone(now.Quorum.Away)
	for _, x := range now.Unreached {
		away = append(away, x.Broker)
	}
	slices.Sort(away)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.last; s != nil && s.img == img && slices.Equal(s.away, away) {
		return s
	}
	s := &survey{c: c, img: img, away: away, at: map[int32]int{}, groups: map[string]*view.Leaderless{}}
	s.x.ISR = map[int]int{}
	s.brokers()
	s.listeners()
	s.partitions()
	c.last = s
	return s
}

// show adds the survey to what is known now. It adds nothing to the lists that both share.
func (s *survey) show(x *view.Cluster) {
	x.Brokers, x.Uncommon = slices.Clone(s.x.Brokers), s.x.Uncommon
	x.Unclean, x.Moving = s.x.Unclean, s.x.Moving
	x.Partitions, x.Apart = s.x.Partitions, s.x.Apart
	x.ISR, x.Eligible = s.x.ISR, s.x.Eligible
}

// addLags adds what the followers of this broker lack now.
func (c *Cluster) addLags(x *view.Cluster) {
	if c.Lags == nil {
		return
	}
	lags := c.Lags()
	for i := range x.Brokers {
		b := &x.Brokers[i]
		var lag replica.Lag
		lag, b.Follows = lags[b.ID]
		b.Lag = view.Lag{Records: lag.Records, Ms: lag.Longest.Milliseconds()}
	}
}

// brokers adds the registered brokers.
func (s *survey) brokers() {
	none := view.Partitions{Names: []string{}} // also a list in JSON
	for i, b := range s.img.Brokers() {
		state, _ := s.img.State(b.ID)
		s.at[b.ID], s.regs, s.states = i, append(s.regs, b), append(s.states, state)
		seen := view.Broker{ID: b.ID, State: state.Liveness.String(), VotesOnly: b.Votes(),
			OutOfSync: none, BelowMin: none, Full: none, Damaged: none, LastDamaged: none,
			SoleDamaged: none}
		if len(b.Listeners) > 0 {
			seen.Address = address(b.Listeners[0].Host, b.Listeners[0].Port)
		}
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
			if t := s.img.TopicByID(tp.Topic); t != nil {
				seen.Damaged.Add(t.Name, tp.Partition)
				switch p := t.Partitions.At(tp.Partition); {
				case p == nil:
				case len(p.Replicas) == 1:
					seen.SoleDamaged.Add(t.Name, tp.Partition)
				case p.Leader == b.ID:
					seen.LastDamaged.Add(t.Name, tp.Partition)
				}
			}
		}
		s.x.Brokers = append(s.x.Brokers, seen)
	}
}

// listeners adds the listeners that not all active brokers have. Brokers that only vote lead
// nothing, so clients need not learn them. A broker that has run alone has registered no listeners,
// and registers again when it starts in the cluster. Listeners that forward are not registered:
// they name all brokers with their own address.
func (s *survey) listeners() {
	var active []*metadata.Broker
	names := map[string]bool{}
	for i := range s.regs {
		if b := &s.regs[i]; s.states[i].Liveness == metadata.Active && !b.Votes() && len(b.Listeners) > 0 {
			active = append(active, b)
			for _, l := range b.Listeners {
				names[l.Listener] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		l := view.Listener{Name: name}
		for _, b := range active {
			if _, has := b.Endpoint(name); has {
				l.On = append(l.On, b.ID)
			} else {
				l.Lacks = append(l.Lacks, b.ID)
			}
		}
		if len(l.Lacks) > 0 {
			s.x.Uncommon = append(s.x.Uncommon, l)
		}
	}
}

// address joins a host and a port; an IPv6 address gets brackets.
func address[P ~uint16 | ~int32 | ~int](host string, port P) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// partitions adds the partitions to their brokers, and those without a leader.
func (s *survey) partitions() {
	for t := range s.img.Topics() {
		for i, p := range t.Partitions.All() {
			s.x.Partitions++
			if p.Lost() {
				s.x.Unclean.Add(t.Name, i)
			}
			if p.Leader < 0 || len(p.ISR) < s.c.MinISR(s.img, t, p) || slices.ContainsFunc(p.ISR, s.apart) {
				s.x.Apart++
			}
			if len(p.Adding)+len(p.Removing) > 0 {
				s.x.Moving++
			}
			for _, id := range p.Replicas {
				if b, known := s.at[id]; known {
					s.x.Brokers[b].Replicas++
				}
			}
			if p.Leader < 0 {
				l := leaderless(s.img, metadata.TopicPartition{Topic: t.ID, Partition: i}, p)
				k := key(&l)
				if s.groups[k] == nil {
					s.groups[k] = &l
				}
				s.groups[k].Add(t.Name, i)
				continue
			}
			s.led(t, i, p)
		}
	}
}

// apart reports whether this broker does not reach another one.
func (s *survey) apart(broker int32) bool { return slices.Contains(s.away, broker) }

// led adds a partition with a leader.
func (s *survey) led(t *metadata.Topic, index int32, p *metadata.Partition) {
	leader := new(view.Broker) // not registered
	if b, known := s.at[p.Leader]; known {
		leader = &s.x.Brokers[b]
		dir, _ := s.img.Placement(p.Leader, metadata.TopicPartition{Topic: t.ID, Partition: index})
		if _, writes := s.regs[b].Able(&s.states[b], dir); !writes && !t.Internal {
			leader.Full.Add(t.Name, index)
		}
	}
	leader.Leads++
	if p.Leader == s.c.Self {
		s.x.ISR[len(p.ISR)]++
		if len(p.ELR) > 0 {
			s.x.Eligible++
		}
	}
	if len(p.ISR) >= len(p.Replicas) {
		return
	}
	least := s.c.MinISR(s.img, t, p)
	if len(p.ISR) < least {
		leader.UnderMinISR++
	}
	missing := false
	for _, id := range p.Replicas {
		if slices.Contains(p.ISR, id) || slices.Contains(p.Adding, id) {
			continue
		}
		missing = true
		b, known := s.at[id]
		if !known {
			continue
		}
		s.x.Brokers[b].OutOfSync.Add(t.Name, index)
		s.awaits(id, p.Leader, metadata.TopicPartition{Topic: t.ID, Partition: index})
		switch {
		case len(p.ISR) < least:
			s.x.Brokers[b].BelowMin.Add(t.Name, index)
		case len(p.ISR) == least && least > 1:
			s.x.Brokers[b].AtMin++
		}
	}
	if missing {
		leader.UnderReplicated++
	}
}

// awaits notes that a replica is not in sync with a leader, see view.Broker.Awaits.
func (s *survey) awaits(broker, leader int32, tp metadata.TopicPartition) {
	b := &s.x.Brokers[s.at[broker]]
	at, known := s.at[leader]
	damaged := known && slices.Contains(s.states[at].Damaged, tp)
	switch first := b.OutOfSync.Count == 1; {
	case b.State != metadata.Active.String(), !damaged, !first && len(b.Awaits) == 0:
		b.Awaits = nil
	case !slices.Contains(b.Awaits, leader):
		b.Awaits = append(b.Awaits, leader)
	}
}
