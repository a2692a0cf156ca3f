package admin

import (
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/pkg/durability"
)

// View is all that the port shows of a broker that serves clients. Everything in it is read-only
// and safe for concurrent use, and nothing in it waits for clients.
type View struct {
	Node     int32
	Storage  Storage
	Replicas Replicas
	// Image returns the metadata as this broker has applied it.
	Image func() *metadata.Image
	// Measured is what commits took.
	Measured *metrics.Storage
	// Network and Requests are what clients have sent and were answered.
	Network  *metrics.Network
	Requests *metrics.Requests
	// Server is the clients' connections, Addresses where they connect.
	Server    Clients
	Addresses []string
	Groups    Groups
	// Settings are the topics' resolved configurations, and Configs describes every config of
	// a topic.
	Settings Settings
	Configs  func(*metadata.Image, *metadata.Topic) []configdef.Value
	// Budgets returns the parts of the memory that have a bound.
	Budgets func() []metrics.Budget
	// Profiles are the durability profiles, Default the one that topics have by default.
	Profiles []durability.Profile
	Default  string
}

// Storage is what the port shows of the log directories.
type Storage interface {
	Dirs() []*storage.Dir
	Failed() []*storage.DirError // those that could not be opened
	Logs() []*storage.Log
}

// Replicas is what the port shows of partitions.
type Replicas interface {
	Partition(topic [16]byte, partition int32) (*replica.Partition, error)
}

// Settings is what the port shows of topics' configurations.
type Settings interface {
	Of(*metadata.Image, *metadata.Topic) *replica.TopicSetting
}

// Clients is what the port shows of connections.
type Clients interface {
	Connections() []network.Connection
	Stats() network.Stats
}
