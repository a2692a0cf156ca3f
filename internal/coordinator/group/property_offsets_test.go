package group

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
)

// work is what the members of a group do with their partitions: they continue from the committed
// offsets and commit what they have read. It remembers which commits the coordinator has
// acknowledged, and which member was assigned which partition in each epoch.
type work struct {
	committed map[spot]int64
	reads     map[worker]map[spot]int64 // next offset to read
	had       map[claim]string
	said      map[worker]string // last assignment, as text
	consumer  bool              // the group was a consumer group at the last check
	epoch     int32             // the group's epoch at the last check
}

// spot is a partition.
type spot struct {
	topic     assign.TopicID
	partition int32
}

// claim is a partition in one generation or member epoch.
type claim struct {
	spot
	epoch int32
}

func newWork() work {
	return work{committed: map[spot]int64{}, reads: map[worker]map[spot]int64{}, had: map[claim]string{}, said: map[worker]string{}}
}

// worker is a client with either protocol.
type worker interface {
	// lastAssignment returns the name, epoch and partitions of its last assignment. The name of a
	// static member is its instance; epoch -1 is none.
	lastAssignment() (name string, epoch int32, has assign.Assignment)
	commits() *kmsg.OffsetCommitRequest // without topics
}

func (c *client) lastAssignment() (name string, epoch int32, has assign.Assignment) {
	if c.instance != nil {
		return "instance " + *c.instance, c.epoch, c.has
	}
	return c.id, c.epoch, c.has
}

func (c *oldClient) lastAssignment() (name string, epoch int32, has assign.Assignment) {
	epoch = c.generation
	if c.parked != 0 {
		epoch = -1
	}
	if c.instance != nil {
		return "instance " + *c.instance, epoch, c.has
	}
	return c.id, epoch, c.has
}

func (c *client) commits() *kmsg.OffsetCommitRequest {
	req := commitOf(c.id, c.epoch, "", 0)
	req.InstanceID = c.instance
	return req
}

func (c *oldClient) commits() *kmsg.OffsetCommitRequest {
	req := commitOf(c.id, c.generation, "", 0)
	req.InstanceID = c.instance
	return req
}

// workers returns all live members, including paused ones.
func (c *chaos) workers() (all []worker) {
	for _, n := range c.new {
		all = append(all, n)
	}
	for _, o := range c.old {
		all = append(all, o)
	}
	return all
}

// note records the current owners. No partition may ever have had another owner in the same
// generation or member epoch, however long ago.
func (c *chaos) note() {
	c.forget()
	for _, w := range c.workers() {
		name, epoch, has := w.lastAssignment()
		words, reads := fmt.Sprint(name, epoch, has), map[spot]int64{}
		news := c.said[w] != words && epoch >= 0
		c.said[w] = words
		for topic, list := range has {
			for _, p := range list {
				at := spot{topic, p}
				next, reading := c.reads[w][at]
				if !reading {
					next = c.stored(at)
				}
				reads[at] = next
				if !news { // it may no longer be a member
					continue
				}
				if before, ok := c.had[claim{at, epoch}]; ok && before != name {
					c.t.Fatalf("in epoch %d partition %d of %v was given to %s and to %s", epoch, p, topic, before, name)
				}
				c.had[claim{at, epoch}] = name
			}
		}
		c.reads[w] = reads
	}
}

// forget drops the state of a group that no longer exists: a new group of the same name starts its
// epochs again, and so does an empty one that changes its protocol.
func (c *chaos) forget() {
	g := c.shard.groups["g"]
	if g == nil {
		clear(c.had)
		return
	}
	last := c.work.epoch
	if g.consumer() != nil {
		c.work.epoch = g.consumer().epoch
	} else {
		c.work.epoch = g.classic().generation
	}
	if c.work.epoch < last {
		clear(c.had)
	}
	if c.work.consumer == (g.consumer() != nil) {
		return
	}
	c.work.consumer = g.consumer() != nil
	members := map[string]bool{}
	if g.consumer() != nil {
		for id, m := range g.consumer().members {
			members[id], members["instance "+m.instance()] = true, true
		}
	} else {
		for id, m := range g.classic().members {
			members[id], members["instance "+m.instance] = true, true
		}
	}
	maps.DeleteFunc(c.had, func(_ claim, name string) bool { return !members[name] })
}

