// Package move plans moves of replicas and of preferred leaders, and carries them out, for the
// commands topic and broker.
//
// A Plan starts from the cluster as it is, with the moves in progress as if they were complete. So
// a command that was interrupted continues if it is run again. run.go requests a bounded number of
// moves at a time and waits for the copies; throttle.go bounds their rate. It needs only Kafka's
// protocol.
package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Plan chooses brokers for replicas. Of several, it chooses one in a rack that has no replica of
// the partition, then the one with the fewest replicas.
type Plan struct {
	brokers kadm.BrokerDetails // that are active and have log directories
	drained []int32            // of these, the ones that get no replicas
	load    map[int32]int      // replicas by broker, with those that are planned
	parts   []*part            // of all topics, by topic and number
	moving  kadm.ListPartitionReassignmentsResponses
	sizes   map[partition]int64
	// topics are those that the command is about: it waits for their moves in progress.
	topics map[string]bool
	// elects are partitions whose preferred leaders are to lead although nothing moves.
	elects []partition
	unable []int32 // see Unable
}

type partition struct {
	topic string
	n     int32
}

func (p partition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.n) }

// part is a partition with its replicas, the preferred leader first: those that it has when the
// move in progress is complete, and those that are planned.
type part struct {
	partition
	was, to  []int32
	isr      []int32
	leader   int32
	internal bool
}

// Move is a planned move.
type Move struct {
	partition
	from, to []int32
	bytes    int64 // of one replica; -1 if unknown
	seen     int   // how often the metadata did not show it as complete, although it is not in progress
}

// adds returns the brokers that copy the log.
func (m *Move) adds() []int32 {
	return without(m.to, m.from)
}

// without returns the members of a that are not in b.
func without(a, b []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(a), func(x int32) bool { return slices.Contains(b, x) })
}

// exceeded reports whether a partition got the replicas of the move, and others: the controller
// raises the number of replicas of internal topics when brokers join.
func (m *Move) exceeded(replicas []int32) bool {
	for _, b := range m.to {
		if !slices.Contains(replicas, b) {
			return false
		}
	}
	return len(m.adds()) > 0 && len(replicas) > len(m.to)
}

// copies returns the bytes that are copied.
func (m *Move) copies() int64 { return max(0, m.bytes) * int64(len(m.adds())) }

// change returns what the move changes.
func (m *Move) change() string {
	fewer := ""
	if len(m.to) < len(m.from) {
		fewer = fmt.Sprintf(", %s instead of %d", text.Count(len(m.to), "replica"), len(m.from))
	}
	if adds := m.adds(); len(adds) > 0 {
		size := "bytes unknown"
		if m.bytes >= 0 {
			size = text.Bytes(m.copies()) + " to copy"
		}
		return fmt.Sprintf("from brokers %s to %s, %s%s", text.Numbers(m.from), text.Numbers(m.to), size, fewer)
	}
	if fewer != "" {
		return fmt.Sprintf("from brokers %s to %s, nothing to copy%s", text.Numbers(m.from), text.Numbers(m.to), fewer)
	}
	return fmt.Sprintf("preferred leader from broker %d to %d, nothing to copy", m.from[0], m.to[0])
}

// Waits returns for how many moves a run waits: those that are planned, and those in progress of
// the topics that the plan is about.
func (p *Plan) Waits() int { return len(p.Moves()) + len(p.inProgress()) }

// inProgress returns the partitions of the topics that the plan is about which are being moved, and
// for which it has no other move.
func (p *Plan) inProgress() (list []partition) {
	for _, x := range p.parts {
		if _, moves := p.moving[x.topic][x.n]; moves && p.topics[x.topic] && slices.Equal(x.was, x.to) {
			list = append(list, x.partition)
		}
	}
	return list
}

// Fewer returns the planned moves that leave a partition with fewer replicas than it has, as lines
// for people.
func (p *Plan) Fewer() (list []string) {
	for _, m := range p.Moves() {
		if len(m.to) < len(m.from) {
			list = append(list, m.String()+": "+m.change())
		}
	}
	return list
}

// Read returns an empty plan for the cluster as it is now.
func Read(ctx context.Context, adm *kadm.Client) (*Plan, kadm.Metadata, error) {
	m, err := adm.Metadata(ctx)
	if err != nil {
		return nil, m, app.Refused("read the metadata", app.BrokerError(err), "")
	}
	moves, err := app.Moves(ctx, adm)
	if err != nil {
		return nil, m, err
	}
	p := newPlan(m, moves)
	p.drained = Drained(ctx, adm, m)
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	p.brokers = slices.DeleteFunc(slices.Clone(p.brokers), func(b kadm.BrokerDetail) bool {
		has, answered := dirs[b.NodeID]
		return answered && len(has) == 0 // it only votes
	})
	if app.RequestFailed(err) != nil {
		return p, m, nil // the sizes are only additional information
	}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(x kadm.DescribedLogDirPartition) {
			if d.Err == nil && !x.IsFuture {
				at := partition{x.Topic, x.Partition}
				p.sizes[at] = max(p.sizes[at], x.Size)
			}
		})
	})
	return p, m, nil
}

