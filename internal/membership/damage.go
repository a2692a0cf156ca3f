package membership

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/sorts"
)

// DamagedLog is a log that lacks what it should have.
type DamagedLog struct {
	metadata.TopicPartition
	Dir  [16]byte
	Only bool // the partition has no other replica
}

// AddDamage adds damaged logs to the state of a broker, always in the same order: the controller
// writes a broker's state when a heartbeat differs from it. If they are too many for one, those
// that are the only replica are left out, because no other one can lead. If that is not enough, the
// directories that have the most count as failed: the controller would refuse the heartbeat, and
// fence a broker whose other logs are intact.
func (s *BrokerState) AddDamage(damaged []DamagedLog) {
	sorts.Sort(damaged, func(a, b DamagedLog) int {
		return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
	})
	if len(damaged) > controller.MaxReportedDamaged {
		damaged = slices.DeleteFunc(damaged, func(l DamagedLog) bool { return l.Only })
	}
	byDir := map[[16]byte]int{}
	for _, l := range damaged {
		byDir[l.Dir]++
	}
	for left := len(damaged); left > controller.MaxReportedDamaged; {
		most := damaged[0].Dir
		for _, l := range damaged { // of equal ones always the same: heartbeats must not differ
			if byDir[l.Dir] > byDir[most] {
				most = l.Dir
			}
		}
		left -= byDir[most]
		delete(byDir, most)
		s.Unable = slices.DeleteFunc(s.Unable, func(d metadata.UnableDir) bool { return d.ID == most })
		s.Unable = append(s.Unable, metadata.UnableDir{ID: most, Why: metadata.DirFailed})
	}
	for _, l := range damaged {
		if byDir[l.Dir] > 0 {
			s.Damaged = append(s.Damaged, l.TopicPartition)
		}
	}
}
