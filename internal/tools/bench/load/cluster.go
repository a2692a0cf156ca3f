package load

import (
	"context"
	"crypto/tls"
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
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// refreshEvery is the minimum interval of metadata requests of all workers together.
const refreshEvery = 100 * time.Millisecond

// Cluster knows the leaders of a topic's partitions and the API versions of the brokers. It is safe
// for concurrent use.
type Cluster struct {
	Seeds []string
	Topic string
	// Secure is for connections to the brokers; nil for connections without TLS.
	Secure *tls.Config
	admin  *kadm.Client // nil if there is nothing to ask

	mu      sync.Mutex
	asked   time.Time
	leaders []leader
}

// leader is a broker with the partitions of the topic that it leads.
type leader struct {
	addr       string
	partitions []int32
}

// Fresh is an option of a Cluster's client. Without it the client caches metadata for seconds, in
// which workers could not follow a leader that moved.
func Fresh() kgo.Opt { return kgo.MetadataMinAge(refreshEvery) }

// NewCluster uses the client, which the caller owns, for metadata. The client must have the option
// Fresh. secure is nil without TLS.
func NewCluster(seeds []string, topic string, secure *tls.Config, cl *kgo.Client) *Cluster {
	return &Cluster{Seeds: seeds, Topic: topic, Secure: secure, admin: kadm.NewClient(cl)}
}

// Sole returns a Cluster whose only broker, at addr, leads the only partition of a topic and
// accepts the oldest version of raw requests. It is not asked, so it need not be a broker.
func Sole(addr, topic string) *Cluster {
	return &Cluster{Seeds: []string{addr}, Topic: topic, leaders: []leader{{addr, []int32{0}}}}
}

// Reach returns the options of a client of brokers, with TLS unless secure is nil.
func Reach(seeds []string, secure *tls.Config) []kgo.Opt {
	versions := kversion.Tip() // tansu 0.6.0 closes the connection at version 5 of KIP-1242, instead of refusing it
	versions.SetMaxKeyVersion(kmsg.ApiVersions.Int16(), 4)
	opts := []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID(wire.ClientID), kgo.MaxVersions(versions)}
	if secure != nil {
		opts = append(opts, kgo.DialTLSConfig(secure))
	}
	return opts
}

// Load reads the leaders. It fails if a partition has none.
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
				return fmt.Errorf("metadata of %s-%d: leader %d is not a known broker", c.Topic, p.Partition, p.Leader)
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

// refresh reads the leaders again, unless another worker has just done so. It ignores errors: the
// next failure refreshes again.
func (c *Cluster) refresh(ctx context.Context) {
	c.mu.Lock()
	due := c.admin != nil && time.Since(c.asked) >= refreshEvery
	if due {
		c.asked = time.Now()
	}
	c.mu.Unlock()
	if due {
		// The worker continues with the leaders that it knows, and fails visibly if they are wrong.
		_ = c.Load(ctx)
	}
}

// place returns the broker of worker i of n and the partitions that it rotates over: workers are
// distributed over the leaders, and those of a leader share its partitions.
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

// Offsets are the log start offset and the log end offset of each partition.
type Offsets struct{ Start, End map[int32]int64 }

// Empty reports whether no partition has a record.
func (o Offsets) Empty() bool {
	for p, end := range o.End {
		if end > o.Start[p] {
			return false
		}
	}
	return true
}

// Offsets returns the current start and end of each partition.
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

// produceVersion returns the newest version of Produce that raw requests and all brokers support.
func (c *Cluster) produceVersion(ctx context.Context) (int16, error) {
	if c.admin == nil {
		return wire.MinProduce, nil
	}
	newest, err := c.version(ctx, kmsg.Produce, wire.MinProduce, wire.MaxProduce)
	if err != nil {
		return 0, fmt.Errorf("raw produce: %w", err)
	}
	return newest, nil
}

// version returns the newest version of a request between oldest and newest that all brokers
// support.
func (c *Cluster) version(ctx context.Context, key kmsg.Key, oldest, newest int16) (int16, error) {
	brokers, err := c.admin.ApiVersions(ctx)
	if err != nil {
		return 0, fmt.Errorf("request API versions: %w", err)
	}
	for _, b := range brokers {
		if b.Err != nil {
			return 0, fmt.Errorf("request API versions of broker %d: %w", b.NodeID, b.Err)
		}
		top, ok := b.KeyMaxVersion(key.Int16())
		low, _ := b.KeyMinVersion(key.Int16())
		if !ok || top < oldest || low > newest {
			return 0, fmt.Errorf("broker %d supports %s %d to %d, raw clients %d to %d: use --clients shared or batched",
				b.NodeID, key.Name(), low, top, oldest, newest)
		}
		newest = min(newest, top)
	}
	return newest, nil
}
