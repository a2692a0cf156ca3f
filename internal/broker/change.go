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
)

// change is one request that changes metadata: what it has made, and until when it
// waits to see that.
type change struct {
	b         *Broker
	r         *network.Request
	deadline  time.Time
	revisions []int64 // of what it has made
}

// newChange begins a change whose request named a timeout; one without a
// timeout of its own passes changeTimeout.
func (b *Broker) newChange(r *network.Request, timeout time.Duration) *change {
	return &change{b: b, r: r, deadline: r.Received.Add(timeout)}
}

// made notes a revision; 0 is that of a change which was only validated.
func (c *change) made(revision int64) {
	if revision > 0 && !slices.Contains(c.revisions, revision) {
		c.revisions = append(c.revisions, revision)
	}
}

// do runs one operation of the controller. What the request's time bounds is the
// wait for the change to be seen, not the change: to give up in the midst of a
// write would leave nobody knowing whether it was made.
func (c *change) do(ctx context.Context, op func(context.Context) (revision int64, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	revision, err := op(ctx)
	c.made(revision)
	return err
}

// seen waits until everything that was made is seen by requests to come, and the logs
// that it asks for were made or failed. The error is that of the waiting: the changes
// are made.
func (c *change) seen(ctx context.Context) error {
	for _, revision := range c.revisions {
		if err := c.b.waitApplied(ctx, revision, time.Until(c.deadline)); err != nil {
			return err
		}
	}
	return nil
}

// verdict is how an answer tells of an error: code and words; 0 and nil for
// none. The request's code for metrics is noted too.
func (c *change) verdict(err error) (int16, *string) {
	n, msg := verdict(err)
	if n != 0 {
		c.r.Code = n
	}
	return n, msg
}

// verdict is how an answer tells of an error: code and words.
func verdict(err error) (int16, *string) {
	if err == nil {
		return 0, nil
	}
	return code(changeError(err)), kmsg.StringPtr(words(err))
}

// changeError gives an error of the metadata store the meaning that it has where
// the store was to be changed: for who reads and writes records it has another.
func changeError(err error) error {
	switch {
	case errors.Is(err, metadata.ErrFailed):
		return refuse(kerr.KafkaStorageError, "%s", err)
	case errors.Is(err, metadata.ErrTooLarge):
		return refuse(kerr.PolicyViolation, "%s", err)
	case errors.Is(err, metadata.ErrClosed), errors.Is(err, context.Canceled):
		return refuse(kerr.NotController, "the broker is stopping: %s", err) // clients look for another and retry
	}
	return err
}

// milliseconds of a request, as a duration; negative ones are none.
func milliseconds(ms int32) time.Duration { return time.Duration(max(ms, 0)) * time.Millisecond }

// counts says how often each entry of a request occurs: what is named twice is
// refused, as nobody can say which of the two is meant.
func counts[E any, K comparable](entries []E, key func(*E) K) map[K]int {
	n := make(map[K]int, len(entries))
	for i := range entries {
		n[key(&entries[i])]++
	}
	return n
}

var errDuplicateTopic = refuse(kerr.InvalidRequest, "Duplicate topic name.")
