package sharestate

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// Led is a share partition on the leader of its data partition.
type Led struct {
	// Err is NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION or COORDINATOR_NOT_AVAILABLE, if
	// the leader could not be asked.
	Err *kerr.Error
	// LogStart is where the log of the data partition begins, 0 if the leader is of a release that
	// does not return it. High is its high watermark.
	LogStart, High int64
	// Loaded reports that the leader has the window in memory. Otherwise the fields below are 0: no
	// member has fetched for minutes, or the state cannot be loaded.
	Loaded bool
	// Start is SPSO and End is SPEO.
	Start, End int64
	// The numbers of offsets from Start to End by their state: Acquired by members, Available,
	// those that wait for a retry delay included, Archiving, and Finished.
	Acquired, Available, Archiving, Finished int64
	// Counts are since the leader has the share partition in memory.
	Counts window.Counts
}

// Operating is what an operator asks the leader of a share partition. Between brokers its body is
// opaque.
type Operating struct {
	Key  format.Key
	Body []byte
}

// Operated is the leader's answer.
type Operated struct {
	Err  *kerr.Error
	Body []byte
}
