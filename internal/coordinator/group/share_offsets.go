package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/sorts"
)

// What administrators do with the positions of share groups. The positions are in the states of
// share coordinators: the group only knows which states exist.

// ShareStates asks which states of share groups exist. The response is a []StatesOf, in the order
// of the groups.
type ShareStates struct {
	Groups []string
}

// StatesOf has the states of a group; none if it does not exist, or is no share group. A caller
// that gets no response sets Err.
type StatesOf struct {
	Topics []ShareTopic // sorted by name
	Err    *kerr.Error
}

// ShareTopic has the partitions of a topic for which a share coordinator has a state.
type ShareTopic struct {
	ID         assign.TopicID
	Name       string
	Partitions []int32 // sorted
}

func (s *Shard) shareStates(e ShareStates) []StatesOf {
	all := make([]StatesOf, len(e.Groups))
	for i, id := range e.Groups {
		g := s.groups[id]
		if g == nil || g.share() == nil {
			continue
		}
		for _, t := range recordedStates(g.share().states.initialized) {
			all[i].Topics = append(all[i].Topics, ShareTopic{t.ID, t.Name, slices.Clone(t.Partitions)})
		}
		sorts.Sort(all[i].Topics, func(a, b ShareTopic) int { return strings.Compare(a.Name, b.Name) })
	}
	return all
}

// alteration is an AlterShareGroupOffsets that waits for share coordinators.
type alteration struct {
	to    coordinator.Ticket
	epoch int32 // of the states that it begins
	resp  *kmsg.AlterShareGroupOffsetsResponse
	// left has the answers of partitions without a result.
	left map[SharePartition]*kmsg.AlterShareGroupOffsetsResponseTopicPartition
}

// alterShares begins states of a group without members at the offsets of a request. They are
// recorded before they are asked for, as those of subscribed partitions are. The group is created
// if there is none, as in Kafka. Its epoch grows, so that no two states of a partition have the
// same.
func (s *Shard) alterShares(to coordinator.Ticket, req *kmsg.AlterShareGroupOffsetsRequest) {
	a := &alteration{to: to, resp: kmsg.NewPtrAlterShareGroupOffsetsResponse(),
		left: map[SharePartition]*kmsg.AlterShareGroupOffsetsResponseTopicPartition{}}
	a.resp.Version = req.Version
	f := s.beginAlteration(a, req)
	if f != nil {
		a.resp = Refuse(req, f.code).(*kmsg.AlterShareGroupOffsetsResponse)
		a.resp.ErrorMessage = f.text()
	}
	if f != nil || len(a.left) == 0 {
		s.out.Reply(to, a.resp)
	}
}

func (s *Shard) beginAlteration(a *alteration, req *kmsg.AlterShareGroupOffsetsRequest) *failure {
	switch {
	case req.GroupID == "":
		return refuse(kerr.InvalidGroupID)
	case s.topicsUnknown():
		return refuse(kerr.CoordinatorLoadInProgress)
	}
	starts, order, f := s.altered(a, req)
	if f != nil || len(order) == 0 {
		return f
	}
	g := s.groups[req.GroupID]
	c := newShare()
	if g != nil {
		if c = g.share(); c == nil {
			return fail(kerr.GroupIDNotFound, "Group %s is not a share group.", g.id)
		}
	}
	if !c.empty() {
		return notEmpty(req.GroupID)
	}
	next := c.states.clone()
	for _, p := range order {
		_, asked := c.asked[p.Topic][p.Partition]
		if _, deleting := c.states.deleting[p.Topic]; asked || deleting {
			return fail(kerr.CoordinatorLoadInProgress, "The states of share group %s are changing; try again later.", req.GroupID)
		}
		if !c.states.initialized[p.Topic].has(p.Partition) {
			topic, _ := s.topics.ByID(p.Topic)
			put(next.initializing, p.Topic, topic.Name, p.Partition)
		}
	}
	if more := next.weight() - c.states.weight(); more > 0 && !s.hasMemory(more) {
		return fail(kerr.CoordinatorLoadInProgress, "The memory limit for groups is reached; try again later.")
	}
	if len(next.recorded().Encode()) > s.cfg.MaxRecord {
		return fail(kerr.InvalidRequest, "Share group %s has too many partitions for a record of %d bytes.", req.GroupID, s.cfg.MaxRecord)
	}
	if g == nil {
		g = s.group(req.GroupID)
		g.kind = c
	}
	a.epoch = max(c.epoch, 1) + 1
	s.emit(format.Key{Type: format.TypeShare, Group: g.id}, format.Share{Epoch: a.epoch, Hash: c.hash})
	s.emit(format.Key{Type: format.TypeShareEpoch, Group: g.id}, format.TargetEpoch{Epoch: a.epoch})
	s.recordStates(g, &next)
	c.alterations = append(c.alterations, a)
	s.ask(g, order, func(list []SharePartition) any {
		e := InitializeShares{Group: g.id, StateEpoch: a.epoch, Partitions: list, Starts: make([]int64, len(list))}
		for i, p := range list {
			e.Starts[i] = starts[p]
		}
		return e
	})
	return nil
}

