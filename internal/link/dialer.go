package link

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/pause"
)

// Dialer keeps one connection of a lane to a target until it is closed.
type Dialer struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when redial has returned

	mu    sync.Mutex
	since time.Time // when the first of the attempts in a row that failed began
	err   error     // of the last one, nil while it is connected
}

// Failing returns why the last attempt failed, and since when none has succeeded. The error is nil
// while there is a connection, and before the first attempt has ended.
func (d *Dialer) Failing() (since time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since, d.err
}

// note notes the end of an attempt.
func (d *Dialer) note(began time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && d.err == nil {
		d.since = began
	}
	d.err = err
}

// Follow keeps a connection of the lane of data to the target: it dials, calls run with each
// connection, and dials again after run has returned. run should return soon after the connection
// has ended. Options.Redial bounds the pause between two dials. At most one Dialer
// for a leader may be open: of two, each would end the other's connection.
func (l *Links) Follow(t Target, run func(*Conn)) *Dialer { return l.dial(t, Data, run) }

func (l *Links) dial(t Target, lane Lane, run func(*Conn)) *Dialer {
	ctx, cancel := context.WithCancel(l.ctx)
	var number uint32
	if lane == Meta {
		number = l.dialers.Add(1)
	}
	d := &Dialer{cancel: cancel, done: make(chan struct{})}
	if !l.spawn(func() { l.redial(ctx, d, t, lane, number, run); close(d.done) }) {
		cancel()
		close(d.done)
	}
	return d
}

// Close ends the connection and waits until run has returned.
func (d *Dialer) Close() {
	d.cancel()
	<-d.done
}

// redial dials until ctx ends.
func (l *Links) redial(ctx context.Context, d *Dialer, t Target, lane Lane, number uint32, run func(*Conn)) {
	short := 0 // attempts in a row that failed, or whose connection ended soon
	for ctx.Err() == nil {
		began := time.Now()
		l.connect(ctx, d, t, lane, number, run)
		if time.Since(began) >= l.opts.Redial.Most+l.opts.Handshake { // longer than a failed attempt: it was connected
			short = 0
		}
		short++
		pause.Wait(ctx.Done(), l.opts.Redial.Spread(short))
	}
}

// connect dials once, and runs the connection until it ends.
func (l *Links) connect(ctx context.Context, d *Dialer, t Target, lane Lane, number uint32, run func(*Conn)) {
	began := time.Now()
	dialing, cancel := context.WithTimeout(ctx, l.opts.Handshake)
	nc, err := l.opts.Dial(dialing, t.Address)
	cancel()
	if err != nil {
		d.note(began, err)
		kind := Unreachable
		m := (*Mismatch)(nil)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			kind = Refused
		case errors.As(err, &m):
			kind = Rejected
			l.logRefusal("broker at an address is not accepted", zap.String("address", t.Address), zap.Stringer("lane", lane),
				zap.Error(err))
		}
		l.opts.Notify(Event{Kind: kind, Lane: lane, Dialed: true, Target: t, Err: err})
		return
	}
	c := newConn(nc, true, &l.opts)
	stop := context.AfterFunc(ctx, c.Close)
	defer stop()
	if err := l.bounded(c, func() error { return l.negotiate(c, t, lane, number) }); err != nil {
		d.note(began, err)
		_ = c.fail(err)
		l.logRefusal("broker refused a connection, or was refused", zap.String("address", t.Address), zap.Stringer("lane", lane),
			zap.Error(err))
		l.opts.Notify(Event{Kind: Rejected, Lane: lane, Dialed: true, Target: t, Peer: c.peer, Err: err})
		return
	}
	d.note(began, nil)
	l.use(c, t, func() { run(c) })
}
