package admin

import (
	"context"
	"time"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/view"
)

// View is the state of a broker that serves clients, as the port shows it. Everything in it is
// read-only and safe for concurrent use, and nothing in it waits for clients.
type View struct {
	Node int32
	// Dirs returns the log directories, and Cluster what the broker knows of the cluster.
	Dirs     func() []view.Dir
	Cluster  func() *view.Cluster
	Logs     Logs
	Replicas Replicas
	// Image returns the metadata that this broker has applied.
	Image func() *metadata.Image
	// Measured are the metrics of commits.
	Measured *metrics.Storage
	// Network and Requests are the metrics of connections and requests.
	Network  *metrics.Network
	Requests *metrics.Requests
	// Connections returns the clients' connections by id, Connected their number. Addresses are the
	// addresses for clients.
	Connections func() []view.Connection
	Connected   func() int
	// Waits returns the oldest requests without an answer. Trace follows a request of a client.
	Waits     func(most int) view.Waits
	Trace     func(ctx context.Context, client string, slow time.Duration) (view.Trace, bool)
	Addresses []string
	Groups    Groups
	// Configs describes every config of a topic.
	Configs func(*metadata.Image, *metadata.Topic) []configdef.Value
	// Budgets returns the parts of the memory with a limit.
	Budgets func() []view.Budget
	// Profiles returns the durability profiles.
	Profiles func() view.Profiles
	// Snapshots returns all about the snapshots of the cluster, nil if there is neither an object
	// store nor a snapshot. It may wait for the metadata leader until its context ends.
	Snapshots func(ctx context.Context) *view.SnapshotList
	// Rights is the configuration of access rules.
	Rights view.Rights
}

// Logs reads the partitions of this broker.
type Logs interface {
	// Each calls yield for every partition. The Log is valid until yield returns.
	Each(yield func(*view.Log))
	// Topics returns all topics of the cluster, Topic one with its partitions by number.
	Topics() []view.Topic
	Topic(*metadata.Image, *metadata.Topic) (view.Topic, []view.Log)
	// Detail adds what may read the disk.
	Detail(*view.Log)
}

// Replicas is the part of the replica manager that the port uses.
type Replicas interface {
	Partition(topic [16]byte, partition int32) (*replica.Partition, error)
}
