package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/replica"
)

// partitionState is what answers say about a partition in addition to its record.
type partitionState struct {
	code    int16
	leader  int32   // -1: no leader is available
	offline []int32 // replicas that accept no records
}

// partitionState checks the log if this broker has it. A log that can't be opened leaves its
// partition without a leader. One that is being created does not, as in Kafka: some clients
// (rskafka) keep a partition without a leader for good. A log whose directory accepts no records at
// the moment can still be read, and only counts as offline. Replicas of other brokers are offline,
// and cannot lead, while their broker is not running or has reported their log directory as failed.
// This broker does not name itself as a leader that is cut off.
func (b *Handler) partitionState(img *metadata.Image, t *metadata.Topic, index int32, p *metadata.Partition) partitionState {
	s := partitionState{leader: p.Leader, offline: []int32{}}
	tp := metadata.TopicPartition{Topic: t.ID, Partition: index}
	for _, id := range p.Replicas {
		var unusable, offline bool
		if id == b.opt.Self {
			part, err := b.opt.Replicas.Partition(t.ID, index)
			gone := errors.Is(err, replica.ErrOffline) && !errors.Is(err, replica.ErrCreating)
			unusable = gone || err == nil && part.CutOff()
			offline = gone || err == nil && part.Log().Err() != nil
		} else {
			unusable = !controller.Usable(img, tp, id)
			offline = unusable
		}
		if unusable && s.leader == id {
			s.leader = -1
		}
		if offline {
			s.offline = append(s.offline, id)
		}
	}
	if s.leader < 0 {
		s.code = kerr.LeaderNotAvailable.Code
	}
	return s
}

// forClient removes a leader that has no address for the client of a request. As in Kafka, the
// error of a leader without the client's listener has a code of its own, except for clients that
// are too old to know it.
func (s partitionState) forClient(b *Handler, r *network.Request, img *metadata.Image, old bool) partitionState {
	if s.leader < 0 {
		return s
	}
	if _, ok := b.node(r, img, s.leader); ok {
		return s
	}
	s.code = kerr.ListenerNotFound.Code
	if old || isFenced(img, s.leader) {
		s.code = kerr.LeaderNotAvailable.Code
	}
	s.leader = -1
	return s
}
