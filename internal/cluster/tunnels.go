package cluster

import (
	"context"
	"fmt"
	"net"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/network"
)

// Tunnel opens a connection on which a broker serves a client of this one.
func (s *Streams) Tunnel(ctx context.Context, broker int32, of *network.Adopted) (net.Conn, error) {
	s.mu.Lock()
	img := s.image
	s.mu.Unlock()
	to, ok := s.target(img, broker)
	if !ok {
		return nil, fmt.Errorf("the address of broker %d is not known", broker)
	}
	from := &of.Session
	t, err := s.cluster.links.Tunnel(ctx, to.Target, &link.ClientHello{
		Listener: from.Listener, Host: of.Host, Port: of.Port, Principal: from.Principal, PrincipalHost: from.Host,
		Mechanism: from.Mechanism, Address: of.Peer, Software: of.Name, SoftwareVersion: of.Version,
	})
	if err != nil {
		return nil, err // not a nil *link.Tunnel
	}
	return t, nil
}

// client serves a tunnel of another broker.
func (c *Cluster) client(t *link.Tunnel, early []byte, node int32, of *link.ClientHello) {
	err := net.ErrClosed
	if c.o.Adopt != nil {
		err = c.o.Adopt(t, early, &network.Adopted{
			Front: node, Host: of.Host, Port: of.Port, Peer: of.Address,
			Session:  network.Session{Principal: of.Principal, Host: of.PrincipalHost, Listener: of.Listener, Mechanism: of.Mechanism},
			Software: network.Software{Name: of.Software, Version: of.SoftwareVersion},
			Ended:    func() { _ = t.Close() }, // a failed close takes nothing back that was promised
		})
	}
	if err != nil {
		_ = t.Close() // the broker at the other end notices, and reports what it could not pass on
		c.o.Log.Debug("client of another broker not served", zap.Int32("node", node), zap.Error(err))
	}
}