// Drained returns the active brokers that get no replicas. Without the right to read their configs,
// these are none; the controller refuses what would place one there.
func Drained(ctx context.Context, adm *kadm.Client, m kadm.Metadata) (drained []int32) {
	all, _ := adm.DescribeBrokerConfigs(ctx, m.Brokers.NodeIDs()...)
	for _, r := range all {
		id, err := strconv.ParseInt(r.Name, 10, 32)
		for _, kv := range r.Configs {
			if err == nil && kv.Key == TakesReplicas && kv.MaybeValue() == "false" {
				drained = append(drained, int32(id))
			}
		}
	}
	return drained
}

// TakesReplicas is the broker config that broker drain sets.
const TakesReplicas = "broker.takes.replicas"

// newPlan returns an empty plan. The metadata must have all topics, and moves all reassignments in
// progress.
func newPlan(m kadm.Metadata, moves kadm.ListPartitionReassignmentsResponses) *Plan {
	p := &Plan{brokers: m.Brokers, load: map[int32]int{}, moving: moves, sizes: map[partition]int64{}, topics: map[string]bool{}}
	for _, t := range m.Topics.Sorted() {
		for _, x := range t.Partitions.Sorted() {
			if len(x.Replicas) == 0 {
				continue
			}
			leaving := moves[t.Topic][x.Partition].RemovingReplicas
			was := without(x.Replicas, leaving)
			p.parts = append(p.parts, &part{partition: partition{t.Topic, x.Partition}, was: was, to: slices.Clone(was), isr: x.ISR,
				leader: x.Leader, internal: t.IsInternal})
			for _, r := range was {
				p.load[r]++
			}
		}
	}
	return p
}

// of returns the partitions of a topic, and makes the plan about it.
func (p *Plan) of(topic string) (parts []*part) {
	p.topics[topic] = true
	for _, x := range p.parts {
		if x.topic == topic {
			parts = append(parts, x)
		}
	}
	return parts
}

// Moves returns what is planned, those first that copy nothing.
func (p *Plan) Moves() (moves []Move) {
	for _, x := range p.parts {
		if slices.Equal(x.was, x.to) {
			continue
		}
		size, ok := p.sizes[x.partition]
		if !ok {
			size = -1
		}
		moves = append(moves, Move{partition: x.partition, from: x.was, to: x.to, bytes: size})
	}
	sorts.SortStable(moves, func(a, b Move) int { return cmp.Compare(min(1, len(a.adds())), min(1, len(b.adds()))) })
	return moves
}

// Takes reports whether a broker is active and has log directories.
func (p *Plan) Takes(broker int32) bool { return p.active(broker) }

// Drained reports whether a broker gets no replicas, as broker drain has asked for.
func (p *Plan) Drained(broker int32) bool { return slices.Contains(p.drained, broker) }

func (p *Plan) active(broker int32) bool {
	return slices.ContainsFunc(p.brokers, func(b kadm.BrokerDetail) bool { return b.NodeID == broker })
}

// rack returns the rack of an active broker, "" if it has none.
func (p *Plan) rack(broker int32) string {
	for _, b := range p.brokers {
		if b.NodeID == broker && b.Rack != nil {
			return *b.Rack
		}
	}
	return ""
}

// shares reports whether a broker is in the rack of one of some others.
func (p *Plan) shares(broker int32, others []int32) bool {
	rack := p.rack(broker)
	return rack != "" && slices.ContainsFunc(others, func(o int32) bool { return o != broker && p.rack(o) == rack })
}

// SetFactor plans a number of replicas for each partition of a topic. It removes replicas first on
// brokers that are not active or drained, then in racks with several, then on the broker that has
// the most; the preferred leader stays if its broker is active.
func (p *Plan) SetFactor(topic string, factor int) error {
	for _, x := range p.of(topic) {
		for len(x.to) > factor {
			gone := p.surplus(x.to)
			p.load[x.to[gone]]--
			x.to = slices.Delete(x.to, gone, gone+1)
		}
		for len(x.to) < factor {
			next, ok := p.choose(x.to, -1)
			if !ok {
				return fmt.Errorf("%s cannot have %s: only %s can be chosen; start more brokers, or give a lower number%s", topic,
					text.Count(factor, "replica"), text.Count(p.takers(), "active broker"), orEnd(p.drained))
			}
			x.to = append(x.to, next)
		}
	}
	return nil
}

