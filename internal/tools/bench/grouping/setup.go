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

// check returns an error for each invalid setting.
func (t Target) check() error {
	var errs []error
	for _, b := range t.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			errs = append(errs, fmt.Errorf("--bootstrap-servers: %q is not host:port; write for example %s", b, bench.Default().Brokers[0]))
		}
	}
	if t.Topic == "" {
		errs = append(errs, errors.New("--topic: must not be empty; leave it out for the default"))
	}
	if t.Partitions < 1 {
		errs = append(errs, fmt.Errorf("--partitions: %d is below 1, the minimum", t.Partitions))
	}
	return errors.Join(errs...)
}

// usage returns errors of the command line; nil if there is none.
func usage(errs ...error) error {
	return cli.WithCode(cli.ExitUsage, errors.Join(errs...))
}

// within returns an error if a number is out of its limits.
func within(flag string, n, low, high int) error {
	if n < low || n > high {
		return fmt.Errorf("--%s: %d is not between %d and %d", flag, n, low, high)
	}
	return nil
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
	cl, err := kgo.NewClient(kgo.SeedBrokers(t.Brokers...), kgo.ClientID(wire.ClientID))
	if err != nil {
		return nil, cli.Usage("--bootstrap-servers: create a client for %v: %w", t.Brokers, err)
	}
	c := &cluster{target: t, client: cl, admin: kadm.NewClient(cl)}
	if err := c.makeTopic(ctx); err != nil {
		cl.Close()
		return nil, bench.Explain(t.Brokers, err)
	}
	return c, nil
}

func (c *cluster) makeTopic(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	_, err := c.admin.CreateTopic(ctx, int32(c.target.Partitions), 1, nil, c.target.Topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", c.target.Topic, err)
	}
	for {
		m, err := c.admin.Metadata(ctx, c.target.Topic)
		if err != nil {
			return fmt.Errorf("metadata of %s: %w", c.target.Topic, err)
		}
		switch n := len(m.Topics[c.target.Topic].Partitions); n {
		case c.target.Partitions:
			return nil
		case 0: // not all brokers know it yet
			if !pause.Wait(ctx.Done(), busyPause) {
				return fmt.Errorf("wait for topic %s: %w", c.target.Topic, ctx.Err())
			}
		default:
			return fmt.Errorf("topic %s exists with %d partitions, not %d: choose another topic", c.target.Topic, n, c.target.Partitions)
		}
	}
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
	if _, err := c.admin.DeleteTopic(ctx, c.target.Topic); err != nil {
		errs = append(errs, fmt.Errorf("delete topic %s: %w", c.target.Topic, err))
	}
	return errors.Join(errs...)
}

// groupNames returns the names of n groups.
func (t Target) groupNames(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", t.Topic, i)
	}
	return list
}