// altered returns the offsets of the partitions that exist, and these in order. The others get an
// error.
func (s *Shard) altered(a *alteration, req *kmsg.AlterShareGroupOffsetsRequest) (starts map[SharePartition]int64, order []SharePartition,
	f *failure,
) {
	starts = map[SharePartition]int64{}
	a.resp.Topics = make([]kmsg.AlterShareGroupOffsetsResponseTopic, len(req.Topics))
	for i := range req.Topics {
		t, out := &req.Topics[i], &a.resp.Topics[i]
		topic, exists := s.topics.ByName(t.Topic)
		exists = exists && !topic.Internal
		out.Topic, out.TopicID = t.Topic, topic.ID
		out.Partitions = make([]kmsg.AlterShareGroupOffsetsResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p, one := &t.Partitions[j], &out.Partitions[j]
			one.Partition = p.Partition
			key := SharePartition{topic.ID, p.Partition}
			if _, twice := starts[key]; twice && exists {
				return nil, nil, fail(kerr.InvalidRequest, "Partition %d of topic %s is named twice.", p.Partition, t.Topic)
			}
			switch {
			case !exists || p.Partition < 0 || p.Partition >= topic.Partitions:
				setAltered(one, refuse(kerr.UnknownTopicOrPartition))
			case p.StartOffset < 0:
				setAltered(one, fail(kerr.InvalidRequest, "The start offset %d is negative.", p.StartOffset))
			default:
				starts[key], a.left[key] = p.StartOffset, one
				order = append(order, key)
			}
		}
	}
	return starts, order, nil
}

func setAltered(p *kmsg.AlterShareGroupOffsetsResponseTopicPartition, f *failure) {
	p.ErrorCode, p.ErrorMessage = f.errorCode(), f.text()
}

// text is message, with Kafka's description of the error if there is no other text.
func (f *failure) text() *string {
	if f != nil && f.msg == "" {
		return kmsg.StringPtr(f.code.Description)
	}
	return f.message()
}

// noteAltered notes results of alterations, and answers those that have all of theirs.
func (s *Shard) noteAltered(c *share, e SharesInitialized) {
	if e.Starts == nil {
		return
	}
	for _, a := range c.alterations {
		for i, p := range e.Partitions {
			one := a.left[p]
			if one == nil || a.epoch != e.StateEpoch {
				continue
			}
			if e.Errs[i] != nil {
				setAltered(one, refuse(e.Errs[i]))
			}
			delete(a.left, p)
		}
	}
	c.alterations = slices.DeleteFunc(c.alterations, func(a *alteration) bool {
		if len(a.left) > 0 {
			return false
		}
		s.out.Reply(a.to, a.resp)
		return true
	})
}

// removal is a DeleteShareGroupOffsets that waits for share coordinators.
type removal struct {
	to   coordinator.Ticket
	resp *kmsg.DeleteShareGroupOffsetsResponse
	// left has the answers of topics without a result.
	left map[assign.TopicID][]*kmsg.DeleteShareGroupOffsetsResponseTopic
}

// deleteShareOffsets deletes the states of topics of a group without members.
func (s *Shard) deleteShareOffsets(to coordinator.Ticket, req *kmsg.DeleteShareGroupOffsetsRequest) {
	g, f := s.shareOfRemoval(req.GroupID)
	if f != nil {
		resp := Refuse(req, f.code).(*kmsg.DeleteShareGroupOffsetsResponse)
		resp.ErrorMessage = f.text()
		s.out.Reply(to, resp)
		return
	}
	c := g.share()
	r := &removal{to: to, resp: kmsg.NewPtrDeleteShareGroupOffsetsResponse(),
		left: map[assign.TopicID][]*kmsg.DeleteShareGroupOffsetsResponseTopic{}}
	r.resp.Version, r.resp.Topics = req.Version, make([]kmsg.DeleteShareGroupOffsetsResponseTopic, len(req.Topics))
	for i := range req.Topics {
		out := &r.resp.Topics[i]
		out.Topic = req.Topics[i].Topic
		topic, exists := s.topics.ByName(out.Topic)
		if !exists {
			setRemoved(out, refuse(kerr.UnknownTopicOrPartition))
			continue
		}
		if _, deleting := c.states.deleting[topic.ID]; !deleting && !c.states.names(topic.ID) {
			setRemoved(out, fail(kerr.UnknownTopicOrPartition, "There is no offset information to delete."))
			continue
		}
		out.TopicID = topic.ID
		r.left[topic.ID] = append(r.left[topic.ID], out)
	}
	if len(r.left) == 0 {
		s.out.Reply(to, r.resp)
		return
	}
	c.removals = append(c.removals, r)
	s.recordDeleting(g, func(id assign.TopicID) bool { return r.left[id] != nil })
	s.sendNow(g)
}

// shareOfRemoval returns the group whose offsets may be deleted.
func (s *Shard) shareOfRemoval(id string) (*group, *failure) {
	c, f := named(s, id, (*group).share, "share")
	switch {
	case f != nil:
		return nil, f
	case s.topicsUnknown():
		return nil, refuse(kerr.CoordinatorLoadInProgress)
	case !c.empty():
		return nil, notEmpty(id)
	}
	return s.groups[id], nil
}

func setRemoved(t *kmsg.DeleteShareGroupOffsetsResponseTopic, f *failure) {
	t.ErrorCode, t.ErrorMessage = f.errorCode(), f.text()
}

// noteRemoved notes for the requests that wait for it that the states of a topic are gone, or why
// that has failed. It answers those that have all of their results.
func (s *Shard) noteRemoved(c *share, id assign.TopicID, err *kerr.Error) {
	c.removals = slices.DeleteFunc(c.removals, func(r *removal) bool {
		for _, out := range r.left[id] {
			if err != nil {
				setRemoved(out, refuse(err))
			}
		}
		if delete(r.left, id); len(r.left) > 0 {
			return false
		}
		s.out.Reply(r.to, r.resp)
		return true
	})
}

// endWaits answers what waits for a group that is deleted: its states are gone.
func (s *Shard) endWaits(c *share) {
	for _, a := range c.alterations {
		for _, one := range a.left {
			setAltered(one, refuse(kerr.GroupIDNotFound))
		}
		s.out.Reply(a.to, a.resp)
	}
	for _, r := range c.removals {
		s.out.Reply(r.to, r.resp)
	}
	c.alterations, c.removals = nil, nil
}
