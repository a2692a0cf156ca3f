package group

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/pause"
)

// SharePartition is a partition of a share group.
type SharePartition struct {
	Topic     assign.TopicID
	Partition int32
}

// InitializeShares asks share coordinators for states of a group. Starts has an offset for each
// partition, which replaces a state that exists; nil: none, and a state that exists stays. The
// result is a SharesInitialized, exactly one. With Added, new states begin with the first record of
// their partitions, and a state that exists stays.
//
// The sender carries out the requests of a group in the order in which they were sent, one at a
// time, also those of a former machine of this broker. So no Initialize is carried out after a
// Delete that was sent later. Of a machine on another broker, whose leader epoch is over, share
// coordinators refuse what comes late.
type InitializeShares struct {
	Group      string
	StateEpoch int32
	Partitions []SharePartition
	Starts     []int64
	Added      bool
}

// SharesInitialized is the result of an InitializeShares. Errs has one for each partition, nil for
// success. A request with an error may have been carried out. The Shard repeats it.
type SharesInitialized struct {
	InitializeShares
	Errs []*kerr.Error
}

// DeleteShares asks share coordinators to remove states of a group. The result is a SharesDeleted,
// exactly one. What InitializeShares says about the order applies.
type DeleteShares struct {
	Group      string
	Partitions []SharePartition
}

// SharesDeleted is the result of a DeleteShares. Errs has one for each partition, nil for success.
// A request with an error may have been carried out. The Shard repeats it.
type SharesDeleted struct {
	DeleteShares
	Errs []*kerr.Error
}

// sharesAnswered is a result that may be recorded.
type sharesAnswered struct{ result any }

// maxShares is how many partitions a request to share coordinators names. Their results are one
// record.
const maxShares = 1000

// firstSharePause is the pause after a failed request to a share coordinator. It doubles with each
// further failure, up to group.share.initialize.retry.interval.ms.
const firstSharePause = 500 * time.Millisecond

// continueStates sends what is left to be sent to share coordinators, unless a failed request must
// wait.
func (s *Shard) continueStates(g *group) {
	if s.topicsUnknown() || g.share().waits {
		return
	}
	s.deleteStates(g)
	s.initialize(g)
}

// initialize asks for the states of subscribed partitions that have none. They are recorded before
// the request leaves. Otherwise a state could exist that the group's deletion does not know of.
func (s *Shard) initialize(g *group) {
	c := g.share()
	if missing := s.withoutState(c); len(missing) > 0 {
		next := c.states.clone()
		for _, p := range missing {
			topic, _ := s.topics.ByID(p.Topic)
			put(next.initializing, p.Topic, topic.Name, p.Partition)
			t := next.initializing[p.Topic]
			t.first, t.added = c.added[p.Topic]
		}
		if !s.cfg.Broken.Has(InitializeUnrecorded) {
			s.recordStates(g, &next)
		}
		s.askToInitialize(g, missing)
	}
	if s.cfg.Broken.Has(ForgetInitializing) && c.failures == 0 && len(c.asked) == 0 {
		return
	}
	var list []SharePartition
	for _, id := range sortedTopics(c.states.initializing) {
		if _, exists := s.topics.ByID(id); !exists || s.blocked(c, id) {
			continue
		}
		for _, p := range c.states.initializing[id].partitions {
			if _, asked := c.asked[id][p]; !asked {
				list = append(list, SharePartition{id, p})
			}
		}
	}
	s.askToInitialize(g, list)
}

func (s *Shard) askToInitialize(g *group, list []SharePartition) {
	c := g.share()
	var parts [2][]SharePartition
	for _, p := range list {
		i := 0
		if first, has := c.added[p.Topic]; has && p.Partition >= first {
			i = 1
		}
		parts[i] = append(parts[i], p)
	}
	for i, part := range parts {
		s.ask(g, part, func(list []SharePartition) any {
			return InitializeShares{Group: g.id, StateEpoch: c.epoch, Partitions: list, Added: i == 1}
		})
	}
}

