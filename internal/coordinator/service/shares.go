package service

import (
	"cmp"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metadata"
)

// SharesTopic holds the states of share groups.
const SharesTopic = "__share_group_state"

// SharesOptions configure Shares.
type SharesOptions struct {
	Options
	Configs *configdef.Registry
	// Static has the broker configs that the configuration file sets, by name.
	Static map[string]string
	// StateBytes bounds the memory for states. 0 is 16 MiB.
	StateBytes int64
	// Changed is called when a stored state has changed in another way than by a write of its
	// leader. It must not block.
	Changed func(sharestate.Changed)
	// PruneBytes is the least growth of a partition, in bytes, after which it is pruned; 0 is
	// 4 MiB. PruneInterval is the time between two checks of all partitions; 0 is a minute.
	PruneBytes    int64
	PruneInterval time.Duration
}

const (
	defaultStateBytes    = 16 << 20
	defaultPruneBytes    = 4 << 20
	defaultPruneInterval = time.Minute
)

// Shares is the share coordinator of this broker. Its methods may be called concurrently, and only
// Close blocks.
type Shares struct {
	*Service
	opt    SharesOptions
	memory *coordinator.MemoryBudget
	// writeTime is share.coordinator.write.timeout.ms.
	writeTime time.Duration
}

// NewShares returns a coordinator without partitions; Apply adds them.
func NewShares(opt SharesOptions) (*Shares, error) {
	conf, err := opt.Configs.ResolveBroker(opt.Static)
	if err != nil {
		return nil, fmt.Errorf("share coordinator configs: %w", err)
	}
	opt.PruneBytes = cmp.Or(opt.PruneBytes, defaultPruneBytes)
	opt.PruneInterval = cmp.Or(opt.PruneInterval, defaultPruneInterval)
	c := &conf.Shares
	s := &Shares{opt: opt, memory: coordinator.NewMemoryBudget(cmp.Or(opt.StateBytes, defaultStateBytes)), writeTime: c.WriteTimeout}
	cfg := sharestate.Config{SnapshotUpdates: c.SnapshotUpdates, Memory: s.memory}
	s.Service = New(opt.Options, Definition{
		Topic: SharesTopic, Serves: "share partitions", Partitions: c.Partitions, ReplicationFactor: c.ReplicationFactor, MinISR: c.MinISR,
		SegmentBytes: c.SegmentBytes,
		// Not compacted: updates of a state are increments with the same key. A prune deletes what
		// is not needed.
		Configs: map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
		New:     func(int32) coordinator.Machine { return sharestate.New(cfg) },
		Send:    s.send,
		InitialEvent: func(img *metadata.Image) any {
			return sharestate.TopicsChanged{Topics: leaderEpochs{img}}
		},
		ChangeEvent: epochsChanged,
	})
	s.background(s.prune)
	return s, nil
}

// Memory returns the memory budget of states.
func (s *Shares) Memory() *coordinator.MemoryBudget { return s.memory }

// WriteTime is how long a request of a tool waits for its records.
func (s *Shares) WriteTime() time.Duration { return s.writeTime }

// send carries out what the shards send.
func (s *Shares) send(_, _ int32, request any, _ *groupcommit.Batch, done func(any)) {
	if c, ok := request.(sharestate.Changed); ok && s.opt.Changed != nil {
		s.opt.Changed(c)
	}
	done(sharestate.Notified{})
}

// leaderEpochs shows an image's leader epochs to the shards. It implements sharestate.Topics.
type leaderEpochs struct{ img *metadata.Image }

// LeaderEpoch implements sharestate.Topics. Internal topics have no share groups.
func (e leaderEpochs) LeaderEpoch(topic [16]byte, partition int32) int32 {
	t := e.img.TopicByID(topic)
	if t == nil || t.Internal || partition < 0 || partition >= t.Partitions.Len() {
		return -1
	}
	return t.Partitions.At(partition).LeaderEpoch
}

// GroupEpoch implements sharestate.Topics.
func (e leaderEpochs) GroupEpoch(group string) int32 {
	t := e.img.Topic(OffsetsTopic)
	if t == nil {
		return -1
	}
	return t.Partitions.At(coordinator.PartitionFor(group, t.Partitions.Len())).LeaderEpoch
}

// epochsChanged returns the event that tells shards about a metadata change, nil if no leader epoch
// has changed, and no topic or partition was created or deleted.
func epochsChanged(next *metadata.Image, d *metadata.Delta) any {
	changed := len(d.Created)+len(d.Deleted) > 0
	for i := range d.Changed {
		changed = changed || newLeader(&d.Changed[i])
	}
	if !changed {
		return nil
	}
	e := sharestate.TopicsChanged{Topics: leaderEpochs{next}}
	for _, t := range d.Deleted {
		e.Deleted = append(e.Deleted, t.ID)
	}
	return e
}
