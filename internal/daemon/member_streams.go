package daemon

import (
	"context"
	"sync"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/replica/stream"
)

// streams connects the replica streams of a member to its links.
type streams struct {
	*stream.Streams
	self   int32
	member *member

	mu      sync.Mutex
	image   *metadata.Image // the latest one
	dialers map[*streamDialer]struct{}
}

// newStreams returns the replica streams of a member, which begin with the first role of a
// partition. partition finds a partition of this broker; serveStreams must not be called before it
// can.
func (b *Broker) newStreams(r *components, partition func([16]byte, int32) (*replica.Partition, error)) *streams {
	s := &streams{self: r.conf.NodeID, member: r.member, image: metadata.Empty(), dialers: map[*streamDialer]struct{}{}}
	opt := streamOptions(&r.conf.Cluster.Replica)
	opt.Self, opt.Links, opt.Partition, opt.Logger = s.self, s, partition, b.log.Named("streams")
	opt.CopyRates = r.settings.CopyRates
	s.Streams = stream.New(opt)
	return s
}

func streamOptions(conf *configdef.Replica) stream.Options {
	return stream.Options{Window: conf.Window, FollowBytes: conf.Follow, CatchUpRate: conf.CatchUpRate}
}

// serveStreams serves the connections of followers, until the broker stops.
func (b *Broker) serveStreams(s *streams) {
	b.stack.push("streams", s.Close)
	s.member.ServeStreams(func(c *link.Conn) { s.Serve(streamConn{c}) })
}

// Apply is a metadata.Subscriber: a broker may have registered with another address or directory.
func (s *streams) Apply(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.image = next
	if d == nil || d.Brokers {
		for d := range s.dialers {
			d.notify()
		}
	}
	return nil
}

// Follow implements stream.Links.
func (s *streams) Follow(broker int32, run func(stream.Conn)) stream.Dialer {
	d := &streamDialer{streams: s, broker: broker, run: run, changed: make(chan struct{}, 1), closing: make(chan struct{}),
		closed: make(chan struct{})}
	d.notify()
	s.mu.Lock()
	s.dialers[d] = struct{}{}
	s.mu.Unlock()
	go d.follow()
	return d
}

// streamDialer keeps a connection to a leader, whatever address it registers.
type streamDialer struct {
	streams *streams
	broker  int32
	run     func(stream.Conn)
	changed chan struct{} // the image may show another target
	closing chan struct{} // closed by Close
	closed  chan struct{} // closed when run has returned for the last time
}

// streamTarget is what a connection depends on: the registrations of both ends.
type streamTarget struct {
	member   uint64
	endpoint metadata.Endpoint
	epoch    int64 // of this broker, which it states when it dials
}

func (d *streamDialer) notify() {
	select {
	case d.changed <- struct{}{}:
	default: // it has not handled the last change yet
	}
}

// follow dials the broker whenever its target changes, until Close.
func (d *streamDialer) follow() {
	defer close(d.closed)
	var conn *link.Dialer
	var at streamTarget
	hangUp := func() {
		if conn != nil {
			conn.Close()
			conn = nil
		}
	}
	defer hangUp()
	for {
		select {
		case <-d.closing:
			return
		case <-d.changed:
		}
		s := d.streams
		s.mu.Lock()
		img := s.image
		s.mu.Unlock()
		to, ok := s.target(img, d.broker)
		if ok && conn != nil && to == at {
			continue
		}
		hangUp()
		if ok {
			conn, ok = s.member.Follow(img, d.broker, func(c *link.Conn) { d.run(streamConn{c}) })
		}
		if ok {
			at = to
		} else {
			conn = nil
		}
	}
}

func (s *streams) target(img *metadata.Image, broker int32) (t streamTarget, ok bool) {
	leader, ok := img.Broker(broker)
	if !ok {
		return t, false
	}
	self, ok := img.Broker(s.self)
	t.member, t.epoch = leader.Member, self.Epoch
	if at, found := leader.Endpoint(s.member.Listener()); found {
		t.endpoint = at
		return t, ok
	}
	return t, false
}

// Close implements stream.Dialer.
func (d *streamDialer) Close() {
	d.streams.mu.Lock()
	_, open := d.streams.dialers[d]
	delete(d.streams.dialers, d)
	d.streams.mu.Unlock()
	if open {
		close(d.closing)
	}
	<-d.closed
}

// streamConn is a link.Conn as package stream sees it.
type streamConn struct{ *link.Conn }

// Broker implements stream.Conn.
func (c streamConn) Broker() int32 { return c.Peer().Node }

// BrokerEpoch implements stream.Conn.
func (c streamConn) BrokerEpoch() int64 { return c.Peer().BrokerEpoch }

// Start implements stream.Conn.
func (c streamConn) Start(s stream.Source) { c.Conn.Start(streamSource{s}) }

type streamSource struct{ stream.Source }

// Fill implements link.Source.
func (s streamSource) Fill(v *link.Vector) { s.Source.Fill(v) }
