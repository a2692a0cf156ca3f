package top

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/admin/api"
	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/group"
	"github.com/chronik-io/chronik/internal/ctl/topic"
)

// sample is what was known at one moment. Most of it are counters: two samples give rates.
type sample struct {
	at      time.Time
	brokers []brokerNow
	topics  []topic.Total // nil where they are not known
	groups  []groupNow

	// Of the broker behind the admin port; empty where none answered.
	admin       int32 // its id, -1 where it is not known
	metrics     map[string]float64
	connections []api.Connection

	missing []string // what could not be asked, and why
	failed  bool     // some of it is known to be there: the broker did not answer
}

type brokerNow struct {
	id      int32
	address string
	leads   int
}

type groupNow struct {
	name string
	group.Standing
	err error
}

// collector asks for samples.
type collector struct {
	a    *app.App
	adm  *kadm.Client
	port *app.AdminPort // nil for none
}

// sample asks for all. The error is that of asking the brokers for what everything else
// needs; what cannot be asked beside it is named in the sample.
func (k *collector) sample(ctx context.Context) (*sample, error) {
	m, err := k.adm.Metadata(ctx)
	if err != nil {
		return nil, app.Refused("ask for the cluster", app.Words(err), "")
	}
	s := &sample{at: time.Now(), admin: -1}
	for _, b := range m.Brokers {
		now := brokerNow{id: b.NodeID, address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))}
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if p.Leader == b.NodeID {
					now.leads++
				}
			}
		}
		s.brokers = append(s.brokers, now)
	}
	if s.topics, err = topic.Totals(ctx, k.adm); err != nil {
		s.lack(err)
	}
	if err := k.groups(ctx, s); err != nil {
		s.lack(err)
	}
	s.failed = len(s.missing) > 0
	if err := k.admin(ctx, s); err != nil {
		s.lack(err)
		s.failed = s.failed || k.port != nil && (k.port.Named || !errors.Is(err, app.ErrNoAdminPort))
	}
	return s, ctx.Err()
}

func (s *sample) lack(why error) { s.missing = append(s.missing, why.Error()) }

func (k *collector) groups(ctx context.Context, s *sample) error {
	listed, err := k.adm.ListGroups(ctx)
	if err != nil {
		return app.Refused("list groups", app.Words(err), "")
	}
	names := listed.Groups()
	slices.Sort(names)
	found, failed := group.DescribeAll(ctx, k.a, k.adm, names)
	for _, name := range names {
		g := groupNow{name: name, Standing: found[name], err: failed[name]}
		if g.err != nil {
			g.State = listed[name].State
		}
		s.groups = append(s.groups, g)
	}
	return nil
}

// admin asks the admin port. Without one the reason is an error only where it was named.
func (k *collector) admin(ctx context.Context, s *sample) error {
	if k.port == nil {
		return errors.New("no admin port is known, so clients and requests are not; --admin names it")
	}
	c, err := k.port.Connections(ctx)
	if err != nil {
		return fmt.Errorf("clients: %w", err)
	}
	s.admin, s.connections = c.Broker, c.List
	if c.More {
		s.lack(fmt.Errorf("clients: only the oldest %d connections are counted", len(c.List)))
	}
	if s.metrics, err = k.port.Metrics(ctx); err != nil {
		return fmt.Errorf("requests of the broker: %w", err)
	}
	return nil
}
