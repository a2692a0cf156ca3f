package topicconf

import "time"

// Broker is what holds for a broker, typed and resolved from its static configs.
// It is immutable. The defaults of topic configs are not in it: topics resolve
// through them.
type Broker struct {
	NodeID              int32
	Rack                string   // empty: none
	LogDirs             []string // empty: the default below the data directory
	JournalDirs         []string // empty: each log directory has its own; else one for each
	Listeners           []string // NAME://HOST:PORT, as written
	AdvertisedListeners []string

	MaxRequestBytes     int32
	MaxConnections      int32
	MaxConnectionsPerIP int32
	ConnectionIdle      time.Duration
	MaxFetchBytes       int32
	FetchSessions       int32

	NumPartitions            int32
	DefaultReplicationFactor int16
	AutoCreateTopics         bool
	DeleteTopics             bool

	ProducerExpiration time.Duration
	ProduceProfile     string // name of a durability.ProducePreset
}

// ResolveBroker builds the typed configs of a broker. What CheckStatic accepted
// cannot fail here.
func (r *Registry) ResolveBroker(static map[string]string) (Broker, error) {
	f := reader{r: r, defs: r.broker, l: Layers{Static: static}}
	b := Broker{
		NodeID:                   int32(f.value("node.id").n),
		Rack:                     f.value("broker.rack").s,
		LogDirs:                  f.value("log.dirs").list,
		JournalDirs:              f.value("journal.dirs").list,
		Listeners:                f.value("listeners").list,
		AdvertisedListeners:      f.value("advertised.listeners").list,
		MaxRequestBytes:          int32(f.value("socket.request.max.bytes").n),
		MaxConnections:           int32(f.value("max.connections").n),
		MaxConnectionsPerIP:      int32(f.value("max.connections.per.ip").n),
		ConnectionIdle:           milliseconds(f.value("connections.max.idle.ms").n),
		MaxFetchBytes:            int32(f.value("fetch.max.bytes").n),
		FetchSessions:            int32(f.value("max.incremental.fetch.session.cache.slots").n),
		NumPartitions:            int32(f.value("num.partitions").n),
		DefaultReplicationFactor: int16(f.value("default.replication.factor").n),
		AutoCreateTopics:         f.value("auto.create.topics.enable").b,
		DeleteTopics:             f.value("delete.topic.enable").b,
		ProducerExpiration:       milliseconds(f.value("producer.id.expiration.ms").n),
		ProduceProfile:           f.value(ProduceProfile).s,
	}
	return b, f.err
}
