package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
)

// A heartbeat of the former process does not make a broker active again, and a registration that
// was overtaken is refused.
func TestAFormerProcessIsNotHeard(t *testing.T) {
	w := three(t)
	former := w.procs[3]
	stale := w.process(3)
	w.start(3)
	if _, err := w.beat(former); !isRefusal(err, StaleBrokerEpoch) {
		t.Errorf("heartbeat of the former process: %v", err)
	}
	if _, err := w.loop.Register(context.Background(), &stale.RegisterRequest); !isRefusal(err, StaleBrokerEpoch) {
		t.Errorf("an overtaken registration: %v", err)
	}
	again := w.procs[3]
	if epoch, err := w.loop.Register(context.Background(), &again.RegisterRequest); err != nil || epoch < w.applier.Image().Version()-9 {
		t.Errorf("the same process registers again: %d, %v", epoch, err)
	}
}

// A process that was fenced while it ran becomes active again under its epoch.
func TestAFencedProcessRegistersAgain(t *testing.T) {
	w := three(t)
	w.procs[3].silent = true
	w.pass(4 * time.Second)
	w.want("fenced", "1@0 isr [1 2] elr []")
	p := w.procs[3]
	p.silent = false
	if _, err := w.beat(p); !isRefusal(err, StaleBrokerEpoch) {
		t.Errorf("a heartbeat without a session: %v", err)
	}
	p.Seen = p.epoch
	epoch, err := w.loop.Register(context.Background(), &p.RegisterRequest)
	if err != nil || epoch != p.epoch {
		t.Errorf("epoch %d after %d, %v", epoch, p.epoch, err)
	}
	w.pass(time.Second)
	if w.state(3) != metadata.Active {
		t.Errorf("broker 3 is %v", w.state(3))
	}
}

// A registration remembers the members of earlier metadata directories, one of which may vote.
func TestARegistrationRemembersFormerMembers(t *testing.T) {
	w := three(t)
	with := func(member uint64) func(*RegisterRequest) { return func(q *RegisterRequest) { q.Member = member } }
	for _, x := range []struct {
		member uint64
		want   []uint64
	}{{3, nil}, {30, []uint64{3}}, {31, []uint64{30, 3}}, {3, []uint64{31, 30}}} {
		w.procs[3].up = false
		w.pass(4 * time.Second)
		w.start(3, with(x.member))
		if b, _ := w.applier.Image().Broker(3); b.Member != x.member || !slices.Equal(b.Former, x.want) {
			t.Errorf("member %d: former %d, want %d", b.Member, b.Former, x.want)
		}
	}
	for member := range uint64(2 * metadata.MaxFormer) {
		w.procs[3].up = false
		w.pass(4 * time.Second)
		w.start(3, with(100+member))
	}
	if b, _ := w.applier.Image().Broker(3); len(b.Former) != metadata.MaxFormer {
		t.Errorf("%d former members", len(b.Former))
	}
}

// A process that registers with very many damaged logs has failed directories instead, until its
// first heartbeat says what it can.
func TestDamagedLogsAreBounded(t *testing.T) {
	var many []metadata.TopicPartition
	for i := range int32(MaxReportedDamaged) {
		many = append(many, metadata.TopicPartition{Topic: [16]byte{9}, Partition: i})
	}
	w := three(t)
	w.start(3, func(q *RegisterRequest) { q.Damaged = append(slices.Clone(many), tpA) })
	state, _ := w.applier.Image().State(3)
	if len(state.Damaged) > MaxReportedDamaged || state.Fault([16]byte{3}) != metadata.DirFailed {
		t.Errorf("%d damaged logs, directories %v", len(state.Damaged), state.Unable)
	}
	w.want("registered", "1@0 isr [1 2] elr []")
	w.procs[3].damaged = append(slices.Clone(many), tpA)
	if _, err := w.beat(w.procs[3]); !isRefusal(err, InvalidRequest) {
		t.Errorf("a heartbeat with too many: %v", err)
	}
}

