package txn

import (
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// An unclean election of a partition can lose the marker of a transaction and leave its records,
// which are open again, after the transaction has ended. The next transaction of the producer must
// not have them in it: with version 1 it has the same epoch, so they would join it, and its marker
// would end both. With version 2 the log would refuse its records. So a partition with a loss that
// no later marker has followed gets another marker before it is added.
//
// The marker ends nothing that is still to be decided. The partition is in no transaction of the
// producer that is open or decided, and every earlier one had all its markers. It commits if all of
// them were commits. Otherwise the transaction may be an aborted one, which no reader may see, so
// the marker aborts.
//
// Nothing is added until the marker has its result. A later coordinator knows each loss that this
// one knows, and none of its markers: it sends its own before it adds the partition, and that
// fences a late one of this Shard.

// spot is a producer in a partition.
type spot struct {
	pid       int64
	partition Partition
}

// clearing is what the Shard knows about the marker of a spot. Volatile.
type clearing struct {
	token    uint64   // of the marker on its way; 0: none is
	topic    [16]byte // of the partition
	sent     int32    // leader epoch of the partition when the marker was sent
	clear    int32    // the same of the last durable one, 0 for none: losses up to it left nothing
	failures int      // in a row
	at       time.Time
}

// maxClear bounds the spots that a Shard remembers, at about 130 bytes each. A spot that it has
// forgotten gets another marker.
const maxClear = 4096

// clears reports whether partitions can't be added to a transaction yet, because a marker may have
// been lost there. It sends what they need; the client asks again.
func (s *Shard) clears(e Add, t *transaction, list []Partition) (wait bool) {
	if s.cfg.Broken.Has(JoinLeftover) {
		return false
	}
	for _, p := range list {
		c := s.spots[spot{e.ProducerID, p}]
		switch {
		case c != nil && c.token != 0:
			wait = wait || !s.cfg.Broken.Has(AddUncleared)
		case s.isClear(c, p):
		case c != nil && c.at.After(s.now):
			wait = true
		default:
			s.clear(e, t, p)
			wait = true
		}
	}
	return wait
}

// isClear reports whether no transaction can have been left open in a partition by a loss.
func (s *Shard) isClear(c *clearing, p Partition) bool {
	_, lossy := s.topics.Epochs(p)
	if c == nil || c.topic != s.topics.ID(p.Topic) {
		return lossy == 0
	}
	return lossy <= c.clear || s.cfg.Broken.Has(ClearForGood) && c.clear > 0
}

// clear sends the marker of a spot.
func (s *Shard) clear(e Add, t *transaction, p Partition) {
	if len(s.spots) >= maxClear {
		maps.DeleteFunc(s.spots, func(at spot, c *clearing) bool { return c.token == 0 && at.pid != e.ProducerID })
	}
	at := spot{e.ProducerID, p}
	c := s.spots[at]
	if topic := s.topics.ID(p.Topic); c == nil || c.topic != topic {
		c = &clearing{topic: topic}
		s.spots[at] = c
	}
	s.tokens++
	c.token = s.tokens
	c.sent, _ = s.topics.Epochs(p)
	s.out.Send(WriteMarker{ID: e.ID, Token: c.token, ProducerID: e.ProducerID, Epoch: e.Epoch, CoordinatorEpoch: s.epoch,
		Commit: t.onlyCommits || s.cfg.Broken.Has(CommitLeftover), Version: 1, Partition: p})
}

// cleared handles the result of a marker of clear, and reports whether it is one. A partition that
// knows a later epoch of the producer has nothing open of this one.
func (s *Shard) cleared(e Marked) bool {
	c := s.spots[spot{e.ProducerID, e.Partition}]
	if c == nil || c.token != e.Token || c.token == 0 {
		return false
	}
	c.token = 0
	if e.Err == nil || e.Err == kerr.InvalidProducerEpoch {
		c.clear, c.failures = c.sent, 0
		return true
	}
	if s.cfg.Refused != nil {
		s.cfg.Refused(e.Err)
	}
	c.failures++
	c.at = s.now.Add(backoff.After(c.failures))
	return true
}