// blocked reports whether the states of a topic are being deleted. An Initialize that is carried
// out before the Delete would be recorded although its state is gone.
func (s *Shard) blocked(c *share, id assign.TopicID) bool {
	_, deleting := c.states.deleting[id]
	return deleting && !s.cfg.Broken.Has(InitializeWhileDeleting)
}

// withoutState returns the partitions of subscribed topics, and those that were added, for which no
// state exists or is asked for, without topics for which there is no memory or no room in the
// record.
func (s *Shard) withoutState(c *share) (list []SharePartition) {
	if c.searched {
		return nil
	}
	extra, size, all := 0, 0, true
	names := slices.Collect(maps.Keys(c.subscribed()))
	for id := range c.added {
		if topic, exists := s.topics.ByID(id); exists {
			names = append(names, topic.Name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		topic, exists := s.topics.ByName(name)
		if !exists || topic.Internal {
			continue
		}
		if s.blocked(c, topic.ID) {
			all = false
			continue
		}
		was := len(list)
		for p := range topic.Partitions {
			if !c.states.initialized[topic.ID].has(p) && !c.states.initializing[topic.ID].has(p) {
				list = append(list, SharePartition{topic.ID, p})
			}
		}
		n := len(list) - was
		if n == 0 {
			continue
		}
		if size == 0 {
			size = len(c.states.recorded().Encode())
		}
		memory, record := stateTopicWeight+len(name)+stateWeight*n, 32+len(name)+4*n
		if !s.hasMemory(extra+memory) || size+record > s.cfg.MaxRecord {
			list, all = list[:was], false // a later heartbeat tries again
			continue
		}
		extra, size = extra+memory, size+record
	}
	c.searched = all && len(list) == 0
	return list
}

// ask sends requests for partitions, in parts.
func (s *Shard) ask(g *group, list []SharePartition, request func([]SharePartition) any) {
	c := g.share()
	for part := range slices.Chunk(list, maxShares) {
		for _, p := range part {
			if c.asked[p.Topic] == nil {
				c.asked[p.Topic] = map[int32]struct{}{}
			}
			c.asked[p.Topic][p.Partition] = struct{}{}
		}
		s.out.Send(request(part))
	}
}

// answered notes that a partition's request has its result.
func (c *share) answered(p SharePartition) {
	if delete(c.asked[p.Topic], p.Partition); len(c.asked[p.Topic]) == 0 {
		delete(c.asked, p.Topic)
	}
}

func (s *Shard) recordStates(g *group, next *states) {
	s.emit(format.Key{Type: format.TypeShareStates, Group: g.id}, next.recorded())
}

// sharesAnswered handles a result that may be recorded now.
func (s *Shard) sharesAnswered(e sharesAnswered) {
	switch r := e.result.(type) {
	case SharesInitialized:
		s.sharesInitialized(r)
		s.finishEvent(r.Group)
	case SharesDeleted:
		s.sharesDeleted(r)
		s.finishEvent(r.Group)
	}
}

// sharesInitialized records which states exist. The next heartbeat assigns their partitions. After
// a failure the partition stays as it is recorded: the request may have been carried out.
func (s *Shard) sharesInitialized(e SharesInitialized) {
	g := s.groups[e.Group]
	if g == nil || g.share() == nil {
		return
	}
	c := g.share()
	next, changed, failed := c.states.clone(), false, false
	for i, p := range e.Partitions {
		c.answered(p)
		switch t := next.initializing[p.Topic]; {
		case e.Errs[i] != nil:
			failed = true
		case t.has(p.Partition) && !s.blocked(c, p.Topic), s.cfg.Broken.Has(InitializeUnrecorded):
			if t == nil {
				t = &topicStates{}
			}
			put(next.initialized, p.Topic, t.name, p.Partition)
			drop(next.initializing, p.Topic, p.Partition)
			changed = true
		}
	}
	if changed {
		s.recordStates(g, &next)
	}
	for _, p := range e.Partitions {
		if topic, exists := s.topics.ByID(p.Topic); exists {
			c.complete(p.Topic, topic.Partitions)
		}
	}
	s.noteAltered(c, e)
	s.noteShares(g, failed)
	s.continueStates(g)
}

// noteShares notes whether a request to a share coordinator has failed, and sets the time of the
// next one.
func (s *Shard) noteShares(g *group, failed bool) {
	c := g.share()
	if !failed {
		c.failures = 0
		return
	}
	if c.failures, c.waits = c.failures+1, true; s.cfg.Broken.Has(AskOnce) {
		return
	}
	most := max(s.cfg.ShareRetry, time.Millisecond)
	s.setTimer(timerShares, g.id, "", pause.Backoff{First: firstSharePause, Most: most}.After(c.failures))
}

// deleteStates asks for the removal of the states of topics that are recorded as deleting. It waits
// until no Initialize for the topic is under way, as one that is carried out late would begin a
// state that no group uses. The states of a topic that does not exist any more go with it.
func (s *Shard) deleteStates(g *group) {
	c := g.share()
	for _, id := range sortedTopics(c.states.deleting) {
		topic, exists := s.topics.ByID(id)
		_, under := c.deletes[id]
		if !exists || under || len(c.asked[id]) > 0 && !s.cfg.Broken.Has(DeleteWhileInitializing) {
			continue
		}
		c.deletes[id] = false
		list := make([]SharePartition, topic.Partitions)
		for p := range topic.Partitions {
			list[p] = SharePartition{id, p}
		}
		s.ask(g, list, func(list []SharePartition) any { return DeleteShares{Group: g.id, Partitions: list} })
	}
}

// sharesDeleted records which topics have no states left, and ends the requests to delete the group
// if none has any.
func (s *Shard) sharesDeleted(e SharesDeleted) {
	g := s.groups[e.Group]
	if g == nil || g.share() == nil {
		return
	}
	c := g.share()
	var failure *kerr.Error
	var ended []assign.TopicID
	next, changed := c.states.clone(), false
	for i, p := range e.Partitions {
		c.answered(p)
		if err := e.Errs[i]; err != nil {
			failure = err
			if _, under := c.deletes[p.Topic]; under {
				c.deletes[p.Topic] = true
			}
		}
		if failed, under := c.deletes[p.Topic]; under && len(c.asked[p.Topic]) == 0 {
			if delete(c.deletes, p.Topic); !failed {
				next.forget(p.Topic)
				changed = true
			}
			ended = append(ended, p.Topic)
		}
	}
	if changed {
		s.recordStates(g, &next)
	}
	for _, id := range ended {
		var why *kerr.Error
		if _, left := next.deleting[id]; left {
			why = cmp.Or(failure, kerr.CoordinatorNotAvailable)
		}
		s.noteRemoved(c, id, why)
	}
	s.noteShares(g, failure != nil)
	s.finishDeletions(g, failure)
	if g.share() != nil {
		s.continueStates(g)
	}
}

// forget removes all that is known of a topic.
func (x *states) forget(id assign.TopicID) {
	delete(x.initializing, id)
	delete(x.initialized, id)
	delete(x.deleting, id)
}

// deletion is a request to delete a share group that waits. It is the part of a Delete.
type deletion struct {
	of    *deleting
	index int // in the response
}

// deleting is a Delete that waits for share coordinators.
type deleting struct {
	to   coordinator.Ticket
	list []kmsg.DeleteGroupsResponseGroup
	left int // groups without an answer
}

// set sets the answer for a group.
func (d *deleting) set(i int, f *failure) {
	d.list[i].ErrorCode, d.list[i].ErrorMessage = f.errorCode(), f.message()
}

// deleteShare begins the deletion of a share group without members. It returns false if nothing
// must be asked for: then the caller deletes the group.
func (s *Shard) deleteShare(g *group, d deletion) bool {
	c := g.share()
	if c.states.empty() || s.cfg.Broken.Has(KeepStates) {
		return false
	}
	s.recordDeleting(g, every)
	c.deletions = append(c.deletions, d)
	d.of.left++
	s.sendNow(g)
	return true
}

// sendNow sends what is left to be sent, although a failed request would have to wait.
func (s *Shard) sendNow(g *group) {
	g.share().waits = false
	s.cancelTimer(timerShares, g.id, "")
	s.continueStates(g)
}

func every(assign.TopicID) bool { return true }

// recordDeleting records that the states of some topics of a group are being deleted.
func (s *Shard) recordDeleting(g *group, which func(assign.TopicID) bool) {
	c := g.share()
	next, changed := c.states.clone(), false
	for _, all := range []map[assign.TopicID]*topicStates{c.states.initializing, c.states.initialized} {
		for id, t := range all {
			if which(id) {
				next.forget(id)
				next.deleting[id], changed = t.name, true
				delete(c.added, id) // or the states would be begun again, without a member
			}
		}
	}
	if changed {
		s.recordStates(g, &next)
	}
}

// finishDeletions answers the requests to delete a group, if a Delete of states has failed or
// nothing is left to be deleted. A member may have joined since they came. If it has left again, it
// may have begun further states.
func (s *Shard) finishDeletions(g *group, failed *kerr.Error) {
	c := g.share()
	if len(c.deletions) == 0 || failed == nil && len(c.states.deleting) > 0 {
		return
	}
	if failed == nil && c.empty() && !c.states.empty() && !s.cfg.Broken.Has(ForgetNewStates) {
		s.recordDeleting(g, every)
		return // the caller continues
	}
	var f *failure
	switch {
	case failed != nil:
		f = fail(failed, "The states of share group %s could not be deleted; try again later.", g.id)
	case !c.empty() && !s.cfg.Broken.Has(DeleteJoined):
		f = notEmpty(g.id)
	case s.hasPending(g):
		f = pendingOffsets(g.id)
	}
	list := c.deletions
	c.deletions = nil
	if f == nil {
		s.removeGroup(g)
	}
	for _, d := range list {
		d.of.set(d.index, f)
		if d.of.left--; d.of.left == 0 {
			s.out.Reply(d.of.to, d.of.list)
		}
	}
}

// forgottenTopics returns the topics with states that do not exist any more, sorted. Share
// coordinators remove their states, too.
func (s *Shard) forgottenTopics(c *share) (ids []assign.TopicID) {
	if s.cfg.Broken.Has(KeepDeletedTopics) {
		return nil
	}
	all := map[assign.TopicID]struct{}{}
	for _, m := range []map[assign.TopicID]*topicStates{c.states.initializing, c.states.initialized} {
		for id := range m {
			all[id] = struct{}{}
		}
	}
	for id := range c.states.deleting {
		all[id] = struct{}{}
	}
	for _, id := range sortedTopics(all) {
		if _, exists := s.topics.ByID(id); !exists {
			ids = append(ids, id)
		}
	}
	return ids
}

// forgetTopics records that topics with states do not exist any more. It returns the approximate
// size of the record.
func (s *Shard) forgetTopics(g *group, ids []assign.TopicID) int {
	c := g.share()
	next := c.states.clone()
	for _, id := range ids {
		next.forget(id)
		delete(c.deletes, id)
	}
	s.out.Split()
	s.recordStates(g, &next)
	for _, id := range ids {
		s.noteRemoved(c, id, nil)
	}
	s.finishDeletions(g, nil)
	if g.share() != nil {
		s.continueStates(g)
	}
	return next.weight()
}

func sortedTopics[V any](all map[assign.TopicID]V) []assign.TopicID {
	return slices.SortedFunc(maps.Keys(all), func(a, b assign.TopicID) int { return slices.Compare(a[:], b[:]) })
}
