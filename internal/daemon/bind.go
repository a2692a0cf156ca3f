package daemon

import (
	"context"
	"errors"
	"net"

	"github.com/chronik-io/chronik/internal/daemon/config"
)

// bound is every address of a configuration, open and not yet served.
type bound struct {
	clients []net.Listener // as cfg.Listeners
	admin   net.Listener   // nil where it is off
}

// bind opens all addresses before anything else happens, so that one that is
// taken leaves no trace on disk. Clients that connect meanwhile wait in the
// kernel's queue until the broker serves them.
func bind(ctx context.Context, cfg *config.Config) (*bound, error) {
	b := &bound{}
	var lc net.ListenConfig
	for i, l := range cfg.Listeners {
		setting := config.KeyListen
		if i > 0 {
			setting = "listeners: name " + l.Name
		}
		x, err := lc.Listen(ctx, "tcp", l.Listen)
		if err != nil {
			return nil, errors.Join(addressError(setting, l.Listen, err), b.close())
		}
		b.clients = append(b.clients, x)
	}
	if cfg.AdminListen != "" {
		x, err := lc.Listen(ctx, "tcp", cfg.AdminListen)
		if err != nil {
			return nil, errors.Join(addressError(config.KeyAdminListen, cfg.AdminListen, err), b.close())
		}
		b.admin = x
	}
	return b, nil
}

// close closes all of them; rooms that serve one may have done so before.
func (b *bound) close() error {
	var errs []error
	for _, l := range b.clients {
		errs = append(errs, ignoreClosed(l.Close()))
	}
	if b.admin != nil {
		errs = append(errs, ignoreClosed(b.admin.Close()))
	}
	return errors.Join(errs...)
}

// ignoreClosed takes "already closed" for closed: a room that serves a listener
// closes it.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
