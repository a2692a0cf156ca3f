package grouping

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// answerTimeout is how long a response may take. A join waits for other members.
const answerTimeout = 5 * time.Minute

// dial connects; the connection is closed when ctx ends.
func dial(ctx context.Context, addr string) (*wire.Caller, error) {
	return wire.DialCaller(ctx, addr, nil, answerTimeout)
}

// busyPause is how long a member waits before it retries a coordinator that is not ready.
const busyPause = 100 * time.Millisecond

// busy reports whether err means that the coordinator is not ready yet.
func busy(err error) bool {
	return errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.CoordinatorNotAvailable) ||
		errors.Is(err, kerr.NotCoordinator)
}
