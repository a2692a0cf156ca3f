package configdef

import (
	"math"
	"strings"
	"time"
)

// Broker has the settings of a broker, typed and resolved from its static configs. It is immutable.
// It does not include the defaults of topic configs, because topics resolve through them.
type Broker struct {
	NodeID              int32
	Rack                string   // empty: none
	LogDirs             []string // empty: the default below the data directory
	JournalDirs         []string // empty: each log directory holds its own; otherwise one for each
	Listeners           []string // NAME://HOST:PORT, as written
	AdvertisedListeners []string

	MaxRequestBytes int32
	ConnectionIdle  time.Duration // without a request, after which a connection is closed
	MaxFetchBytes   int32
	FetchSessions   int32 // that the broker keeps

	NumPartitions            int32
	DefaultReplicationFactor int16
	AutoCreateTopics         bool
	DeleteTopics             bool

	ProducerExpiration time.Duration // after which a producer without a batch is forgotten
	ProduceProfile     string        // name of a ProduceProfile

	TelemetryMaxBytes int32 // of the metrics that a client pushes at once

	Groups       Groups
	Offsets      Offsets
	Transactions Transactions
	Shares       Shares
	Cleaning     Cleaning
	Cluster      Cluster
	Archive      Archive
	Tiers        Tiers
}

// Cleaning has the settings of retention, compaction and the reading of sealed segments, for all
// logs of a broker.
type Cleaning struct {
	Interval       time.Duration // between two retention checks of all logs
	Compact        bool          // whether logs are compacted at all
	Backoff        time.Duration // between two searches for a log to compact; at least 100 ms
	KeyBytes       int64         // memory for the keys of a compaction
	BytesPerSecond int64         // read and written by compaction; 0: no limit
	Scrub          time.Duration // within which each sealed segment is read, at least 1 ms; negative: none is
}

// Groups has the settings of groups. Kafka's names are group.*, except that of DeadLetterPrefix.
type Groups struct {
	MinSession, MaxSession, InitialDelay time.Duration
	MaxSize                              int32 // members of a group
	ConsumerSession, ConsumerHeartbeat   time.Duration
	// Limits for the configs of a single group.
	MinConsumerSession, MaxConsumerSession     time.Duration
	MinConsumerHeartbeat, MaxConsumerHeartbeat time.Duration
	ConsumerMaxSize                            int32
	Assignors                                  []string
	Upgrade, Downgrade                         bool // of a group with members, between the protocols
	// Streams groups: the settings of groups without configs, and the limits for those of a single
	// group. There is no limit for the initial delay.
	Streams, StreamsMin, StreamsMax Streams
	StreamsMaxSize                  int32
	// Share groups: the settings of groups without configs, and the limits for those of a single
	// group.
	Share, ShareMin, ShareMax                ShareRecords
	ShareSessions                            int32 // of the broker
	DeadLetterPrefix                         string
	ShareGroup, ShareGroupMin, ShareGroupMax ShareGroup
	ShareGroupMaxSize                        int32
	// ShareInitializeRetry is the longest pause before a failed request for states is repeated.
	ShareInitializeRetry time.Duration
}

// Offsets has the settings of committed offsets and of their topic.
type Offsets struct {
	MaxMetadata               int32         // bytes
	Retention, RetentionCheck time.Duration // of offsets without members, and between two checks
	Partitions                int32
	ReplicationFactor         int16 // fewer if there are fewer brokers
	SegmentBytes              int32
}

// ResolveBroker returns the typed settings of a broker. It can't fail for configs that CheckStatic
// accepted.
func (r *Registry) ResolveBroker(static map[string]string) (Broker, error) {
	f := reader{r: r, defs: r.broker, l: Layers{Static: static}}
	b := Broker{
		NodeID:                   int32(f.value("node.id").n),
		Rack:                     f.value("broker.rack").s,
		LogDirs:                  f.logDirs(),
		JournalDirs:              f.value("journal.dirs").list,
		Listeners:                f.value("listeners").list,
		AdvertisedListeners:      f.value("advertised.listeners").list,
		MaxRequestBytes:          int32(f.value("socket.request.max.bytes").n),
		ConnectionIdle:           milliseconds(f.value("connections.max.idle.ms").n),
		MaxFetchBytes:            int32(f.value("fetch.max.bytes").n),
		FetchSessions:            int32(f.value("max.incremental.fetch.session.cache.slots").n),
		TelemetryMaxBytes:        int32(f.value("telemetry.max.bytes").n),
		NumPartitions:            int32(f.value("num.partitions").n),
		DefaultReplicationFactor: int16(f.value("default.replication.factor").n),
		AutoCreateTopics:         f.value("auto.create.topics.enable").b,
		DeleteTopics:             f.value("delete.topic.enable").b,
		ProducerExpiration:       milliseconds(f.value("producer.id.expiration.ms").n),
		ProduceProfile:           f.value(ProduceProfileConfig).s,
		Groups:                   f.groups(),
		Offsets:                  f.offsets(),
		Transactions:             f.transactions(),
		Shares:                   f.shares(),
		Cleaning:                 f.cleaning(),
		Cluster:                  f.cluster(),
		Archive:                  f.archive(),
		Tiers:                    f.tiers(),
	}
	return b, f.err
}

// logDirs returns the directories of log.dirs, none if the broker only votes.
func (f *reader) logDirs() []string {
	if dirs := f.value("log.dirs").list; len(dirs) != 1 || dirs[0] != NoLogs {
		return dirs
	}
	return nil
}

