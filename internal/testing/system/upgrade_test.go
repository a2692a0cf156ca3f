package system

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/shareload"
)

// Brokers of each former version and of this one form a cluster, under load: each broker is
// upgraded, then each is downgraded, then each is upgraded again, and then transaction.version and
// share.version are raised to the levels that only this version needs to know. Before that,
// share.version is refused where the former version does not know it, and so is a topic with old
// records in the object store. Where it knows them, share groups work and old records are read at
// each step. No client notices, nothing that was acknowledged is lost, and transactions stay whole.
// CHRONIKD_FORMER has the former binaries (scripts/former.sh).
func TestRollingUpgrade(t *testing.T) {
	former := filepath.SplitList(os.Getenv("CHRONIKD_FORMER"))
	if len(former) == 0 {
		t.Skip("make rolling-upgrade runs it")
	}
	for _, binary := range former {
		t.Run(filepath.Base(binary), func(t *testing.T) {
			t.Parallel() // it waits for elections and sessions most of the time
			rollsUpAndDown(t, binary)
		})
	}
}

// rolling is a cluster of two versions.
type rolling struct {
	*torture
	former string
	known  bool     // the former version has share groups and tiered topics
	set    []string // settings of the versions that have them
}

func rollsUpAndDown(t *testing.T, former string) {
	seed := rand.Uint64()
	c := &rolling{former: former}
	c.torture = &torture{nodes: newNodes(t, 3), tortureBook: newTortureBook(), random: rand.New(rand.NewPCG(seed, 0))}
	c.expected = []string{`"logger":"health"`} // the health reports that versions differ
	c.set = append(shareload.Settings(), "archive.url=file://"+t.TempDir(), "snapshot.interval.ms=0",
		"remote.log.manager.task.interval.ms=300", "log.retention.check.interval.ms=500")
	c.known = knows(t, former, c.set)
	c.binary = map[int]string{}
	if c.known {
		c.torture.set = c.set
		c.tiered()
	}
	c.become(former, 0, 1, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	clients := c.load(ctx)
	c.transactionVersion(1)
	if c.known {
		c.startJobs(ctx, seed)
	}
	l := newTransfers(t, strings.Join(c.seeds, ","))
	live := l.follow(ctx, t)
	for id := range movers {
		clients.Go(func() { l.move(ctx, t, id, rand.New(rand.NewPCG(seed, uint64(id+1)))) })
	}
	c.inSync()
	c.goOn("the start")
	c.mayRefuse(false)
	for way, to := range []string{"", former, ""} {
		for _, i := range c.random.Perm(len(c.seeds)) {
			c.end(syscall.SIGTERM, i)
			c.become(to, i)
			c.inSync()
			c.goOn("a broker changed its version")
			l.progress(t, 1)
			if c.known {
				c.readsOld("after a broker changed its version")
				c.beginsShares(fmt.Sprint("share-", way, "-", i))
			} else if slices.Contains(slices.Collect(maps.Values(c.binary)), former) {
				c.refusesWhatIsNew(way == 2)
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
	if !c.known {
		c.startJobs(ctx, seed)
		c.startsTier()
	}
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

// knows reports whether a binary accepts settings.
func knows(t *testing.T, binary string, settings []string) bool {
	args := []string{"config", "check"}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = t.TempDir()
	return cmd.Run() == nil
}

// become starts brokers with a binary, empty for this version's.
func (c *rolling) become(binary string, which ...int) {
	c.t.Helper()
	c.torture.set = nil
	if c.known || binary == "" {
		c.torture.set = c.set
	}
	for _, i := range which {
		c.binary[i] = binary
	}
	c.launch(which...)
	c.await(which...)
	for _, i := range which {
		if is := strings.Contains(c.run[i].logged(), `"version":"former`); is != (binary != "") {
			c.t.Fatalf("broker %d runs the former version: %t", i+1, is)
		}
	}
}

// tierTopic is made when the former version no longer comes back, if it has no tiered topics.
const tierTopic = "tiered-later"

// refusesWhatIsNew requires that nothing raises the feature level while a broker has a version that
// does not support it. In the last upgrade a tiered topic is asked for, too, which may exist then,
// but copies nothing.
func (c *rolling) refusesWhatIsNew(last bool) {
	c.t.Helper()
	if err := c.feature("share.version", 1, true); !errors.Is(err, kerr.InvalidUpdateVersion) {
		c.t.Errorf("share.version with brokers of the former version: %v", err)
	}
	if last {
		c.makeTierTopic(c.t.Context())
	}
	for _, kind := range keptMetadata(c.t, c.dirs) {
		if level, ok := strings.CutPrefix(kind, "feature level "); ok && level != "1" {
			c.t.Errorf("the feature level is %s with a broker of the former version", level)
		}
	}
}

// makeTierTopic returns why there is no tiered topic.
func (c *rolling) makeTierTopic(ctx context.Context) error {
	text := kadm.StringPtr
	_, err := c.admins[0].CreateTopic(ctx, 1, 3, map[string]*string{"remote.storage.enable": text("true"), "segment.ms": text("1000"),
		"local.retention.ms": text("1000"), "file.delete.delay.ms": text("0")}, tierTopic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		err = nil
	}
	return err
}

// startsTier requires that a tiered topic works when all brokers have this version, and that this
// raises the feature level.
func (c *rolling) startsTier() {
	c.t.Helper()
	c.eventually("a tiered topic", func(ctx context.Context) string {
		if err := c.makeTierTopic(ctx); err != nil {
			return err.Error()
		}
		cl, err := c.client(kgo.DefaultProduceTopic(tierTopic))
		if err != nil {
			return err.Error()
		}
		defer cl.Close()
		if err := cl.ProduceSync(ctx, kgo.StringRecord("value")).FirstErr(); err != nil {
			return err.Error()
		}
		if at := c.localStart(ctx, c.admins[0], tierTopic); at < 1 {
			pause(ctx, time.Second)
			return fmt.Sprint("the local log begins at ", at)
		}
		return ""
	})
	c.reads(tierTopic, "of the new topic")
	if !slices.Contains(keptMetadata(c.t, c.dirs), fmt.Sprint("feature level ", metadata.MaxFeatureLevel)) {
		c.t.Error("no broker's metadata have the highest feature level")
	}
}

// beginsShares begins the states of a share group on all brokers, and removes them again.
func (c *rolling) beginsShares(id string) {
	c.t.Helper()
	cl, err := c.client()
	must.OK(c.t, err)
	defer cl.Close()
	admin, starts := kadm.NewClient(cl), kadm.Offsets{}
	for p := range int32(jobsPartitions) {
		starts.Add(kadm.Offset{Topic: jobsTopic, Partition: p})
	}
	c.eventually("states of the share group "+id, func(ctx context.Context) string {
		begun, err := admin.AlterShareGroupOffsets(ctx, id, starts)
		if err == nil {
			err = begun.Error()
		}
		if err == nil {
			_, err = admin.DeleteGroup(ctx, id)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// readsOld waits until some records are only in the object store, and reads them.
func (c *rolling) readsOld(when string) {
	c.t.Helper()
	c.eventually("records that are only in the store, "+when, func(ctx context.Context) string {
		if at := c.localStart(ctx, c.admins[0], tortureTopic); at < 1 {
			return fmt.Sprint("the local log begins at ", at)
		}
		return ""
	})
	c.reads(tortureTopic, when)
}

// reads reads a partition from its beginning to the beginning of its local log.
func (c *rolling) reads(topic, when string) {
	c.t.Helper()
	end := int64(0)
	c.eventually("the beginning of the local log", func(ctx context.Context) string {
		if end = c.localStart(ctx, c.admins[0], topic); end < 1 {
			return fmt.Sprint(end)
		}
		return ""
	})
	cl, err := c.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	must.OK(c.t, err)
	defer cl.Close()
	next := int64(0)
	c.eventually("old records "+when, func(ctx context.Context) string {
		for next < end { // no pause between two polls
			fetched := cl.PollFetches(ctx)
			for _, r := range fetched.Records() {
				if r.Offset != next {
					c.t.Fatalf("offset %d follows %d", r.Offset, next-1)
				}
				next++
			}
			if err := fetched.Err(); err != nil {
				return fmt.Sprintf("%d of %d are read: %v", next, end, err)
			}
		}
		return ""
	})
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
