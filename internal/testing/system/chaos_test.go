package system

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

const (
	chaosSeats     = 20
	chaosParts     = 6
	chaosByDefault = 10 * time.Second
	chaosRate      = 400 // records per second of all producers together
	longChaos      = time.Minute
)

func chaosTopics() []string { return []string{"chaos-a", "chaos-b"} }

// The groups of a run: one of each protocol, and one with members of both, so that it is upgraded
// and downgraded as they join and leave.
const (
	classicGroup, consumerGroup, mixedGroup = "chaos-classic", "chaos-consumer", "chaos-mixed"
)

func chaosGroups() []string { return []string{classicGroup, consumerGroup, mixedGroup} }

// chaosRun is one run.
type chaosRun struct {
	seed               uint64
	duration           time.Duration
	session, heartbeat time.Duration
	addr, dir          string
	history            *history
	calm               chan struct{} // closed when no member may join or leave anymore
}

func newChaosRun(t *testing.T) *chaosRun {
	t.Helper()
	r := &chaosRun{seed: rand.Uint64(), duration: chaosByDefault, session: time.Second, heartbeat: 150 * time.Millisecond,
		dir: t.TempDir(), calm: make(chan struct{})}
	var err error
	if v := os.Getenv("CHRONIK_CHAOS"); v != "" {
		if r.duration, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	if v := os.Getenv("CHRONIK_CHAOS_SEED"); v != "" {
		if _, err := fmt.Sscan(v, &r.seed); err != nil {
			t.Fatal(err)
		}
	}
	if r.duration >= longChaos {
		r.session, r.heartbeat = 6*time.Second, time.Second
	}
	if r.addr, err = ports.Loopback(); err != nil {
		t.Fatal(err)
	}
	r.history = newHistory(r.session)
	for _, name := range chaosGroups() {
		r.history.addGroup(name)
	}
	return r
}

// random returns a source for one user, so that all draws depend only on the seed; the timing does
// not.
func (r *chaosRun) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, stream)) }

// lifetime returns the time without events for a member.
func (r *chaosRun) lifetime(random *rand.Rand) time.Duration {
	return 2*r.session + time.Duration(random.Int64N(int64(6*r.session)))
}

// pauseTime returns how long a member pauses: sometimes within its session, sometimes much longer.
func (r *chaosRun) pauseTime(random *rand.Rand) time.Duration {
	longest := 3 * r.session
	if r.duration >= longChaos && random.IntN(3) == 0 {
		return 2 * time.Minute
	}
	return r.session/4 + time.Duration(random.Int64N(int64(longest)))
}

func (r *chaosRun) start(t *testing.T) *process {
	t.Helper()
	set := func(name string, d time.Duration) string { return fmt.Sprintf("%s=%d", name, d.Milliseconds()) }
	p, err := start(r.dir, nil, "--listen", r.addr, "--admin-listen", "off", "--set", "group.initial.rebalance.delay.ms=100",
		"--set", set("group.min.session.timeout.ms", r.session), "--set", set("group.consumer.session.timeout.ms", r.session),
		"--set", set("group.consumer.heartbeat.interval.ms", r.heartbeat))
	must.OK(t, err)
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	r.history.note("the broker is ready")
	return p
}

