package broker

import (
	"net"
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// nodeSet holds the brokers that an answer names as leaders (KIP-951).
type nodeSet []int32

func (s *nodeSet) add(id int32) {
	if id >= 0 && !slices.Contains(*s, id) {
		*s = append(*s, id)
	}
}

// endpoints returns the addresses of the brokers of a set for clients of the request's listener.
func (b *Broker) endpoints(r *network.Request, ids nodeSet) []protocol.NodeEndpoint {
	if len(ids) == 0 {
		return nil
	}
	img := b.image()
	var list []protocol.NodeEndpoint
	for _, id := range ids {
		if n, ok := b.node(r, img, id); ok {
			list = append(list, n)
		}
	}
	return list
}

// node returns the address of a broker for clients of the request's listener: what the listener
// advertises, or the address that the client dialed.
func (b *Broker) node(r *network.Request, img *metadata.Image, id int32) (protocol.NodeEndpoint, bool) {
	broker, ok := img.Broker(id)
	if !ok {
		return protocol.NodeEndpoint{}, false
	}
	host, port := r.Listener.AdvertisedHost, r.Listener.AdvertisedPort
	if tcp, ok := r.Local.(*net.TCPAddr); ok {
		if host == "" {
			host = tcp.IP.String()
		}
		if port == 0 {
			port = int32(tcp.Port)
		}
	}
	return protocol.NodeEndpoint{ID: id, Host: host, Port: port, Rack: broker.Rack}, true
}
