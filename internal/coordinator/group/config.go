package group

import (
	"crypto/rand"
	"encoding/base64"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// Config has the settings of a coordinator. It does not change after New.
type Config struct {
	// Classic groups.
	MinSession, MaxSession time.Duration // group.min.session.timeout.ms, group.max.session.timeout.ms
	InitialDelay           time.Duration // group.initial.rebalance.delay.ms
	MaxSize                int           // group.max.size: members per classic group
	NewMemberJoin          time.Duration // how long a new member's JoinGroup may wait before the member is removed

	// Consumer groups (KIP-848).
	ConsumerSession   time.Duration // group.consumer.session.timeout.ms
	ConsumerHeartbeat time.Duration // group.consumer.heartbeat.interval.ms, sent to members
	ConsumerMaxSize   int           // group.consumer.max.size
	Assignors         []string      // group.consumer.assignors; the first is the default
	// Upgrade and Downgrade report whether a group with members may switch to the other protocol:
	// group.consumer.migration.policy.
	Upgrade, Downgrade bool

	// Streams groups (KIP-1071).
	Streams        StreamsConfig
	StreamsMaxSize int // group.streams.max.size

	// Share groups (KIP-932).
	Share        ShareConfig
	ShareMaxSize int // group.share.max.size
	// ShareRetry bounds the pause after a failed request to a share coordinator:
	// group.share.initialize.retry.interval.ms.
	ShareRetry time.Duration

	// Offsets.
	MaxMetadata    int           // offset.metadata.max.bytes
	Retention      time.Duration // offsets.retention.minutes
	RetentionCheck time.Duration // offsets.retention.check.interval.ms

	// ProducerExpiry is how long an idle transactional producer is remembered
	// (producer.id.expiration.ms).
	ProducerExpiry time.Duration

	// MaxRecord bounds a classic group's record, which holds the metadata of all members, and the
	// offsets of one commit, in bytes. MaxRequest bounds the data of one member: the metadata of a
	// JoinGroup, the topic names of a heartbeat.
	MaxRecord, MaxRequest int
	// MemberMemory bounds the memory for members and offsets.
	MemberMemory *coordinator.MemoryBudget
	// Visible returns which topics a viewer may see, by their names, under the rules of that
	// moment; they are at least as new as the topics of the last TopicsChanged. Several goroutines
	// call both functions, also that of a shard: they must not block. Nil: all topics.
	Visible func(Viewer) func(topic string) bool
	// NewID returns a new, unique member id.
	NewID func() string
	// Broken is for tests.
	Broken Broken
}

// StreamsConfig has the settings of a streams group. The names are those of a group's configs.
type StreamsConfig struct {
	Session, Heartbeat time.Duration // streams.session.timeout.ms, streams.heartbeat.interval.ms
	// InitialDelay is how long a group that was empty waits for more members:
	// streams.initial.rebalance.delay.ms. Interval is the minimum time between two targets:
	// streams.assignment.interval.ms.
	InitialDelay, Interval time.Duration
	Standbys               int // streams.num.standby.replicas
}

// ShareConfig has the settings of a share group. The names are those of a group's configs.
type ShareConfig struct {
	Session, Heartbeat time.Duration // share.session.timeout.ms, share.heartbeat.interval.ms
	Interval           time.Duration // minimum time between two targets: share.assignment.interval.ms
}

// DefaultConfig returns Kafka's defaults.
func DefaultConfig() Config {
	return Config{
		MinSession: 6 * time.Second, MaxSession: 30 * time.Minute, InitialDelay: 3 * time.Second, MaxSize: 1<<31 - 1,
		NewMemberJoin:   5 * time.Minute,
		ConsumerSession: 45 * time.Second, ConsumerHeartbeat: 5 * time.Second, ConsumerMaxSize: 1<<31 - 1,
		Assignors: []string{"uniform", "range"}, Upgrade: true, Downgrade: true,
		Streams: StreamsConfig{Session: 45 * time.Second, Heartbeat: 5 * time.Second, InitialDelay: 3 * time.Second,
			Interval: time.Second},
		StreamsMaxSize: 1<<31 - 1,
		Share:          ShareConfig{Session: 45 * time.Second, Heartbeat: 5 * time.Second, Interval: time.Second},
		ShareMaxSize:   200, ShareRetry: 30 * time.Second,
		MaxMetadata: 4096, Retention: 7 * 24 * time.Hour, RetentionCheck: 10 * time.Minute, ProducerExpiry: producers.DefaultExpiry,
		MaxRecord: 16 << 20, MaxRequest: 1 << 20, MemberMemory: coordinator.NewMemoryBudget(64 << 20), NewID: RandomID,
	}
}

// RandomID returns a random id in Kafka's notation: 16 bytes in URL-safe base64.
func RandomID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(id[:])
}
