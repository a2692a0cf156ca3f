package grouping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// Target is the broker to measure.
type Target struct {
	Brokers []string `json:"bootstrap_servers"`
	// Topic is the topic that members subscribe to and commit for; it is created if it is missing.
	// Names of groups begin with it.
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions"`
	// ServerPID is the broker's process on this machine, 0 for none.
	ServerPID int `json:"server_pid,omitempty"`
	// Keep keeps the topic and the groups.
	Keep bool `json:"keep"`
}

// check checks the settings.
func (t Target) check(x *settings.Checks) {
	x.Brokers("bootstrap-servers", t.Brokers...)
	if t.Topic == "" {
		x.Add("--topic: must not be empty; leave it out for the default")
	}
	x.Partitions(t.Partitions)
}

// MaxMembers is the maximum number of members of all groups: each has a connection.
const MaxMembers = 60_000

// cluster finds coordinators and cleans up.
type cluster struct {
	target Target
	client *kgo.Client
	admin  *kadm.Client
}

// adminTimeout bounds requests before and after a measurement.
const adminTimeout = time.Minute

func newCluster(ctx context.Context, t Target) (*cluster, error) {
	brokers, err := bench.Reachable(ctx, t.Brokers, nil)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ClientID(wire.ClientID))
	if err != nil {
		return nil, cli.Usage("--bootstrap-servers: create a client for %v: %w", t.Brokers, err)
	}
	c := &cluster{target: t, client: cl, admin: kadm.NewClient(cl)}
	if _, err := bench.CreateTopic(ctx, c.admin, bench.NewTopic{Name: t.Topic, Partitions: t.Partitions, Replicas: 1}); err != nil {
		cl.Close()
		return nil, bench.Explain(t.Brokers, err)
	}
	return c, nil
}

// run creates the topic, calls measure with the names of n groups and the addresses of their
// coordinators, and deletes everything that the measurement has created.
func (t Target) run(ctx context.Context, n int, measure func(groups, addrs []string) error) (err error) {
	cl, err := newCluster(ctx, t)
	if err != nil {
		return err
	}
	groups := t.groupNames(n)
	defer func() { err = errors.Join(err, cl.clean(ctx, groups)) }()
	addrs, err := cl.coordinators(ctx, groups)
	if err != nil {
		return err
	}
	return measure(groups, addrs)
}

// runMembers is run with the members of n groups, all of which have left before it returns.
func (t Target) runMembers(ctx context.Context, p Protocol, n, members int, measure func(context.Context, *memberSet) error) error {
	return t.run(ctx, n, func(groups, addrs []string) error {
		ctx, fail := context.WithCancelCause(ctx)
		defer fail(nil)
		all, err := gather(ctx, fail, p, &topic{t.Topic, int32(t.Partitions)}, groups, addrs, members)
		if err != nil {
			return err
		}
		return errors.Join(measure(ctx, all), all.disband())
	})
}

// coordinators returns the addresses of the groups' coordinators.
func (c *cluster) coordinators(ctx context.Context, groups []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for {
		addrs, err := c.find(ctx, groups)
		if err == nil || !busy(err) {
			return addrs, err
		}
		if !pause.Wait(ctx.Done(), busyPause) {
			return nil, err
		}
	}
}

func (c *cluster) find(ctx context.Context, groups []string) ([]string, error) {
	found := c.admin.FindGroupCoordinators(ctx, groups...)
	addrs := make([]string, len(groups))
	for i, g := range groups {
		f := found[g]
		if f.Err != nil {
			return nil, fmt.Errorf("find the coordinator of %s: %w", g, f.Err)
		}
		addrs[i] = net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port)))
	}
	return addrs, nil
}

// clean deletes everything that the measurement has created, also if ctx has ended.
func (c *cluster) clean(ctx context.Context, groups []string) error {
	defer c.client.Close()
	if c.target.Keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
	defer cancel()
	var errs []error
	deleted, err := c.admin.DeleteGroups(ctx, groups...)
	if err != nil {
		errs = append(errs, fmt.Errorf("delete groups: %w", err))
	}
	for _, g := range deleted {
		if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
			errs = append(errs, fmt.Errorf("delete group %s: %w", g.Group, g.Err))
			break // one error is enough
		}
	}
	return errors.Join(append(errs, bench.DeleteTopic(ctx, c.admin, c.target.Topic))...)
}

// groupNames returns the names of n groups.
func (t Target) groupNames(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", t.Topic, i)
	}
	return list
}
