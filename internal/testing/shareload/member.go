package shareload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
)

// patience is how long a member waits for an answer.
const patience = 5 * time.Second

// member is a member of a group, from its first heartbeat to its end.
type member struct {
	g       *Group
	cl      *kgo.Client
	id      string
	leaving bool // it ends its sessions and leaves the group

	mu       sync.Mutex
	assigned map[Partition]bool
	leaders  map[Partition]leader
	ids      map[string][16]byte
}

// leader is the leader of a partition, and its epoch.
type leader struct{ broker, epoch int32 }

// member runs a member until ctx ends, or while the group finishes, until last ends.
func (g *Group) member(ctx, last context.Context, random *rand.Rand) {
	cl, err := g.Client()
	if err != nil {
		return
	}
	defer cl.Close()
	m := &member{g: g, cl: cl, id: fmt.Sprint("member-", g.members.Add(1)), leaving: random.IntN(3) > 0,
		assigned: map[Partition]bool{}, leaders: map[Partition]leader{}, ids: map[string][16]byte{}}
	if g.honest.Load() {
		ctx, m.leaving = last, true
	}
	var links sync.WaitGroup
	brokers := map[int32]bool{}
	epoch, due := int32(0), time.Now()
	for ctx.Err() == nil {
		for _, broker := range m.lookUp(ctx) {
			if !brokers[broker] {
				brokers[broker] = true
				l := &link{m: m, broker: broker, random: rand.New(rand.NewPCG(random.Uint64(), uint64(broker)))}
				links.Go(func() { l.run(ctx) })
			}
		}
		if !time.Now().Before(due) {
			epoch = m.heartbeat(ctx, epoch)
			due = time.Now().Add(time.Second)
		}
		_ = pause.Sleep(ctx, 300*time.Millisecond)
	}
	links.Wait()
	if m.leaving && epoch > 0 {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		m.heartbeat(within, -1)
		cancel()
	}
}

// heartbeat sends a heartbeat, and returns the next epoch.
func (m *member) heartbeat(ctx context.Context, epoch int32) int32 {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch = m.g.Name, m.id, epoch
	if epoch == 0 {
		req.SubscribedTopicNames = m.g.Topics
	}
	resp, err := req.RequestWith(within, m.cl)
	if err != nil {
		return epoch
	}
	switch kerr.TypedErrorForCode(resp.ErrorCode) {
	case nil:
	case kerr.UnknownMemberID, kerr.FencedMemberEpoch, kerr.GroupIDNotFound:
		return 0
	default:
		return epoch
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if resp.Assignment != nil {
		clear(m.assigned)
		for _, t := range resp.Assignment.TopicPartitions {
			for name, id := range m.ids {
				for _, index := range t.Partitions {
					if id == t.TopicID {
						m.assigned[Partition{name, index}] = true
					}
				}
			}
		}
	}
	return resp.MemberEpoch
}

// lookUp asks any broker for the leaders, and returns the brokers.
func (m *member) lookUp(ctx context.Context) (brokers []int32) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := m.metadata().RequestWith(within, m.cl)
	if err != nil {
		return nil
	}
	for _, b := range resp.Brokers {
		brokers = append(brokers, b.NodeID)
	}
	slices.Sort(brokers)
	m.learn(resp)
	return brokers
}

// metadata returns a request for the leaders.
func (m *member) metadata() *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range m.g.Topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// learn remembers the leaders that a broker names, and returns them.
func (m *member) learn(resp *kmsg.MetadataResponse) map[Partition]leader {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[Partition]leader{}
	for _, t := range resp.Topics {
		if t.Topic == nil || t.ErrorCode != 0 {
			continue
		}
		m.ids[*t.Topic] = t.TopicID
		for _, p := range t.Partitions {
			at, named := Partition{*t.Topic, p.Partition}, leader{p.Leader, p.LeaderEpoch}
			all[at] = named
			if was, ok := m.leaders[at]; !ok || was.epoch <= named.epoch {
				m.leaders[at] = named
			}
		}
	}
	return all
}

// at returns the assigned partitions that a broker leads, in order.
func (m *member) at(broker int32) (list []Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.assigned {
		if m.leaders[p].broker == broker {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, compare)
	return list
}

// topicID returns the id of a topic.
func (m *member) topicID(name string) [16]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ids[name]
}

// partition returns the partition of a topic's id.
func (m *member) partition(id [16]byte, index int32) Partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, x := range m.ids {
		if x == id {
			return Partition{name, index}
		}
	}
	return Partition{Index: index}
}