// Twenty consumers of both protocols join, leave, die and pause, while producers write and the
// broker is killed with SIGKILL repeatedly. Every group sees every acknowledged record. Committed
// offsets and group epochs never decrease. No partition is assigned to two members in one
// generation or member epoch. In the new protocol, no partition is assigned while another member
// with a live session has not revoked it. CHRONIK_CHAOS=10m makes the run longer, with pauses of
// two minutes; CHRONIK_CHAOS_SEED repeats the draws of another run.
func TestGroupsInChaos(t *testing.T) {
	t.Parallel() // it waits for the disk and for processes most of the time
	r := newChaosRun(t)
	broker := r.start(t)
	r.makeTopics(t)
	defer func() {
		if bad := r.history.failures(); len(bad) > 0 || t.Failed() {
			for _, line := range bad {
				t.Error(line)
			}
			t.Errorf("CHRONIK_CHAOS_SEED=%d; what happened:\n%s", r.seed, r.history.text())
		}
	}()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var seats, others sync.WaitGroup
	for _, s := range r.seats() {
		seats.Go(func() { s.sit(ctx, t) })
	}
	observe, blind := context.WithCancel(ctx)
	defer blind()
	others.Go(func() { r.observe(observe, t) })
	writing, enough := context.WithCancel(ctx)
	defer enough()
	var writers sync.WaitGroup
	for id := range 2 {
		writers.Go(func() { r.write(writing, t, id) })
	}

	kills := 0
	random := r.random(1 << 40)
	for end := time.Now().Add(r.duration); time.Now().Before(end) && len(r.history.failures()) == 0; kills++ {
		pause(ctx, 2*r.session+time.Duration(random.Int64N(int64(2*r.session))))
		r.grow(t, random)
		r.history.note("kill -9")
		kill(t, broker)
		pause(ctx, time.Duration(random.Int64N(int64(r.session/2))))
		broker = r.start(t)
		r.checkGroups(t)
	}
	close(r.calm)
	enough()
	writers.Wait()
	r.awaitAll(t)
	blind()
	others.Wait()
	stop()
	seats.Wait()
	if err := broker.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, broker.logged())
	}
	t.Logf("seed %d: %d kills, %d records acknowledged; read %d, %d, %d times", r.seed, kills, r.history.ackedRecords(),
		r.history.groups[classicGroup].reads, r.history.groups[consumerGroup].reads, r.history.groups[mixedGroup].reads)
}

// seats returns seven seats for each protocol and six that alternate.
func (r *chaosRun) seats() (all []*seat) {
	always := func(protocol string) func(*rand.Rand) string { return func(*rand.Rand) string { return protocol } }
	either := func(random *rand.Rand) string { return []string{"classic", "consumer"}[random.IntN(2)] }
	for i := range chaosSeats {
		s := &seat{run: r, number: i, random: r.random(uint64(i))}
		switch {
		case i < 7:
			s.group, s.protocol = classicGroup, always("classic")
		case i < 14:
			s.group, s.protocol = consumerGroup, always("consumer")
		case i == 14:
			s.group, s.protocol, s.anchor = mixedGroup, always("classic"), true
		default:
			s.group, s.protocol = mixedGroup, either
		}
		all = append(all, s)
	}
	return all
}

func (r *chaosRun) makeTopics(t *testing.T) {
	t.Helper()
	adm := kadm.NewClient(groupClient(t, r.addr))
	for _, name := range chaosTopics() {
		resp, err := adm.CreateTopic(t.Context(), chaosParts, 1, nil, name)
		must.OK(t, err)
		r.history.topics[resp.ID] = name
	}
}

// grow adds a partition to a topic.
func (r *chaosRun) grow(t *testing.T, random *rand.Rand) {
	t.Helper()
	if random.IntN(3) > 0 {
		return
	}
	name := chaosTopics()[random.IntN(2)]
	r.history.note("%s gets one more partition", name)
	if _, err := kadm.NewClient(groupClient(t, r.addr)).CreatePartitions(t.Context(), 1, name); err != nil {
		t.Fatal(err)
	}
}

