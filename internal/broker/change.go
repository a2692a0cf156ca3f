package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// change is one request that changes metadata: the revisions that it created, and until when it
// waits to see them.
type change struct {
	b         *Handler
	r         *network.Request
	deadline  time.Time
	revisions []int64 // that it created
}

// newChange begins a change with the timeout of its request; a request without one passes
// changeTimeout.
func (b *Handler) newChange(r *network.Request, timeout time.Duration) *change {
	return &change{b: b, r: r, deadline: r.Received.Add(timeout)}
}

// addRevision records a revision; 0 stands for a change that was only validated.
func (c *change) addRevision(revision int64) {
	if revision > 0 && !slices.Contains(c.revisions, revision) {
		c.revisions = append(c.revisions, revision)
	}
}

// do runs one operation of the controller. The request's timeout bounds the wait for the change to
// become visible, not the change itself: if a write were interrupted, its result would be unknown.
func (c *change) do(ctx context.Context, op func(context.Context) (revision int64, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	revision, err := op(ctx)
	c.addRevision(revision)
	return err
}

// waitVisible waits until later requests see everything that was changed, and the logs of new
// partitions were created or failed. Its error concerns only the wait: the changes are made.
func (c *change) waitVisible(ctx context.Context) error {
	for _, revision := range c.revisions {
		if err := c.b.waitApplied(ctx, revision, time.Until(c.deadline)); err != nil {
			return err
		}
	}
	return nil
}

// verdict returns the code and message of an error, 0 and nil for none. It also sets the request's
// code for metrics.
func (c *change) verdict(err error) (int16, *string) {
	n, msg := c.b.verdict(c.r, err)
	if n != 0 {
		c.r.Code = n
	}
	return n, msg
}

// verdict is the package's verdict, for an answer to a request.
func (b *Handler) verdict(r *network.Request, err error) (int16, *string) {
	n, msg := verdict(err)
	return b.answered(protocol.NameOf(r.Key), err, n), msg
}

// verdict returns the code and message of an error.
func verdict(err error) (int16, *string) {
	if err == nil {
		return 0, nil
	}
	err = changeError(err)
	return code(err), kmsg.StringPtr(message(err))
}

// changeError maps errors of a store that is closed, which mean something else when records are
// read or written: clients of changes look for another controller and retry.
func changeError(err error) error {
	if errors.Is(err, metadata.ErrClosed) || errors.Is(err, context.Canceled) {
		return protocolErrorf(kerr.NotController, "the broker is stopping: %s", err)
	}
	return err
}

// milliseconds returns a request's milliseconds as a duration; a negative number counts as 0.
func milliseconds(ms int32) time.Duration { return time.Duration(max(ms, 0)) * time.Millisecond }

// counts returns how often each entry of a request occurs. An entry that is named twice is refused,
// because it is unclear which of the two is meant.
func counts[E any, K comparable](entries []E, key func(*E) K) map[K]int {
	n := make(map[K]int, len(entries))
	for i := range entries {
		n[key(&entries[i])]++
	}
	return n
}

var errDuplicateTopic = protocolErrorf(kerr.InvalidRequest, "Duplicate topic name.")
