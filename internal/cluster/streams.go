package cluster

import (
	"cmp"
	"context"
	"sync"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/replica/stream"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// Streams connects the replica streams of a member to its links.
type Streams struct {
	*stream.Streams
	self    int32
	cluster *Cluster

	mu      sync.Mutex
	image   *metadata.Image // the latest one
	dialers map[*streamDialer]struct{}
}

// StreamsOptions configure Streams.
type StreamsOptions struct {
	Conf *configdef.Replica
	// Partition finds a partition of this broker. Serve must not be called before it can.
	Partition func(topic [16]byte, partition int32) (*replica.Partition, error)
	CopyRates func(p *replica.Partition, follower int32) (leader, copies int64) // as in stream.Options
}

// NewStreams returns the replica streams of a member, which begin with the first role of a
// partition.
func (c *Cluster) NewStreams(o StreamsOptions) *Streams {
	s := &Streams{self: c.o.Node, cluster: c, image: metadata.Empty(), dialers: map[*streamDialer]struct{}{}}
	opt := streamOptions(o.Conf)
	opt.Self, opt.Links, opt.Partition, opt.Logger = s.self, s, o.Partition, c.o.Log.Named("streams")
	opt.CopyRates = o.CopyRates
	s.Streams = stream.New(opt)
	c.follows.Store(s)
	return s
}

func streamOptions(conf *configdef.Replica) stream.Options {
	return stream.Options{Window: conf.Window, FollowBytes: conf.Follow, CatchUpRate: conf.CatchUpRate}
}

// Serve serves the connections of followers, until Close. Before it, they are closed at once, and
// the followers dial again.
func (s *Streams) Serve() {
	serve := func(c *link.Conn) { s.Streams.Serve(streamConn{c}) }
	s.cluster.streams.Store(&serve)
}

// Apply is a metadata.Subscriber: a broker may have registered with another address or directory.
func (s *Streams) Apply(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
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
func (s *Streams) Follow(broker int32, run func(stream.Conn)) stream.Dialer {
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
	streams *Streams
	broker  int32
	run     func(stream.Conn)
	changed chan struct{} // capacity 1, signaled by Apply: the image may show another target
	closing chan struct{} // closed by Close
	closed  chan struct{} // closed when run has returned for the last time
	now     dialed        // guarded by streams.mu
}

// dialed is what a streamDialer keeps connected now; without a dialer there is nothing to dial.
type dialed struct {
	address string
	dialer  *link.Dialer
}

// streamTarget is what a connection depends on: the registrations of both ends.
type streamTarget struct {
	link.Target
	epoch int64 // of this broker, which it states when it dials
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
			d.dials(dialed{})
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
			conn, at = s.cluster.links.Follow(to.Target, func(c *link.Conn) { d.run(streamConn{c}) }), to
			d.dials(dialed{at.Address, conn})
		}
	}
}

func (d *streamDialer) dials(now dialed) {
	d.streams.mu.Lock()
	d.now = now
	d.streams.mu.Unlock()
}

// Unreached returns the leaders to which no connection can be made now, by id.
func (s *Streams) Unreached() (list []view.Unreached) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := range s.dialers {
		if d.now.dialer == nil {
			continue
		}
		if since, err := d.now.dialer.Failing(); err != nil {
			x := unreached(d.broker, d.now.address, since, err)
			x.Follows = true
			list = append(list, x)
		}
	}
	sorts.Sort(list, func(a, b view.Unreached) int { return cmp.Compare(a.Broker, b.Broker) })
	return list
}

// target returns false if an image does not show where other brokers reach a broker, or if it does
// not have this one.
func (s *Streams) target(img *metadata.Image, broker int32) (t streamTarget, ok bool) {
	leader, known := img.Broker(broker)
	self, registered := img.Broker(s.self)
	at, found := leader.Peer()
	return streamTarget{link.Target{Address: address(at.Host, at.Port), Node: broker, Member: leader.Member}, self.Epoch},
		known && registered && found
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