// takers returns how many active brokers get replicas.
func (p *Plan) takers() (n int) {
	for _, b := range p.brokers {
		if !p.Drained(b.NodeID) {
			n++
		}
	}
	return n
}

// orEnd returns the remedy that some drained brokers get replicas again.
func orEnd(drained []int32) string {
	if len(drained) == 0 {
		return ""
	}
	ids := strings.ReplaceAll(text.Numbers(drained), ",", " ")
	return fmt.Sprintf(", or let drained brokers get replicas again with chronikctl broker drain %s --end", ids)
}

// surplus returns the index of the replica to remove.
func (p *Plan) surplus(replicas []int32) int {
	worth := func(i int) int {
		b := replicas[i]
		switch {
		case !p.active(b) || p.Drained(b):
			return 0
		case i == 0:
			return 3
		case p.shares(b, replicas):
			return 1
		}
		return 2
	}
	gone := len(replicas) - 1
	for i := gone - 1; i >= 0; i-- {
		if c := cmp.Or(worth(i)-worth(gone), p.load[replicas[gone]]-p.load[replicas[i]]); c < 0 {
			gone = i
		}
	}
	return gone
}

// Leave plans the move of all replicas from brokers to others, which are none of them.
func (p *Plan) Leave(brokers ...int32) error {
	before := slices.Clone(p.drained)
	p.drained = append(p.drained, brokers...)
	if p.takers() == 0 {
		return fmt.Errorf("no other active broker would take replicas; start another broker%s", orEnd(before))
	}
	var left []stuck
	for _, b := range brokers {
		left = p.leave(b, left)
	}
	return p.noTaker(left)
}

// stuck is the first partition of a topic with a replica that no other broker can take.
type stuck struct {
	*part
	broker int32
}

// leave plans the moves from one broker, and appends the topics for which there is no other.
func (p *Plan) leave(broker int32, left []stuck) []stuck {
	for _, x := range p.parts {
		p.topics[x.topic] = p.topics[x.topic] || slices.Contains(p.moving[x.topic][x.n].RemovingReplicas, broker)
		at := slices.Index(x.to, broker)
		if at < 0 {
			continue
		}
		p.topics[x.topic] = true
		switch next, ok := p.choose(x.to, broker); {
		case ok:
			x.to[at] = next
		case !slices.ContainsFunc(left, func(s stuck) bool { return s.topic == x.topic }):
			left = append(left, stuck{x, broker})
		}
	}
	return left
}

// noTaker returns the error for topics that cannot leave a broker, nil for none. With as many
// replicas as there are brokers that take some, each of them can.
func (p *Plan) noTaker(left []stuck) error {
	if len(left) == 0 {
		return nil
	}
	one, most := left[0], p.takers()
	said := fmt.Sprintf("%s has %s, and there is no other active broker for the one on broker %d; start another broker, "+
		"or reduce the replicas with chronikctl topic alter %s --replication-factor %d",
		one.topic, text.Count(len(one.to), "replica"), one.broker, one.topic, most)
	const named = 3
	var others []string
	for _, s := range left[1:] {
		others = append(others, s.topic)
	}
	switch n := len(others); {
	case n > named:
		said += fmt.Sprintf("; %d other topics need the same: %s and %d more", n, strings.Join(others[:named], ", "), n-named)
	case n > 0:
		said += fmt.Sprintf("; %s the same: %s", text.Plural(n, "other topic needs", "other topics need"), strings.Join(others, ", "))
	}
	return errors.New(said)
}

// Set plans the replicas of a partition, the preferred leader first.
func (p *Plan) Set(topic string, n int32, replicas []int32) error {
	for _, x := range p.of(topic) {
		if x.n == n {
			x.to = replicas
			return nil
		}
	}
	return fmt.Errorf("%s has no partition %d", topic, n)
}

// choose returns the broker for one more replica, which is not the one to leave.
func (p *Plan) choose(replicas []int32, leave int32) (best int32, ok bool) {
	stay := slices.DeleteFunc(slices.Clone(replicas), func(r int32) bool { return r == leave })
	var free []int32
	for _, b := range p.brokers {
		if b.NodeID != leave && !p.Drained(b.NodeID) && !slices.Contains(replicas, b.NodeID) {
			free = append(free, b.NodeID)
		}
	}
	if len(free) == 0 {
		return 0, false
	}
	taken := func(b int32) int {
		if p.shares(b, stay) {
			return 1
		}
		return 0
	}
	best = slices.MinFunc(free, func(a, b int32) int {
		return cmp.Or(taken(a)-taken(b), p.load[a]-p.load[b], int(a)-int(b))
	})
	p.load[best]++
	return best, true
}
