package system

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// newMortalCluster starts three brokers, whose topics have three replicas. A death is that of one
// of them, seldom of two at once, or of all.
func newMortalCluster(t *testing.T, random *rand.Rand, settings ...string) *mortal {
	t.Helper()
	return mortalCluster(t, random, (*nodes).die, settings...)
}

// mortalCluster is newMortalCluster with another kind of death. It gets clients of all brokers.
func mortalCluster(t *testing.T, random *rand.Rand, die func(*nodes, *rand.Rand, []*kadm.Client), settings ...string) *mortal {
	t.Helper()
	if os.Getenv("CHRONIK_KILLS") == "" {
		t.Skip("make crash runs it; the simulation of three brokers has the same histories")
	}
	c := newNodes(t, 3)
	c.set, c.expected = settings, []string{`"logger":"health"`} // the health reports that brokers are gone
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	var admins []*kadm.Client
	for i := range c.seeds {
		c.isReady(i)
		admins = append(admins, c.admin(i))
	}
	return &mortal{addr: strings.Join(c.seeds, ","), random: random,
		kill: func(t testing.TB) {
			t.Helper()
			die(c, random, admins)
		},
		end: func(t testing.TB) {
			t.Helper()
			c.end(syscall.SIGTERM, 0, 1, 2)
		},
	}
}

func (c *nodes) die(random *rand.Rand, admins []*kadm.Client) {
	c.t.Helper()
	which := random.Perm(3)[:1+max(0, random.IntN(6)-3)]
	c.eventually("all replicas are in sync", func(ctx context.Context) string { return lagging(ctx, admins[which[0]]) })
	c.end(syscall.SIGKILL, which...)
	pause(c.t.Context(), time.Duration(random.Int64N(int64(2*time.Second)))) // others take over, or not yet
	c.launch(which...)
	c.await(which...)
}

// freeze stops a broker with SIGSTOP until it leads no partition any more, and lets it continue
// with what it knew then.
func (c *nodes) freeze(random *rand.Rand, admins []*kadm.Client) {
	c.t.Helper()
	which := random.IntN(3)
	other := admins[(which+1)%3]
	c.eventually("all replicas are in sync", func(ctx context.Context) string { return lagging(ctx, other) })
	c.paused = true
	signal := func(sig syscall.Signal) {
		c.t.Helper()
		must.OK(c.t, c.run[which].cmd.Process.Signal(sig))
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)
	c.eventually("others lead all partitions", func(ctx context.Context) (text string) {
		m, err := other.Metadata(ctx)
		if err != nil {
			return err.Error()
		}
		m.Topics.EachPartition(func(p kadm.PartitionDetail) {
			if p.Leader == int32(which+1) || p.Leader < 0 {
				text = fmt.Sprintf("%d leads %s-%d", p.Leader, p.Topic, p.Partition)
			}
		})
		return text
	})
}

// lagging names the partitions that have fewer than three replicas in sync, or no leader.
func lagging(ctx context.Context, admin *kadm.Client) (text string) {
	m, err := admin.Metadata(ctx)
	if err != nil {
		return err.Error()
	}
	m.Topics.EachPartition(func(p kadm.PartitionDetail) {
		if p.Err != nil || len(p.ISR) < 3 {
			text = fmt.Sprintf("%s-%d: in sync are %v, %v", p.Topic, p.Partition, p.ISR, p.Err)
		}
	})
	return text
}

// As TestKillKeepsTransfersWhole, with a cluster whose brokers die: those that lead the partitions,
// those that coordinate, and those that lead the metadata.
func TestKillOfBrokersKeepsTransfersWhole(t *testing.T) {
	seed := rand.Uint64()
	keepsTransfersWhole(t, seed, newMortalCluster(t, rand.New(rand.NewPCG(seed, 0))))
}

// As TestKillTransformsEachInputOnce, with a cluster whose brokers die.
func TestKillOfBrokersTransformsEachInputOnce(t *testing.T) {
	seed := rand.Uint64()
	transformsEachInputOnce(t, seed, newMortalCluster(t, rand.New(rand.NewPCG(seed, 0)), "group.initial.rebalance.delay.ms=0"))
}

// As TestKillOfBrokersKeepsTransfersWhole, but the brokers do not die: each stops until others have
// its coordinators and its partitions, and continues as a zombie.
func TestKillAsPausesOfBrokersKeepsTransfersWhole(t *testing.T) {
	seed := rand.Uint64()
	keepsTransfersWhole(t, seed, mortalCluster(t, rand.New(rand.NewPCG(seed, 0)), (*nodes).freeze))
}
