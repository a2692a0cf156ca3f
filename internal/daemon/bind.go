package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/network"
)

// Network opens a broker's addresses and its connections to other brokers. Its methods are like
// those of net.ListenConfig and net.Dialer.
type Network interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// kernel is the network of the operating system.
type kernel struct {
	net.ListenConfig
	net.Dialer
}

// bound holds every address of a configuration, open and not yet served.
type bound struct {
	clients [][]net.Listener // by index in cfg.Listeners
	admin   net.Listener     // nil if it is off
	local   net.Listener     // see Options.Local; nil if there is none
}

// bind opens all addresses before anything else happens, so that a taken address leaves no trace on
// disk. Clients that connect in the meantime wait in the kernel's queue until the broker serves
// them.
func bind(ctx context.Context, cfg *config.Config, on Network, local net.Listener) (*bound, error) {
	b := &bound{local: local}
	for i, l := range cfg.Listeners {
		setting := config.KeyListen
		if i > 0 {
			setting = "listeners: name " + l.Name
		}
		x, err := listenOn(ctx, l.Listen, on)
		if err != nil {
			return nil, errors.Join(addressError(setting, l.Listen, err), b.close())
		}
		b.clients = append(b.clients, x)
	}
	if cfg.AdminListen != "" {
		x, err := on.Listen(ctx, "tcp", cfg.AdminListen)
		if err != nil {
			return nil, errors.Join(addressError(config.KeyAdminListen, cfg.AdminListen, err), b.close())
		}
		b.admin = x
	}
	return b, nil
}

// listenOn opens an address. localhost means both loopback addresses, if this machine has both: if
// the name resolves to ::1 too, clients dial that first, and some (librdkafka-based ones) treat one
// refused connection as a broker that is down.
func listenOn(ctx context.Context, address string, on Network) ([]net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != config.Localhost {
		l, err := on.Listen(ctx, "tcp", address)
		return []net.Listener{l}, err
	}
	four, err := on.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	_, port, _ = net.SplitHostPort(four.Addr().String()) // the actual port if it was 0
	six, err := on.Listen(ctx, "tcp6", net.JoinHostPort("::1", port))
	switch {
	case err == nil:
		return []net.Listener{four, six}, nil
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		return []net.Listener{four}, nil
	}
	return nil, errors.Join(err, four.Close())
}

// close closes all addresses; components that serve them may have closed them already.
func (b *bound) close() error {
	var errs []error
	for _, l := range slices.Concat(b.clients...) {
		errs = append(errs, ignoreClosed(l.Close()))
	}
	for _, l := range []net.Listener{b.admin, b.local} {
		if l != nil {
			errs = append(errs, ignoreClosed(l.Close()))
		}
	}
	return errors.Join(errs...)
}

// ignoreClosed treats "already closed" as success: a component that serves a listener closes it.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// addressError explains why an address cannot be bound. setting is the name of the setting that
// holds the address.
func addressError(setting, address string, err error) error {
	setting = config.Named(setting)
	remedy := "choose an address of this machine with " + setting
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		remedy = "another process listens there: stop it, or choose another address with " + setting
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		remedy = "this machine has no such address: choose one that it has with " + setting
	case errors.Is(err, syscall.EACCES):
		remedy = "ports below 1024 need a privilege: choose a higher port with " + setting
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		remedy = exit.MoreFiles
	case errors.As(err, new(*net.DNSError)):
		remedy = "write an address of this machine, or a name that resolves to one, in " + setting
	}
	return exit.With(exit.Address, fmt.Errorf("cannot listen on %s: %w; %s", address, exit.Cause(err), remedy))
}

// listenerOf converts a listener to network's type.
func listenerOf(l config.Listener, c *guard.Certificates) *network.Listener {
	n := &network.Listener{Name: l.Name, TLS: c.TLSOf(l.Name), SASL: len(l.SASL) > 0, Forward: l.Forward}
	if l.Advertise != "" {
		n.AdvertisedHost, n.AdvertisedPort = config.HostPort(l.Advertise)
	}
	return n
}
