package load

import (
	"context"
	"time"

	"github.com/chronik-io/chronik/internal/bench/wire"
)

// link is the connection of one worker to the broker that leads its partitions.
type link struct {
	cluster   *Cluster
	index, of int

	conn       *wire.Conn
	partitions []int32
	// renew is when the deadline set on the connection is moved on, by the
	// window's clock.
	renew time.Duration
	// unwatch ends the watch that closes the connection when the run's context
	// ends; nil while there is none.
	unwatch func() bool
}

// renewEvery is how often a connection's deadline is moved, which takes a lock in
// the runtime: an answer is waited for answerTimeout less up to so long.
const renewEvery = 5 * time.Second

// connect connects to the leader that is known.
func (l *link) connect(ctx context.Context) error {
	addr, partitions := l.cluster.place(l.index, l.of)
	conn, err := wire.Dial(ctx, addr)
	if err != nil {
		return err
	}
	l.conn, l.partitions, l.renew = conn, partitions, 0
	return nil
}

// ready connects, to the leader that the brokers name now, unless it is connected,
// and sees to it that the connection ends with ctx. fresh says that the connection
// is a new one.
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
			// The worker sees the error that this makes.
			_ = conn.Close()
		})
	}
	return fresh, nil
}

// exchange sends frames and waits for an answer, but not for ever.
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

// close gives the connection up.
func (l *link) close() {
	if l.unwatch != nil {
		l.unwatch()
		l.unwatch = nil
	}
	if l.conn != nil {
		// What it should have answered is counted by whoever gives it up.
		_ = l.conn.Close()
		l.conn = nil
	}
}
