package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/bench/wire"
)

// refreshEvery bounds how often workers together ask for metadata.
const refreshEvery = 100 * time.Millisecond

// Cluster knows who leads the partitions of a topic and what the brokers speak.
// It is safe for use by many goroutines.
type Cluster struct {
	Seeds []string
	Topic string
	admin *kadm.Client

	mu      sync.Mutex
	asked   time.Time
	leaders []leader
}

// leader is a broker and the partitions of the topic that it leads.
type leader struct {
	addr       string
	partitions []int32
}

// Fresh is an option of a Cluster's client, which otherwise keeps metadata for
// seconds: for so long a leader that moved would not be followed.
func Fresh() kgo.Opt { return kgo.MetadataMinAge(refreshEvery) }

// NewCluster uses the client, which stays the caller's, for metadata. It has the
// option Fresh.
func NewCluster(seeds []string, topic string, cl *kgo.Client) *Cluster {
	return &Cluster{Seeds: seeds, Topic: topic, admin: kadm.NewClient(cl)}
}

// Load reads the leaders; an error when a partition has none.
func (c *Cluster) Load(ctx context.Context) error {
	m, err := c.admin.Metadata(ctx, c.Topic)
	if err != nil {
		return fmt.Errorf("metadata of %s: %w", c.Topic, err)
	}
	t := m.Topics[c.Topic]
	if t.Err != nil {
		return fmt.Errorf("metadata of %s: %w", c.Topic, t.Err)
	}
	if len(t.Partitions) == 0 {
		return fmt.Errorf("metadata of %s: no partitions", c.Topic)
	}
	byNode := make(map[int32]*leader)
	for _, p := range t.Partitions.Sorted() {
		if p.Err != nil {
			return fmt.Errorf("metadata of %s-%d: %w", c.Topic, p.Partition, p.Err)
		}
		l := byNode[p.Leader]
		if l == nil {
			at := slices.IndexFunc(m.Brokers, func(b kadm.BrokerDetail) bool { return b.NodeID == p.Leader })
			if at < 0 {
				return fmt.Errorf("metadata of %s-%d: leader %d is no broker", c.Topic, p.Partition, p.Leader)
			}
			l = &leader{addr: net.JoinHostPort(m.Brokers[at].Host, strconv.Itoa(int(m.Brokers[at].Port)))}
			byNode[p.Leader] = l
		}
		l.partitions = append(l.partitions, p.Partition)
	}
	nodes := make([]int32, 0, len(byNode))
	for id := range byNode {
		nodes = append(nodes, id)
	}
	slices.Sort(nodes)
	leaders := make([]leader, 0, len(nodes))
	for _, id := range nodes {
		leaders = append(leaders, *byNode[id])
	}
	c.mu.Lock()
	c.leaders = leaders
	c.mu.Unlock()
	return nil
}

// refresh reads the leaders again unless someone did a moment ago. What fails is
// left as it was: the next failure asks again.
func (c *Cluster) refresh(ctx context.Context) {
	c.mu.Lock()
	due := time.Since(c.asked) >= refreshEvery
	if due {
		c.asked = time.Now()
	}
	c.mu.Unlock()
	if due {
		// The worker goes on with the leaders it knows, and fails visibly if they
		// are wrong.
		_ = c.Load(ctx)
	}
}

// place is the broker of worker i of n and the partitions it takes turns on:
// workers go round the leaders, and those of a leader share its partitions.
func (c *Cluster) place(i, n int) (addr string, partitions []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.leaders[i%len(c.leaders)]
	rank := i / len(c.leaders)
	peers := (n - i%len(c.leaders) + len(c.leaders) - 1) / len(c.leaders)
	if rank >= len(l.partitions) {
		return l.addr, []int32{l.partitions[rank%len(l.partitions)]}
	}
	for at := rank; at < len(l.partitions); at += peers {
		partitions = append(partitions, l.partitions[at])
	}
	return l.addr, partitions
}

// Partitions lists the partitions of the topic.
func (c *Cluster) Partitions() []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []int32
	for _, l := range c.leaders {
		all = append(all, l.partitions...)
	}
	slices.Sort(all)
	return all
}

// Offsets are the first and the next offset of each partition.
type Offsets struct{ Start, End map[int32]int64 }

// Empty says that no partition holds a record.
func (o Offsets) Empty() bool {
	for p, end := range o.End {
		if end > o.Start[p] {
			return false
		}
	}
	return true
}

// Offsets asks where each partition starts and ends.
func (c *Cluster) Offsets(ctx context.Context) (Offsets, error) {
	starts, err := c.admin.ListStartOffsets(ctx, c.Topic)
	if err != nil {
		return Offsets{}, fmt.Errorf("start offsets of %s: %w", c.Topic, err)
	}
	ends, err := c.admin.ListEndOffsets(ctx, c.Topic)
	if err != nil {
		return Offsets{}, fmt.Errorf("end offsets of %s: %w", c.Topic, err)
	}
	if err := errors.Join(starts.Error(), ends.Error()); err != nil {
		return Offsets{}, fmt.Errorf("offsets of %s: %w", c.Topic, err)
	}
	o := Offsets{Start: make(map[int32]int64), End: make(map[int32]int64)}
	starts.Each(func(l kadm.ListedOffset) { o.Start[l.Partition] = l.Offset })
	ends.Each(func(l kadm.ListedOffset) { o.End[l.Partition] = l.Offset })
	return o, nil
}

// produceVersion is the newest Produce that raw requests and all brokers speak.
func (c *Cluster) produceVersion(ctx context.Context) (int16, error) {
	newest, err := c.version(ctx, kmsg.Produce, wire.MinProduce, wire.MaxProduce)
	if err != nil {
		return 0, fmt.Errorf("raw produce: %w", err)
	}
	return newest, nil
}

// version is the newest version of a request within oldest and newest that all
// brokers speak.
func (c *Cluster) version(ctx context.Context, key kmsg.Key, oldest, newest int16) (int16, error) {
	brokers, err := c.admin.ApiVersions(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask for API versions: %w", err)
	}
	for _, b := range brokers {
		if b.Err != nil {
			return 0, fmt.Errorf("ask broker %d for API versions: %w", b.NodeID, b.Err)
		}
		top, ok := b.KeyMaxVersion(key.Int16())
		low, _ := b.KeyMinVersion(key.Int16())
		if !ok || top < oldest || low > newest {
			return 0, fmt.Errorf("broker %d speaks %s %d to %d, raw clients %d to %d: use --clients shared or batched",
				b.NodeID, key.Name(), low, top, oldest, newest)
		}
		newest = min(newest, top)
	}
	return newest, nil
}