// write is an idempotent producer of unique records.
func (r *chaosRun) write(ctx context.Context, t *testing.T, id int) {
	cl, err := kgo.NewClient(outlives(r.addr, kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(time.Second),
		kgo.MaxBufferedRecords(1000),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))...)
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	const tick = 10 * time.Millisecond
	pace := time.NewTicker(tick)
	defer pace.Stop()
	for n := 0; ctx.Err() == nil; {
		for range chaosRate / 2 / int(time.Second/tick) {
			n++
			cl.Produce(context.WithoutCancel(ctx), &kgo.Record{Topic: chaosTopics()[n%2], Value: fmt.Appendf(nil, "%d/%d", id, n)},
				r.history.onProduced)
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer cancel()
	if err := cl.Flush(last); err != nil {
		t.Errorf("producer %d: flush: %v", id, err)
	}
}

// awaitAll waits until every group has seen all acknowledged records.
func (r *chaosRun) awaitAll(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(startTime); ; pause(t.Context(), 50*time.Millisecond) {
		missing := ""
		for _, g := range chaosGroups() {
			if n, first := r.history.missing(g); n > 0 {
				missing += fmt.Sprintf("%s has not seen %d acknowledged records: %s; ", g, n, first)
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) || len(r.history.failures()) > 0 {
			t.Error(missing)
			return
		}
	}
}

// observe checks the groups repeatedly, as an administrator does.
func (r *chaosRun) observe(ctx context.Context, t *testing.T) {
	cl := groupClient(t, r.addr)
	for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		for _, g := range chaosGroups() {
			if err := r.fetchGroup(ctx, cl, g); err != nil && ctx.Err() == nil {
				r.history.note("observer: %s: %v", g, err)
			}
		}
	}
}

// fetchGroup fetches a group's offsets, members and assignments.
func (r *chaosRun) fetchGroup(ctx context.Context, cl *kgo.Client, group string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	floor := r.history.floor(group)
	fetched, err := kadm.NewClient(cl).FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	shown := map[part]int64{}
	fetched.Each(func(o kadm.OffsetResponse) { shown[part{o.Topic, o.Partition}] = o.At })
	r.history.onOffsetsFetched("observer", group, floor, shown)

	before := r.history.epochOf(group)
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	switch g := resp.Groups[0]; {
	case errors.Is(kerr.ErrorForCode(g.ErrorCode), kerr.GroupIDNotFound):
		return r.fetchClassic(ctx, cl, group)
	case g.ErrorCode != 0:
		return kerr.ErrorForCode(g.ErrorCode)
	default:
		r.history.onEpoch(group, before, g.Epoch)
		owners := map[part]string{}
		for _, m := range g.Members {
			for _, topic := range m.Assignment.TopicPartitions {
				r.claimAll(owners, group, m.MemberID, topic.Topic, topic.Partitions)
			}
		}
	}
	return nil
}

func (r *chaosRun) fetchClassic(ctx context.Context, cl *kgo.Client, group string) error {
	described, err := kadm.NewClient(cl).DescribeGroups(ctx, group)
	if err != nil {
		return err
	}
	owners := map[part]string{}
	for _, m := range described[group].Members {
		if a, ok := m.Assigned.AsConsumer(); ok && described[group].State == "Stable" {
			for _, topic := range a.Topics {
				r.claimAll(owners, group, m.MemberID, topic.Topic, topic.Partitions)
			}
		}
	}
	return nil
}

// claimAll checks that no other member is described with the partitions.
func (r *chaosRun) claimAll(owners map[part]string, group, id, topic string, list []int32) {
	for _, p := range list {
		at := part{topic, p}
		if owners[at] != "" {
			r.history.wrong("%s is described with %v at %s and at %s", group, at, owners[at], id)
		}
		owners[at] = id
	}
}

// checkGroups checks after a start that all groups and their committed offsets exist.
func (r *chaosRun) checkGroups(t *testing.T) {
	t.Helper()
	cl := groupClient(t, r.addr)
	for _, g := range chaosGroups() {
		if len(r.history.floor(g)) == 0 {
			continue // the run has just started
		}
		for deadline := time.Now().Add(startTime); ; pause(t.Context(), 10*time.Millisecond) {
			err := r.fetchGroup(t.Context(), cl, g)
			if err == nil {
				break
			}
			if time.Now().After(deadline) { // it may be loading until then
				t.Fatalf("%s after the start: %v", g, err)
			}
		}
		listed, err := kadm.NewClient(cl).ListGroups(t.Context())
		must.OK(t, err)
		if _, ok := listed[g]; !ok {
			r.history.wrong("%s is missing after the start", g)
		}
	}
}
