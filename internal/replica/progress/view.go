package progress

// Dir is the id of a log directory. Its zero value means that none is recorded.
type Dir = [16]byte

// View is the part of a metadata image that concerns one partition.
type View struct {
	// Version is the revision of the image, Revision the one that last changed the partition's
	// record.
	Version, Revision int64
	// MinISR is the topic's min.insync.replicas. It may exceed the number of replicas.
	MinISR int
	// Written states that the topic's profile acknowledges records when they are written. Otherwise
	// they must be durable.
	Written bool
	// Notes states that a leader's log must note the epoch before anything is committed in it; see
	// Leader.Note. Below a feature level of the cluster logs note nothing.
	Notes bool
	// Replicas are the replicas of the record, in its order.
	Replicas []Replica
}

// Replica is one replica in a View.
type Replica struct {
	Broker int32
	// Adding states that a reassignment adds the replica. It does not count as one of those that
	// min.insync.replicas is compared with, or a copy in progress would refuse appends.
	Adding bool
	// InSync and Eligible state that the record has the replica in its ISR or ELR. A replica is
	// never in both.
	InSync, Eligible bool
	// BrokerEpoch is the revision of the broker's registration, 0 if it has none.
	BrokerEpoch int64
	// Liveness is the revision of the broker's liveness record.
	Liveness int64
	// Active states that the broker is neither fenced nor draining nor drained, and has not
	// reported the replica's log or its directory as failed.
	Active bool
	// Placement is the log directory that the metadata records for the replica.
	Placement Dir
}

// EffectiveMinISR returns MinISR, limited to the number of replicas that are not being added.
func (v *View) EffectiveMinISR() int {
	stay := 0
	for i := range v.Replicas {
		if !v.Replicas[i].Adding {
			stay++
		}
	}
	return max(1, min(v.MinISR, stay))
}

// Proposal is a change of a partition's ISR and ELR. The metadata store must refuse it unless the
// partition's record still has Revision and every registration and liveness record of Members still
// has its revision.
type Proposal struct {
	// ID is unique among the proposals of all leader epochs. A repetition has the ID of the first
	// copy.
	ID       uint64
	Revision int64
	ISR, ELR []int32
	// Members are the leader and the replicas that join the ISR.
	Members []Compare
	// Reason is the reason to report.
	Reason Reason
}

// Compare holds the revisions of a broker's registration and liveness record that a Proposal
// depends on.
type Compare struct {
	Broker      int32
	BrokerEpoch int64
	Liveness    int64
}

// Reason is the reason of a Proposal. If there are several, it is the first in this order.
type Reason uint8

// The reasons.
const (
	NoReason   Reason = iota
	Damaged           // a member's log ends below the high watermark, or is damaged: report loudly
	Offline           // a member reported its replica offline
	Gone              // a member's stream ended and did not come back
	Lagging           // a member was not caught up for replica.lag.time.max.ms
	Stalled           // a member held the high watermark for replica.stall.time.max.ms
	CaughtUp          // replicas join
	EnoughLive        // the ISR has min.insync.replicas members, so that no ELR is needed
)

// String returns the reason as a log field.
func (r Reason) String() string {
	switch r {
	case Damaged:
		return "damaged"
	case Offline:
		return "offline"
	case Gone:
		return "gone"
	case Lagging:
		return "lagging"
	case Stalled:
		return "stalled"
	case CaughtUp:
		return "caught-up"
	case EnoughLive:
		return "enough-live"
	default:
		return "none"
	}
}
