package broker

import (
	"net"
	"slices"
	"strconv"
	"strings"

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

// endpoints returns the addresses of the brokers of a set for clients of the request's listener. It
// omits brokers that clients cannot use.
func (b *Handler) endpoints(r *network.Request, ids nodeSet) []protocol.NodeEndpoint {
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

// node returns the address of a broker for clients of the request's listener. ok is false if the
// broker is not registered, has no such listener, or leads nothing: clients would find no leader
// there, and a drained broker is about to end.
func (b *Handler) node(r *network.Request, img *metadata.Image, id int32) (n protocol.NodeEndpoint, ok bool) {
	if isFenced(img, id) {
		return n, false
	}
	return b.address(r, img, id)
}

func isFenced(img *metadata.Image, id int32) bool {
	state, _ := img.Liveness(id)
	return !state.Serves()
}

// address is node for any registered broker. The address of this broker is what the listener
// advertises, or the one that the client dialed. The address of another broker is the one with
// which its listener of the same name is registered: the names of listeners are the same on all
// brokers of a cluster. A listener that forwards is the address of all brokers.
func (b *Handler) address(r *network.Request, img *metadata.Image, id int32) (n protocol.NodeEndpoint, ok bool) {
	broker, ok := img.Broker(id)
	if !ok {
		return n, false
	}
	n = protocol.NodeEndpoint{ID: id, Rack: broker.Rack}
	if id != b.opt.Self && !r.Listener.Forward {
		at, ok := broker.Endpoint(r.Listener.Name)
		n.Host, n.Port = at.Host, at.Port
		return n, ok
	}
	n.Host, n.Port = r.Listener.AdvertisedHost, r.Listener.AdvertisedPort
	if r.Listener.Forward {
		n.Host = strings.ReplaceAll(n.Host, network.BrokerID, strconv.Itoa(int(id)))
	}
	if tcp, ok := r.Local.(*net.TCPAddr); ok {
		if n.Host == "" {
			n.Host = tcp.IP.String()
		}
		if n.Port == 0 {
			n.Port = int32(tcp.Port)
		}
	}
	return n, true
}
