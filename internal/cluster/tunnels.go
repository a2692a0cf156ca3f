package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/network"
)

// Tunnel dials a broker, and returns a connection on which it serves a client of this one. It
// blocks until the handshake has ended or ctx has. The caller closes the connection, which also
// ends with the links to the broker.
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

// errNoClients is why a tunnel ends that is dialed before this broker serves clients.
var errNoClients = errors.New("this broker does not serve clients yet")

// serveTunnel serves a tunnel of another broker, for a client that has sent hello there.
func (c *Cluster) serveTunnel(t *link.Tunnel, early []byte, node int32, hello *link.ClientHello) {
	err := errNoClients
	if c.o.Adopt != nil {
		err = c.o.Adopt(t, early, &network.Adopted{
			Front: node, Host: hello.Host, Port: hello.Port, Peer: hello.Address,
			Session: network.Session{Principal: hello.Principal, Host: hello.PrincipalHost, Listener: hello.Listener,
				Mechanism: hello.Mechanism},
			Software: network.Software{Name: hello.Software, Version: hello.SoftwareVersion},
			Ended:    func() { _ = t.Close() }, // if that fails, the connection has ended all the same
		})
	}
	if err != nil {
		_ = t.Close() // the broker at the other end notices, and reports what it could not pass on
		c.o.Log.Debug("client of another broker not served", zap.Int32("node", node), zap.Error(err))
	}
}
