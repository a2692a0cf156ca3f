package load

import (
	"context"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// link is the connection of one worker to the broker that leads its partitions.
type link struct {
	cluster   *Cluster
	index, of int

	conn       *wire.Conn
	partitions []int32
	// renew is the time on the window's clock at which the deadline of the connection is extended.
	renew time.Duration
	// unwatch stops the function that closes the connection when the run's context ends; nil if it
	// is not registered.
	unwatch func() bool
}

// renewEvery is how often a connection's deadline is extended, which takes a lock in the runtime:
// the timeout of a response is shorter than answerTimeout by up to this time.
const renewEvery = 5 * time.Second

// connect connects to the known leader.
func (l *link) connect(ctx context.Context) error {
	addr, partitions := l.cluster.place(l.index, l.of)
	conn, err := wire.Dial(ctx, addr, l.cluster.Secure)
	if err != nil {
		return err
	}
	l.conn, l.partitions, l.renew = conn, partitions, 0
	return nil
}

// ready connects to the current leader unless there is a connection, and closes the connection when
// ctx ends. fresh reports whether the connection is new.
func (l *link) ready(ctx context.Context) (fresh bool, err error) {
	if l.conn == nil {
		l.cluster.refresh(ctx)
		if err := l.connect(ctx); err != nil {
			return false, err
		}
		fresh = true
	}
	if l.unwatch == nil {
		conn := l.conn
		l.unwatch = context.AfterFunc(ctx, func() {
			// The worker sees the resulting error.
			_ = conn.Close()
		})
	}
	return fresh, nil
}

// exchange sends frames and waits a limited time for a response.
func (l *link) exchange(now time.Duration, frames []byte, idle bool) error {
	if err := l.bound(now); err != nil {
		return err
	}
	return l.conn.Exchange(frames, idle)
}

// send sends frames.
func (l *link) send(now time.Duration, frames []byte) error {
	if err := l.bound(now); err != nil {
		return err
	}
	return l.conn.Send(frames)
}

func (l *link) bound(now time.Duration) error {
	if now < l.renew {
		return nil
	}
	l.renew = now + renewEvery
	return l.conn.SetDeadline(time.Now().Add(answerTimeout))
}

// close closes the connection.
func (l *link) close() {
	if l.unwatch != nil {
		l.unwatch()
		l.unwatch = nil
	}
	if l.conn != nil {
		// The caller counts the requests without a response.
		_ = l.conn.Close()
		l.conn = nil
	}
}