func isRefusal(err error, kind Kind) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Kind == kind
}

func TestRefusedRegistrations(t *testing.T) {
	w := three(t)
	w.put(metadata.GoneKey(77), metadata.Gone{Broker: 9}.Encode())
	for name, c := range map[string]struct {
		id   int32
		kind Kind
		edit func(*RegisterRequest)
	}{
		"another cluster":            {4, InconsistentClusterID, func(q *RegisterRequest) { q.ClusterID = "x" }},
		"too old":                    {4, UnsupportedVersion, func(q *RegisterRequest) { q.Features = metadata.Features{} }},
		"too new":                    {4, UnsupportedVersion, func(q *RegisterRequest) { q.Features = metadata.Features{Min: 2, Max: 3} }},
		"unregistered":               {4, UnknownMember, func(q *RegisterRequest) { q.Member = 77 }},
		"id in use":                  {2, DuplicateBroker, func(q *RegisterRequest) { q.Member = 9 }},
		"directory of another":       {4, InvalidRequest, func(q *RegisterRequest) { q.Dirs[0].ID = [16]byte{2} }},
		"two directories of one id":  {4, InvalidRequest, func(q *RegisterRequest) { q.Dirs = append(q.Dirs, q.Dirs[0]) }},
		"too many directories":       {4, InvalidRequest, func(q *RegisterRequest) { q.Dirs = make([]RegisterDir, maxDirs+1) }},
		"a registration that is not": {4, StaleBrokerEpoch, func(q *RegisterRequest) { q.Seen = 5 }},
	} {
		before := w.applier.Image().Version()
		p := w.process(c.id, c.edit)
		if _, err := w.loop.Register(context.Background(), &p.RegisterRequest); !isRefusal(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if now := w.applier.Image().Version(); now != before {
			t.Errorf("%s: the refusal changed the metadata", name)
		}
	}
}

// A directory that another broker has registered is that broker's with a changed node.id, or a
// copy. The refusal names what to do for both, and which directory must not be emptied.
func TestARefusedDirectorySaysWhoseItIs(t *testing.T) {
	w := three(t)
	p := w.process(4, func(q *RegisterRequest) { q.Dirs[0].ID = [16]byte{2} })
	_, err := w.loop.Register(context.Background(), &p.RegisterRequest)
	for _, want := range []string{"of broker 4 is registered by broker 2; ", "if node.id was changed from 2, set node.id=2 again",
		"if the directory was copied from broker 2, give broker 4 an empty one, and leave that of broker 2 as it is"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

var errCut = errors.New("the controller failed")

// cutting is a store whose Txns fail after a number of them, before or after they are made.
type cutting struct {
	metadata.Store
	left int
	made bool // the failing Txn is made although it fails
}

func (c *cutting) Txn(ctx context.Context, t metadata.Txn) (int64, error) {
	if c.left--; c.left >= 0 {
		return c.Store.Txn(ctx, t)
	}
	if c.left == -1 && c.made {
		_, _ = c.Store.Txn(ctx, t)
	}
	return 0, errCut
}

// History 26: a controller that fails at any step of a registration leaves nothing that the next
// one does not complete. At no step does the former process count, or the new one before its
// records are clean.
func TestARegistrationIsRepeatedByTheNextController(t *testing.T) {
	for _, made := range []bool{false, true} {
		for step := 0; ; step++ {
			w := three(t)
			c := &cutting{Store: w.store, left: step, made: made}
			w.use(c)
			p := w.process(3, func(q *RegisterRequest) { q.Dirs[0].ID = [16]byte{99} })
			_, err := w.loop.Register(context.Background(), &p.RegisterRequest)
			if err == nil {
				if step < 3 {
					t.Fatalf("the registration took %d transactions", step)
				}
				break
			}
			w.newLoop()
			w.lead()
			rev, _ := w.store.Txn(context.Background(), metadata.Txn{})
			w.must(w.applier.WaitShown(context.Background(), rev))
			img := w.applier.Image()
			b, _ := img.Broker(3)
			if b.Incarnation == p.Incarnation && slices.Contains(img.Partition(tpA).ISR, 3) {
				t.Fatalf("cut at %d: an empty log counts as in sync", step)
			}
			epoch, err := w.loop.Register(context.Background(), &p.RegisterRequest)
			if err != nil {
				t.Fatalf("cut at %d (%t): %v", step, made, err)
			}
			p.epoch = epoch
			w.must(w.applier.WaitShown(context.Background(), epoch))
			w.pass(time.Second)
			w.want(fmt.Sprintf("cut at %d (%t)", step, made), "1@0 isr [1 2] elr []")
			if w.state(3) != metadata.Active {
				t.Errorf("cut at %d: broker 3 is %v", step, w.state(3))
			}
		}
	}
}

// Histories 6 and 7: a growth that was decided before a registration is refused, at whichever step
// it arrives.
func TestAGrowthDecidedBeforeARegistrationIsRefused(t *testing.T) {
	for step := range 4 {
		w := three(t)
		w.procs[3].up = false
		w.pass(4 * time.Second)
		w.start(3)
		w.pass(time.Second)
		w.want("out of the ISR", "1@0 isr [1 2] elr []")
		img := w.applier.Image()
		grown := *img.Partition(tpA)
		grown.ISR, grown.PartitionEpoch = []int32{1, 2, 3}, grown.PartitionEpoch+1
		b, _ := img.Broker(3)
		_, live := img.Liveness(3)
		growth := metadata.Txn{
			If: []metadata.Compare{{Key: metadata.PartitionKey(topicA, 0), ModRevision: img.Partition(tpA).Revision},
				{Key: metadata.BrokerKey(3), ModRevision: b.Epoch}, {Key: metadata.LivenessKey(3), ModRevision: live}},
			Put: []metadata.KV{{Key: metadata.PartitionKey(topicA, 0), Value: grown.Encode()}},
		}
		r := &rival{Store: w.store, times: step}
		r.act = func() {
			if r.times == 0 {
				_, _ = w.store.Txn(context.Background(), growth)
			}
		}
		w.use(r)
		if step == 0 {
			_, _ = w.store.Txn(context.Background(), growth)
		}
		w.start(3, func(q *RegisterRequest) { q.Dirs[0].ID = [16]byte{99} })
		_, _ = w.store.Txn(context.Background(), growth)
		w.pass(time.Second)
		w.want(fmt.Sprintf("the growth arrives before transaction %d", step), "1@0 isr [1 2] elr []")
	}
}

// on is a store that acts before Txns that a test chooses.
type on struct {
	metadata.Store
	before func(metadata.Txn)
}

func (o *on) Txn(ctx context.Context, t metadata.Txn) (int64, error) {
	o.before(t)
	return o.Store.Txn(ctx, t)
}

// A state that someone writes during a registration, such as a late "active" of a former
// controller, makes it begin again: an ISR may have grown under that state.
func TestARegistrationBeginsAgainAfterAnotherState(t *testing.T) {
	w := three(t)
	w.procs[3].up = false
	w.pass(4 * time.Second)
	w.want("out of the ISR", "1@0 isr [1 2] elr []")
	times := 0
	w.use(&on{w.store, func(txn metadata.Txn) {
		if txn.Put[0].Key != metadata.BrokerKey(3) || times > 0 {
			return
		}
		times++
		w.put(metadata.LivenessKey(3), metadata.BrokerState{Liveness: metadata.Active}.Encode())
		grown := *w.applier.Image().Partition(tpA)
		grown.ISR = []int32{1, 2, 3}
		w.put(metadata.PartitionKey(topicA, 0), grown.Encode())
	}})
	w.start(3, func(q *RegisterRequest) { q.Dirs[0].ID = [16]byte{99} })
	if times != 1 || w.state(3) != metadata.Starting {
		t.Errorf("acted %d times, broker 3 is %v", times, w.state(3))
	}
	w.want("registered with an empty log", "1@0 isr [1 2] elr []")
}

// Nothing waits for a broker that was unregistered, and it does not come back.
func TestUnregistering(t *testing.T) {
	ctx := context.Background()
	w := three(t)
	unregister := func(id int32) error {
		rev, err := w.loop.Unregister(ctx, id)
		if err == nil {
			w.must(w.applier.WaitShown(ctx, rev))
		}
		return err
	}
	w.start(4)
	c := over(w.store)
	spec := manual(Assignment{0, []int32{4, 1}})
	spec.Name = "moved"
	w.step()
	made, err := c.CreateTopic(ctx, spec)
	w.must(err)
	_, err = c.As(w.procs[4].Incarnation).AssignDirs(ctx, 4, map[metadata.TopicPartition][16]byte{{Topic: made.ID}: {4}})
	w.must(err)
	if err := unregister(4); !isRefusal(err, InvalidRequest) {
		t.Errorf("alive: %v", err)
	}
	w.procs[4].up = false
	w.pass(4 * time.Second)
	if err := unregister(4); !isRefusal(err, InvalidRequest) {
		t.Errorf("with a replica: %v", err)
	}
	_, err = c.DeleteTopic(ctx, made.ID)
	w.must(err)
	for _, id := range []int32{1, 2, 3} {
		rev, err := c.ForgetDeleted(ctx, id, made.ID)
		w.must(err)
		w.must(w.applier.WaitShown(ctx, rev))
	}
	if w.applier.Image().Deleting(made.ID) == nil {
		t.Fatal("the tombstone did not wait for broker 4")
	}
	w.must(unregister(4))
	img := w.applier.Image()
	if _, placed := img.Placement(4, metadata.TopicPartition{Topic: made.ID}); placed || img.Deleting(made.ID) != nil {
		t.Error("a placement or the tombstone is left")
	}
	if err := unregister(4); !isRefusal(err, BrokerNotRegistered) || err.Error() != "Broker ID 4 is not currently registered" {
		t.Errorf("again: %v", err)
	}
	if _, err := w.loop.Register(ctx, &w.process(4).RegisterRequest); !isRefusal(err, UnknownMember) {
		t.Errorf("it came back: %v", err)
	}
}

// A topic that is deleted just before a broker is unregistered does not wait for it for ever, and
// its tombstone never goes before the keys that belong to it: no broker could read the metadata.
func TestADeletionJustBeforeABrokerIsUnregistered(t *testing.T) {
	for _, cut := range []bool{false, true} { // off before the confirmation in its place
		ctx := context.Background()
		w := three(t)
		w.start(4)
		w.step()
		w.procs[4].up = false
		w.pass(5 * time.Second)
		c := over(w.store)
		h := &hook{Store: w.store}
		h.before = func() {
			_, err := c.DeleteTopic(ctx, topicA)
			w.must(err)
			if cut {
				h.before = func() { panic("the process ends") }
			}
		}
		w.use(h)
		func() {
			defer func() { _ = recover() }()
			_, err := w.loop.Unregister(ctx, 4)
			w.must(err)
		}()
		if w.use(w.store); cut && w.applier.Image().Deleting(topicA) == nil {
			t.Fatal("no deletion waits for broker 4")
		}
		for id := range int32(3) {
			_, err := c.ForgetDeleted(ctx, id+1, topicA)
			w.must(err)
		}
		w.pass(3 * sweepInterval)
		kvs, at, err := w.store.Range(ctx, "/")
		w.must(err)
		img, err := metadata.Load(kvs, at)
		w.must(err)
		if _, registered := img.Broker(4); registered || img.Deleting(topicA) != nil {
			t.Errorf("cut off: %t: broker 4 is registered: %t; the topic waits for %+v", cut, registered, img.Deleting(topicA))
		}
	}
}