func (f *reader) groups() Groups {
	policy := strings.ToLower(f.value("group.consumer.migration.policy").s)
	return Groups{
		MinSession:        milliseconds(f.value("group.min.session.timeout.ms").n),
		MaxSession:        milliseconds(f.value("group.max.session.timeout.ms").n),
		InitialDelay:      milliseconds(f.value("group.initial.rebalance.delay.ms").n),
		MaxSize:           int32(f.value("group.max.size").n),
		ConsumerSession:   milliseconds(f.value("group.consumer.session.timeout.ms").n),
		ConsumerHeartbeat: milliseconds(f.value("group.consumer.heartbeat.interval.ms").n),

		MinConsumerSession:   milliseconds(f.value("group.consumer.min.session.timeout.ms").n),
		MaxConsumerSession:   milliseconds(f.value("group.consumer.max.session.timeout.ms").n),
		MinConsumerHeartbeat: milliseconds(f.value("group.consumer.min.heartbeat.interval.ms").n),
		MaxConsumerHeartbeat: milliseconds(f.value("group.consumer.max.heartbeat.interval.ms").n),

		ConsumerMaxSize: int32(f.value("group.consumer.max.size").n),
		Assignors:       f.value("group.consumer.assignors").list,
		Upgrade:         policy == "bidirectional" || policy == "upgrade",
		Downgrade:       policy == "bidirectional" || policy == "downgrade",

		Streams: f.streams("group."),
		StreamsMin: Streams{
			Session:   milliseconds(f.value("group.streams.min.session.timeout.ms").n),
			Heartbeat: milliseconds(f.value("group.streams.min.heartbeat.interval.ms").n),
			Interval:  milliseconds(f.value("group.streams.min.assignment.interval.ms").n),
		},
		StreamsMax: Streams{
			Session:   milliseconds(f.value("group.streams.max.session.timeout.ms").n),
			Heartbeat: milliseconds(f.value("group.streams.max.heartbeat.interval.ms").n),
			Interval:  milliseconds(f.value("group.streams.max.assignment.interval.ms").n),
			Standbys:  int32(f.value("group.streams.max.standby.replicas").n),
		},
		StreamsMaxSize: int32(f.value("group.streams.max.size").n),

		Share: f.shareRecords("group."),
		ShareMin: ShareRecords{
			Locks:      f.value("group.share.min.partition.max.record.locks").n,
			Deliveries: int32(f.value("group.share.min.delivery.count.limit").n),
			Lock:       milliseconds(f.value("group.share.min.record.lock.duration.ms").n),
		},
		ShareMax: ShareRecords{
			Locks:      f.value("group.share.max.partition.max.record.locks").n,
			Deliveries: int32(f.value("group.share.max.delivery.count.limit").n),
			Lock:       milliseconds(f.value("group.share.max.record.lock.duration.ms").n),
		},
		ShareSessions: int32(f.value("group.share.max.share.sessions").n), DeadLetterPrefix: f.value(deadLetterPrefix).s,
		ShareGroup: f.shareGroup("group."), ShareGroupMin: f.shareGroupBound("min"), ShareGroupMax: f.shareGroupBound("max"),
		ShareGroupMaxSize:    int32(f.value("group.share.max.size").n),
		ShareInitializeRetry: milliseconds(f.value("group.share.initialize.retry.interval.ms").n),
	}
}

func (f *reader) offsets() Offsets {
	return Offsets{
		MaxMetadata:       int32(f.value("offset.metadata.max.bytes").n),
		Retention:         time.Duration(f.value("offsets.retention.minutes").n) * time.Minute,
		RetentionCheck:    milliseconds(f.value("offsets.retention.check.interval.ms").n),
		Partitions:        int32(f.value("offsets.topic.num.partitions").n),
		ReplicationFactor: int16(f.value("offsets.topic.replication.factor").n),
		SegmentBytes:      int32(f.value("offsets.topic.segment.bytes").n),
	}
}

// Live has the settings of a broker that can change while it runs, other than the defaults of
// topics.
type Live struct {
	// MinFree is how many bytes of a file system must be free to accept clients' records. 0 means
	// any number, -1 a limit derived from the file system's size.
	MinFree int64
	// Cleaning: Backoff, KeyBytes, BytesPerSecond and Scrub can change; Interval and Compact are
	// those of the start.
	Cleaning    Cleaning
	Connections Connections
	// MoveRate is how many bytes per second moves of logs between directories copy; 0: no limit.
	MoveRate int64
}

// ResolveLive returns the settings that can change while a broker runs.
func (r *Registry) ResolveLive(l Layers) (Live, error) {
	f := reader{r: r, defs: r.broker, l: l}
	return Live{MinFree: f.value(DiskMinFree).n, Cleaning: f.cleaning(), Connections: f.connections(),
		MoveRate: r.CopyRate(MoveRate, l)}, f.err
}

func (f *reader) cleaning() Cleaning {
	c := Cleaning{
		Interval: milliseconds(f.value("log.retention.check.interval.ms").n),
		Compact:  f.value("log.cleaner.enable").b,
		Backoff:  max(milliseconds(f.value("log.cleaner.backoff.ms").n), 100*time.Millisecond),
		KeyBytes: f.value("log.cleaner.dedupe.buffer.size").n,
	}
	if scrub := f.value("chronik.log.scrub.interval.ms").n; scrub >= 0 {
		c.Scrub = max(milliseconds(scrub), time.Millisecond)
	} else {
		c.Scrub = -1
	}
	if rate := f.value("log.cleaner.io.max.bytes.per.second").f; rate < math.MaxInt64 {
		c.BytesPerSecond = int64(rate)
	}
	return c
}
