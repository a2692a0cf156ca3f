package broker

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// partition returns this broker's replica of a partition. The error matches
// replica.ErrUnknownPartition if there is no such partition, ErrNotLeader if other brokers have it,
// and ErrOffline if it is not available.
func (b *Handler) partition(t *metadata.Topic, index int32) (*replica.Partition, error) {
	p, err := b.opt.Replicas.Partition(t.ID, index)
	if err == nil {
		return p, nil
	}
	if errors.Is(err, replica.ErrUnknownPartition) {
		if at := t.Partitions.At(index); at != nil {
			if !at.HasReplica(b.opt.Self) {
				return nil, fmt.Errorf("%s-%d: %w: broker %d does", t.Name, index, replica.ErrNotLeader, at.Leader)
			}
		}
	}
	return nil, fmt.Errorf("%s-%d: %w", t.Name, index, err)
}

// leaderHint returns the leader of a partition for an error that means that the client has a stale
// leader (KIP-951); nil for other errors and if there is no leader. p may be nil.
func (b *Handler) leaderHint(code int16, t *metadata.Topic, index int32, p *replica.Partition) *protocol.Leader {
	if code != kerr.NotLeaderForPartition.Code && code != kerr.FencedLeaderEpoch.Code || t == nil {
		return nil
	}
	hint := protocol.Leader{ID: -1, Epoch: -1}
	if p != nil { // it knows of a change before the image shows it
		hint.ID, hint.Epoch = p.Leader()
	} else if now := b.image().Partition(metadata.TopicPartition{Topic: t.ID, Partition: index}); now != nil {
		hint.ID, hint.Epoch = now.Leader, now.LeaderEpoch
	}
	if hint.ID < 0 {
		return nil
	}
	return &hint
}

// partitionByName is partition for requests that name their topics.
func (b *Handler) partitionByName(topic string, index int32) (*replica.Partition, error) {
	t, err := rights{}.find(acl.Describe, b.image(), false, topic, [16]byte{})
	if err != nil {
		return nil, err
	}
	return b.partition(t, index)
}

// missingLogs returns why partitions of a topic, from an index on, are not usable here: the error
// of a log that could not be created, or else notSeen, why the wait for the logs that are still
// being created has ended. The topic exists, and the broker creates them.
func (b *Handler) missingLogs(t *metadata.Topic, from int32, notSeen error) error {
	var creating error
	for i := from; i < t.Partitions.Len(); i++ {
		_, err := b.partition(t, i)
		if !errors.Is(err, replica.ErrOffline) {
			continue
		}
		err = fmt.Errorf("the topic was created but is not usable yet: %w", err)
		if !errors.Is(err, replica.ErrCreating) {
			return err
		}
		creating = cmp.Or(notSeen, err)
	}
	return creating
}