// stored returns the committed offset according to the coordinator, 0 for none.
func (c *chaos) stored(at spot) int64 {
	topic, ok := c.topics.ByID(at.topic)
	if !ok {
		return 0
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic.Name, Partitions: []int32{at.partition}}}
	return max(ask[[]kmsg.OffsetFetchResponseGroup](c.world,
		FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{g}})[0].Topics[0].Partitions[0].Offset, 0)
}

// readOn lets a member read some more of all partitions that it believes it owns, and commit them.
// An accepted commit is never below an earlier accepted one.
func (c *chaos) readOn(w worker, records int64) {
	req := w.commits()
	req.Topics = nil
	reads := c.reads[w]
	for _, at := range slices.SortedFunc(maps.Keys(reads), compareSpots) {
		topic, ok := c.topics.ByID(at.topic)
		if !ok {
			continue
		}
		reads[at] += records
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = at.partition, reads[at]
		req.Topics = append(req.Topics, kmsg.OffsetCommitRequestTopic{Topic: topic.Name, TopicID: topic.ID,
			Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}})
	}
	resp := ask[*kmsg.OffsetCommitResponse](c.world, request(req))
	for i, t := range resp.Topics {
		at := spot{req.Topics[i].TopicID, t.Partitions[0].Partition}
		if t.Partitions[0].ErrorCode != 0 {
			continue
		}
		name, epoch, _ := w.lastAssignment()
		if reads[at] < c.committed[at] {
			c.t.Fatalf("%s in epoch %d could take partition %d of %s from %d back to %d", name, epoch, at.partition, t.Topic,
				c.committed[at], reads[at])
		}
		c.committed[at] = reads[at]
	}
}

func compareSpots(a, b spot) int {
	if n := slices.Compare(a.topic[:], b.topic[:]); n != 0 {
		return n
	}
	return int(a.partition - b.partition)
}

// checkOffsets checks that committed offsets are those last acknowledged.
func (c *chaos) checkOffsets() {
	for at, want := range c.committed {
		topic, ok := c.topics.ByID(at.topic)
		if !ok { // its commits are also deleted
			delete(c.committed, at)
			for _, reads := range c.reads {
				delete(reads, at)
			}
			continue
		}
		if got := c.stored(at); got != want {
			c.t.Fatalf("%d was committed for partition %d of %s, and now it is %d", want, at.partition, topic.Name, got)
		}
	}
}

// sleep pauses one member for up to ten minutes while the others continue. When it wakes up it does
// not know: it commits the offsets it had read before, and only then sends a heartbeat.
func (c *chaos) sleep() {
	all := c.workers()
	if len(all) == 0 {
		return
	}
	sleeper := pick(c, all...)
	end := c.now.Add(pick(c, time.Second, 20*time.Second, time.Minute, 10*time.Minute))
	for c.now.Before(end) {
		c.advance(min(4*time.Second, end.Sub(c.now)))
		c.others(sleeper)
		c.note()
		if g := c.shard.groups["g"]; g == nil {
			c.check()
		}
		for _, w := range c.workers() {
			if w != sleeper {
				c.readOn(w, 1)
			}
		}
	}
	c.readOn(sleeper, 0)
}

// others lets all members but one take their next step.
func (c *chaos) others(but worker) {
	for _, n := range slices.Clone(c.new) {
		if worker(n) != but {
			c.goOn(n)
		}
	}
	for _, o := range c.old {
		if worker(o) != but {
			o.step()
		}
	}
}

// changeTopic changes a topic; one with fewer partitions is a new one. Clients of the classic
// protocol know topics by name: partitions of a deleted topic are not partitions of a new topic
// with the same name.
func (c *chaos) changeTopic(name string, partitions int32) {
	if partitions > 0 && partitions < c.topics.list[name] {
		c.changeTopic(name, 0)
	}
	c.topic(name, partitions)
	if partitions > 0 {
		return
	}
	c.checkOffsets()
	for _, o := range c.old {
		o.has = maps.Clone(o.has)
		delete(o.has, idOf(name))
	}
}

// goOn lets a consumer send a heartbeat. If it is refused, the consumer drops all partitions and
// joins again, once.
func (c *chaos) goOn(n *client) {
	if n.beat() == 0 {
		return
	}
	delete(c.reads, n)
	if n.join() != 0 {
		c.remove(n)
	}
}

func (c *chaos) remove(n *client) {
	c.new = slices.DeleteFunc(c.new, func(x *client) bool { return x == n })
	delete(c.reads, n)
	delete(c.said, n)
}
