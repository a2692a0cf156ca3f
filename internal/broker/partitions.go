package broker

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/replica"
)

// partition returns this broker's replica of a partition. The error matches
// replica.ErrUnknownPartition where there is no such partition, ErrNotLeader
// where other brokers have it, ErrOffline where it can't be had.
func (b *Broker) partition(t *metadata.Topic, index int32) (*replica.Partition, error) {
	p, err := b.opt.Replicas.Partition(t.ID, index)
	if err == nil {
		return p, nil
	}
	if errors.Is(err, replica.ErrUnknownPartition) {
		if at := t.Partitions.At(index); at != nil {
			if _, ours := at.Dir(b.opt.Self); !ours {
				return nil, fmt.Errorf("%s-%d: %w: broker %d does", t.Name, index, replica.ErrNotLeader, at.Leader)
			}
		}
	}
	return nil, fmt.Errorf("%s-%d: %w", t.Name, index, err)
}

// leaderHint says who leads a partition, with an error that says that the
// client's idea of it is wrong (KIP-951); nil otherwise, and where nobody does. p
// may be nil.
func (b *Broker) leaderHint(code int16, t *metadata.Topic, index int32, p *replica.Partition) *protocol.Leader {
	if code != kerr.NotLeaderForPartition.Code && code != kerr.FencedLeaderEpoch.Code || t == nil {
		return nil
	}
	hint := protocol.Leader{ID: -1, Epoch: -1}
	if p != nil { // it hears of a change before the image shows it
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
func (b *Broker) partitionByName(topic string, index int32) (*replica.Partition, error) {
	t, err := b.topicByRef(b.image(), false, topicRef{name: topic})
	if err != nil {
		return nil, err
	}
	return b.partition(t, index)
}

// missingLogs reports why partitions of a topic, from an index on, can't be used here: their
// logs could not be made. The topic is there all the same, and what failed is tried again.
func (b *Broker) missingLogs(t *metadata.Topic, from int32) error {
	for i := from; i < t.Partitions.Len(); i++ {
		if _, err := b.partition(t, i); errors.Is(err, replica.ErrOffline) {
			return fmt.Errorf("it is created, but can't be used yet: %w", err)
		}
	}
	return nil
}
