package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/group"
	"github.com/chronik-io/chronik/internal/tools/ctl/topic"
	"github.com/chronik-io/chronik/internal/view"
)

// sample is the state at one moment. Most of it are counters; two samples give rates.
type sample struct {
	at      time.Time
	brokers []brokerNow
	topics  []topic.Total // nil if unknown
	groups  []groupNow

	// loads are what brokers say of themselves; a broker that did not answer is absent.
	loads map[int32]health.Load

	// From the broker behind the admin port; empty if it did not answer.
	admin       int32 // its id, or -1 if unknown
	connections []view.Connection

	missing []string // what could not be fetched, and why
	// elsewhere is the one of these about brokers that cannot be asked at this address, or empty.
	elsewhere string
	failed    bool // part of the data exists, but the broker did not answer
}

type brokerNow struct {
	id        int32
	address   string
	state     string // in a cluster
	leads     int
	outOfSync int
}

type groupNow struct {
	name string
	group.Progress
	err error
}

// collector takes samples.
type collector struct {
	a    *app.App
	adm  *kadm.Client
	cl   *kgo.Client
	port *app.AdminPort // nil for none
}

// sample takes a sample. It returns an error if it cannot get the cluster's metadata, on which
// everything else depends. Other failures are in the sample.
func (k *collector) sample(ctx context.Context) (*sample, error) {
	m, err := k.adm.Metadata(ctx)
	if err != nil {
		return nil, app.Refused("describe the cluster", app.BrokerError(err), "")
	}
	s := &sample{at: time.Now(), admin: -1, loads: map[int32]health.Load{}}
	s.brokers = brokersOf(m)
	k.loads(ctx, s)
	if s.topics, err = topic.Totals(ctx, k.adm); err != nil {
		s.addMissing(err)
	}
	if err := k.groups(ctx, s); err != nil {
		s.addMissing(err)
	}
	s.failed = len(s.missing) > 0
	if s.elsewhere != "" { // which the address determines: it is no failure
		s.missing = append(s.missing, s.elsewhere)
	}
	if err := k.admin(ctx, s); err != nil {
		s.addMissing(err)
		s.failed = s.failed || k.port != nil && (k.port.Named || !errors.Is(err, app.ErrNoAdminPort))
	}
	return s, ctx.Err()
}

// brokersOf returns the brokers that serve clients, and those that only have replicas: they are
// fenced.
func brokersOf(m kadm.Metadata) (list []brokerNow) {
	at := map[int32]int{}
	add := func(b brokerNow) {
		at[b.id] = len(list)
		list = append(list, b)
	}
	for _, b := range m.Brokers {
		add(brokerNow{id: b.NodeID, address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), state: "active"})
	}
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if i, ok := at[p.Leader]; ok {
				list[i].leads++
			}
			for _, id := range p.Replicas {
				if _, ok := at[id]; !ok {
					add(brokerNow{id: id, address: noAddress, state: "fenced"})
				}
				if !slices.Contains(p.ISR, id) {
					list[at[id]].outOfSync++
				}
			}
		}
	}
	if len(list) == 1 {
		list[0].state = ""
	}
	sorts.Sort(list, func(x, y brokerNow) int { return cmp.Compare(x.id, y.id) })
	return list
}

// loads asks each broker for what it does. One that does not answer within the timeout of a request
// is unknown, and so is one of another kind. An answer counts for the broker that gave it: behind
// one address for all, it may be another than the one that was asked.
func (k *collector) loads(ctx context.Context, s *sample) {
	ctx, cancel := context.WithTimeout(ctx, k.a.Settings.Timeout())
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	var others []int32 // brokers for which another one answered
	for _, b := range s.brokers {
		if b.address == noAddress {
			continue
		}
		asking.Go(func() {
			report, err := app.ReportOf(ctx, k.cl, b.id)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, app.ErrOtherBroker) {
				others, err = append(others, b.id), nil
			}
			switch {
			case err == nil && report.Load != nil:
				s.loads[report.Broker] = *report.Load
			case err != nil && !errors.Is(err, app.ErrNoReport):
				s.addMissing(fmt.Errorf("requests of broker %d: %w", b.id, err))
			}
		})
	}
	asking.Wait()
	slices.Sort(s.missing)
	slices.Sort(others)
	others = slices.DeleteFunc(others, func(id int32) bool { _, ok := s.loads[id]; return ok })
	if len(others) > 0 {
		s.elsewhere = fmt.Sprintf("requests of %s: another broker answered, as behind one address for all, so ? is shown; ask a listener "+
			"without route: forward", brokerNames(others))
	}
}

func brokerNames(ids []int32) string {
	if len(ids) == 1 {
		return "broker " + text.Numbers(ids)
	}
	return "brokers " + text.Numbers(ids)
}

// noAddress is the address of a broker that clients cannot use.
const noAddress = "-"

// states adds the states that the admin port knows and Kafka's protocol has not. A port that does
// not know them is no failure.
func (k *collector) states(ctx context.Context, s *sample) {
	known, err := k.port.Brokers(ctx)
	if err != nil || len(s.brokers) == 1 {
		return
	}
	for i := range s.brokers {
		for _, b := range known {
			if b.ID == s.brokers[i].id && b.State != "active" && b.State != "fenced" {
				s.brokers[i].state = b.State
			}
		}
	}
}

func (s *sample) addMissing(why error) { s.missing = append(s.missing, why.Error()) }

func (k *collector) groups(ctx context.Context, s *sample) error {
	listed, err := k.adm.ListGroups(ctx)
	if err != nil {
		return app.Refused("list groups", app.BrokerError(err), "")
	}
	names := listed.Groups()
	slices.Sort(names)
	found, failed := group.DescribeAll(ctx, k.a, k.adm, names)
	for _, name := range names {
		g := groupNow{name: name, Progress: found[name], err: failed[name]}
		if g.err != nil {
			g.State = listed[name].State
		}
		s.groups = append(s.groups, g)
	}
	return nil
}

// admin queries the admin port. The caller counts an error as a failure of the sample only if the
// settings name the port, or if a port answered.
func (k *collector) admin(ctx context.Context, s *sample) error {
	if k.port == nil {
		return errors.New("no admin port is known, so clients are unknown; give it with --admin")
	}
	c, err := k.port.Connections(ctx)
	if err != nil {
		return fmt.Errorf("clients: %w", err)
	}
	s.admin, s.connections = c.Broker, c.List
	if c.More {
		s.addMissing(fmt.Errorf("clients: only the oldest %d connections are counted", len(c.List)))
	}
	k.states(ctx, s)
	return nil
}
