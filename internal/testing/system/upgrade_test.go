package system

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Brokers of a former version and of this one form a cluster, under load: each broker is upgraded,
// then each is downgraded, then each is upgraded again, and then transaction.version and
// share.version are raised to the levels that only this version needs to know. Before that,
// share.version is refused. No client notices, nothing that was acknowledged is lost, and
// transactions stay whole. CHRONIKD_FORMER is the former binary (scripts/former.sh).
func TestRollingUpgrade(t *testing.T) {
	former := os.Getenv("CHRONIKD_FORMER")
	if former == "" {
		t.Skip("make rolling-upgrade runs it")
	}
	seed := rand.Uint64()
	c := &torture{nodes: newNodes(t, 3), tortureBook: newTortureBook(), random: rand.New(rand.NewPCG(seed, 0))}
	c.expected = []string{`"logger":"health"`} // the health reports that versions differ
	c.binary = map[int]string{0: former, 1: former, 2: former}
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	clients := c.load(ctx)
	c.transactionVersion(1)
	l := newTransfers(t, strings.Join(c.seeds, ","))
	live := l.follow(ctx, t)
	for id := range movers {
		clients.Go(func() { l.move(ctx, t, id, rand.New(rand.NewPCG(seed, uint64(id+1)))) })
	}
	c.inSync()
	c.goOn("the start")
	c.mayRefuse(false)
	for _, to := range []string{"", former, ""} {
		for _, i := range c.random.Perm(len(c.seeds)) {
			c.end(syscall.SIGTERM, i)
			c.binary[i] = to
			c.launch(i)
			c.await(i)
			if is := strings.Contains(c.run[i].logged(), `"version":"former`); is != (to != "") {
				t.Fatalf("broker %d runs the former version: %t", i+1, is)
			}
			c.inSync()
			c.goOn("a broker changed its version")
			l.progress(t, 1)
			former := slices.ContainsFunc(slices.Collect(maps.Values(c.binary)), func(b string) bool { return b != "" })
			if err := c.feature("share.version", 1, true); former && !errors.Is(err, kerr.InvalidUpdateVersion) {
				t.Errorf("share.version with brokers of the former version: %v", err)
			}
		}
	}
	c.transactionVersion(2)
	c.eventually("share.version", func(context.Context) string {
		if err := c.feature("share.version", 1, false); err != nil {
			return err.Error()
		}
		return ""
	})
	c.goOn("the upgrade was completed")
	l.progress(t, moverBatch)
	l.hold.Lock() // between transactions
	live.catchUp(t)
	fresh := l.follow(ctx, t)
	fresh.catchUp(t)
	l.ending.Store(true)
	l.hold.Unlock()
	for name, f := range map[string]*follower{"that was there all the time": live, "of the end": fresh} {
		if problems := f.view.Problems(true); len(problems) > 0 {
			t.Errorf("the reader %s, seed %d:\n%s", name, seed, strings.Join(problems[:min(10, len(problems))], "\n"))
		}
	}
	c.judge(t, stop, clients)
	live.done.Wait()
	fresh.done.Wait()
}

// transactionVersion sets the level of the feature.
func (c *torture) transactionVersion(level int16) {
	c.t.Helper()
	c.eventually("transaction.version", func(context.Context) string {
		if err := c.feature("transaction.version", level, false); err != nil {
			return err.Error()
		}
		return ""
	})
}

// feature asks for the level of a feature, and with validate only whether it could be set.
func (c *torture) feature(name string, level int16, validate bool) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature, f.MaxVersionLevel, f.UpgradeType = name, level, 1
	if name == "transaction.version" && level < 2 {
		f.UpgradeType = 2 // a safe downgrade
	}
	req.ValidateOnly, req.FeatureUpdates = validate, append(req.FeatureUpdates, f)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	return err
}
