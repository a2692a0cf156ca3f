package window

// State is the delivery state of an offset. The numbers are those of Kafka's records and requests,
// except Delayed.
type State uint8

// The states.
const (
	// Available offsets can be acquired.
	Available State = 0
	// Acquired offsets are held by a member until a deadline. This state is never stored.
	Acquired State = 1
	// Acknowledged offsets were accepted.
	Acknowledged State = 2
	// Archiving offsets are archived when they have been copied as dead letters (KIP-1191).
	Archiving State = 3
	// Archived offsets are not delivered again.
	Archived State = 4
	// Delayed offsets were released and are available after the retry delay. They are stored as
	// Available.
	Delayed State = 5

	states = 6
)

// String returns the state's name.
func (s State) String() string {
	return [states]string{"available", "acquired", "acknowledged", "archiving", "archived", "delayed"}[s]
}

// terminal reports whether an offset is finished.
func (s State) terminal() bool { return s == Acknowledged || s == Archived }

// run is a range of offsets with equal values. 1,000,000 records that are acquired in 100 share
// partitions may each be a run, so leaves store them packed.
type run struct {
	first, n int64
	// ref is a grant if the run has the flag held. Otherwise it is the member whose acknowledgement
	// is not durable yet, or 0.
	ref   uint32
	count uint16 // deliveries
	state State
	flags uint8
}

// The flags of a run. Without dirty and sent its mark is durable, or it needs none.
const (
	dirty   uint8 = 1 << iota // the next write has its mark; its value, 1, is added up
	sent                      // the write under way has its mark
	held                      // ref is a grant
	copying                   // it is being copied as a dead letter
)

func (r run) last() int64 { return r.first + r.n - 1 }

// Properties of runs by which the tree finds them.
const (
	hasAvailable uint8 = 1 << iota
	hasDirty
	hasSent
	hasCopy     // Archiving, durable, and not being copied yet
	hasAcquired // Acquired
)

// has returns the properties of the run.
func (r *run) has() uint8 { v := r.values(); return v.has() }

func (v *values) has() (has uint8) {
	switch v.state {
	case Available:
		has |= hasAvailable
	case Acquired:
		has |= hasAcquired
	}
	if v.flags&dirty != 0 {
		has |= hasDirty
	}
	if v.flags&sent != 0 {
		has |= hasSent
	}
	if v.state == Archiving && v.flags&(dirty|sent|copying) == 0 {
		has |= hasCopy
	}
	return has
}
