package service

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// words is a machine that answers with all words sent to its shard. Notifications are in
// parentheses.
type words struct{ list []string }

func (m *words) Apply(r coordinator.Record) error {
	m.list = append(m.list, string(r.Key))
	return nil
}

func (m *words) Handle(_ time.Time, to coordinator.Ticket, event any, out *coordinator.Effects) {
	word := event.(string)
	switch {
	case to == 0:
		m.list = append(m.list, "("+word+")")
	case word != "":
		m.list = append(m.list, word)
		out.Emit(coordinator.Record{Key: []byte(word)})
	}
	out.Reply(to, strings.Join(m.list, " "))
}

func (m *words) Writes(event any) bool                                      { return event != "" }
func (m *words) Loaded(time.Time, int32, *coordinator.Effects)              {}
func (m *words) Fire(time.Time, coordinator.TimerKey, *coordinator.Effects) {}
func (m *words) End()                                                       {}

// broker is one broker with services on it.
type broker struct {
	store    metadata.Store
	control  *controller.Controller
	configs  *configdef.Registry
	settings *replica.TopicSettings
	replicas *replica.Manager
	applier  *metadata.Applier
	services []*Service
	leaseEnd atomic.Bool
}

func (b *broker) lease() bool { return !b.leaseEnd.Load() }

// start starts a broker on a file system; stop ends it.
func start(t testing.TB, fs vfs.FS, defs ...Definition) (b *broker, stop func()) {
	t.Helper()
	return startWith(t, fs, func(b *broker) {
		for _, def := range defs {
			b.add(New(Options{Self: 1, Replicas: b.replicas, Controller: b.control, Lease: b.lease, Logger: zap.NewNop()}, def))
		}
	})
}

func (b *broker) add(s *Service) {
	b.services = append(b.services, s)
	b.applier.Subscribe(s.def.Topic, s.Apply)
}

// startWith starts a broker with the services that add adds.
func startWith(t testing.TB, fs vfs.FS, add func(*broker)) (b *broker, stop func()) {
	t.Helper()
	b = &broker{configs: registry(t), applier: metadata.NewApplier(zap.NewNop())}
	store := solestore.Open(t, raftstore.Options{FS: fs, Dir: "/metadata", Log: zap.NewNop()})
	b.store = store
	b.control = controller.New(controller.Options{Store: store, Configs: b.configs, NumPartitions: 1, ReplicationFactor: 1})
	incarnation, _, err := solestore.Register(t.Context(), store, 1, "")
	must(t, err)
	b.settings = replica.NewTopicSettings(replica.SettingsOptions{Self: 1, Configs: b.configs, Logger: zap.NewNop()})
	logs, err := storage.Open([]storage.Location{{Path: "/logs"}}, storage.Options{FS: fs, JournalFileSize: 1 << 20,
		Config: func(string, storage.ID) storage.Config { return b.settings.Of(metadata.Empty(), nil).Log }})
	must(t, err)
	b.replicas = replica.NewManager(replica.Options{Self: 1, Incarnation: incarnation, Storage: logs, Cluster: b.control,
		Logger: zap.NewNop(),
		Config: func(img *metadata.Image, topic *metadata.Topic) storage.Config { return b.settings.Of(img, topic).Log }})
	b.applier.Subscribe("replicas", b.replicas.Apply)
	add(b)
	must(t, b.applier.Start(context.Background(), store))
	return b, func() {
		for _, h := range b.services {
			h.Close()
		}
		b.applier.Stop()
		b.replicas.Purgatory().Close()
		must(t, b.replicas.Close(context.Background()))
		must(t, logs.Close())
		must(t, store.Close())
	}
}

// noReplicas returns a manager that has no partition.
func noReplicas(t testing.TB) *replica.Manager {
	t.Helper()
	logs, err := storage.Open([]storage.Location{{Path: "/logs"}}, storage.Options{FS: vfs.Memory(), JournalFileSize: 1 << 20})
	must(t, err)
	m := replica.NewManager(replica.Options{Self: 1, Storage: logs, Logger: zap.NewNop()})
	t.Cleanup(func() { must(t, errors.Join(m.Close(context.Background()), logs.Close())) })
	return m
}

// alone returns the options of a service of broker 1, which has no partitions.
func alone(t testing.TB) Options {
	t.Helper()
	return Options{Self: 1, Replicas: noReplicas(t), Logger: zap.NewNop()}
}

// say sends a word to a key's shard until it is answered; an empty word only reads.
func say(t testing.TB, h *Service, key, word string) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		type result struct {
			response any
			err      error
		}
		answered := make(chan result, 1)
		h.Submit(key, word, func(response any, err error) { answered <- result{response, err} })
		r := <-answered
		if r.err == nil {
			return r.response.(string)
		}
		must(t, h.Ensure())
		if time.Now().After(end) {
			t.Fatal(r.err)
		}
	}
}

func definition(topic string) Definition {
	return Definition{Topic: topic, Partitions: 2, ReplicationFactor: 3, SegmentBytes: 1 << 20,
		New:          func(int32) coordinator.Machine { return &words{} },
		InitialEvent: func(*metadata.Image) any { return "hello" },
		ChangeEvent: func(_ *metadata.Image, d *metadata.Delta) any {
			if !slices.ContainsFunc(d.Created, func(t *metadata.Topic) bool { return t.Name == "news" }) {
				return nil
			}
			return "news"
		}}
}

// While a leader creates the log of a partition, clients find it as the coordinator already. It
// answers that it loads: after NOT_COORDINATOR, librdkafka gives up to fetch the offsets of
// partitions that were assigned by hand.
func TestACoordinatorWhoseLogIsBeingCreatedLoads(t *testing.T) {
	fs := errfs.New(vfs.Memory())
	must(t, vfs.MakeDir(fs, "/metadata"))
	must(t, vfs.MakeDir(fs, "/logs"))
	begun, freed := make(chan struct{}, 2), make(chan struct{})
	free := sync.OnceFunc(func() { close(freed) })
	fs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/logs/a-*", Before: func(errfs.Call) { begun <- struct{}{}; <-freed }})
	b, stop := start(t, fs, definition("a"))
	defer stop()
	defer free()
	h := b.services[0]
	must(t, h.Ensure())
	created := make(chan error, 1)
	h.WhenCreated(func(err error) { created <- err })
	must(t, <-created)
	<-begun
	for p := range int32(2) {
		answered := make(chan error, 1)
		h.SubmitTo(p, "x", func(_ any, err error) { answered <- err })
		if err := <-answered; !errors.Is(err, coordinator.ErrLoading) {
			t.Errorf("partition %d: %v", p, err)
		}
	}
	free()
	if got := say(t, h, "k", "a"); got != "(hello) a" {
		t.Error(got)
	}
}

// Two coordinators on one broker need only a definition each: their topics are created on demand,
// each has its own state, which survives a restart, and gets the events of its definition.
func TestTwoDefinitionsOnOneBroker(t *testing.T) {
	fs := vfs.Memory()
	must(t, vfs.MakeDir(fs, "/metadata"))
	must(t, vfs.MakeDir(fs, "/logs"))
	defs := []Definition{definition("__transaction_state"), definition("__share_group_state")}
	b, stop := start(t, fs, defs...)
	for _, h := range b.services {
		var err error
		h.Submit("k", "x", func(_ any, e error) { err = e })
		if !errors.Is(err, coordinator.ErrNotCoordinator) {
			t.Errorf("before the topic exists: %v", err)
		}
	}
	if got := say(t, b.services[0], "k", "a"); got != "(hello) a" {
		t.Error(got)
	}
	if got := say(t, b.services[1], "k", "b"); got != "(hello) b" {
		t.Error(got)
	}
	made, err := b.control.CreateTopic(t.Context(), controller.TopicSpec{Name: "news", Partitions: 1, ReplicationFactor: 1})
	must(t, err)
	must(t, b.applier.WaitFor(t.Context(), made.Revision))
	if got := say(t, b.services[0], "k", ""); got != "(hello) a (news)" {
		t.Error(got)
	}
	for _, def := range defs {
		topic := b.applier.Image().Topic(def.Topic)
		if !topic.Internal || topic.Partitions.Len() != 2 || topic.Configs["cleanup.policy"] != "compact" ||
			topic.Configs[configdef.DurabilityProfile] != durability.Default || len(topic.Partitions.At(0).Replicas) != 1 {
			t.Errorf("%+v", topic)
		}
	}
	stop()
	b, stop = start(t, fs, defs...)
	defer stop()
	// The start is also a change. A shard that is loaded early enough gets its event.
	if got := say(t, b.services[1], "k", "c"); got != "b (hello) c" && got != "b (hello) (news) c" {
		t.Error(got)
	}
	revision, err := b.control.DeleteTopic(t.Context(), b.applier.Image().Topic(defs[0].Topic).ID)
	must(t, err)
	must(t, b.applier.WaitFor(t.Context(), revision))
	if got := say(t, b.services[0], "k", "d"); got != "(hello) d" {
		t.Errorf("after the topic was deleted: %s", got)
	}
}

func TestNothingIsCreatedAfterClose(t *testing.T) {
	h := New(Options{Self: 1, Replicas: noReplicas(t), Logger: zap.NewNop()}, definition("__transaction_state"))
	h.Close()
	must(t, h.Ensure()) // there is no controller that could create it
	h.Close()
}

// Another broker may ask for a partition that it has from older metadata, or for none.
func TestAPartitionThatIsNotThereHasNoCoordinator(t *testing.T) {
	b, stop := start(t, vfs.Memory(), definition("a"))
	defer stop()
	h := b.services[0]
	say(t, h, "key", "one") // the topic exists
	for _, p := range []int32{-1, math.MinInt32, 1000, math.MaxInt32} {
		answered := make(chan error, 1)
		h.SubmitTo(p, "x", func(_ any, err error) { answered <- err })
		if err := <-answered; !errors.Is(err, coordinator.ErrNotCoordinator) && !errors.Is(err, coordinator.ErrNoShard) {
			t.Errorf("partition %d: %v", p, err)
		}
	}
}

// A broker without a lease may not be the coordinator any longer. It answers nothing, not even what
// it knows, because another broker may know more.
func TestWithoutALeaseNothingIsAnswered(t *testing.T) {
	b, stop := start(t, vfs.Memory(), definition("a"))
	defer stop()
	h := b.services[0]
	before := say(t, h, "key", "one")
	ask := func(word string) error {
		answered := make(chan error, 1)
		h.Submit("key", word, func(_ any, err error) { answered <- err })
		return <-answered
	}
	b.leaseEnd.Store(true)
	for _, word := range []string{"", "two"} {
		if err := ask(word); !errors.Is(err, coordinator.ErrNotCoordinator) {
			t.Errorf("%q: %v", word, err)
		}
	}
	b.leaseEnd.Store(false)
	if after := say(t, h, "key", ""); after != before {
		t.Errorf("%q was stored without a lease, after %q", after, before)
	}
}

// The lease ends while a request is on its way through the shard.
func TestALeaseThatEndsBeforeTheAnswer(t *testing.T) {
	b, stop := start(t, vfs.Memory(), definition("a"))
	defer stop()
	h := b.services[0]
	say(t, h, "key", "one")
	left := atomic.Int32{}
	left.Store(1)
	h.opt.Lease = func() bool { return left.Add(-1) >= 0 }
	answered := make(chan error, 1)
	h.Submit("key", "", func(_ any, err error) { answered <- err })
	if err := <-answered; !errors.Is(err, coordinator.ErrNotCoordinator) {
		t.Error(err)
	}
}

// The first broker of a new cluster that serves clients must not get the only replica: the topic
// would keep it after the others have started.
func TestAnInternalTopicWaitsForTheBrokersOfItsReplicas(t *testing.T) {
	def := definition("a")
	def.ReplicationFactor = 3
	b, stop := start(t, vfs.Memory(), def)
	defer stop()
	h := b.services[0]
	h.opt.Brokers = 3
	if _, _, err := solestore.Register(t.Context(), b.store, 2, ""); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Ensure(); err == nil {
			h.work.Wait()
			t.Fatal("the topic is created with fewer replicas")
		}
	}
	_, epoch, err := solestore.Register(t.Context(), b.store, 3, "")
	must(t, err)
	must(t, b.applier.WaitFor(t.Context(), epoch))
	must(t, h.Ensure())
	h.work.Wait()
	must(t, b.applier.WaitFor(t.Context(), epoch+1))
	topic := b.applier.Image().Topic("a")
	if topic == nil || len(topic.Partitions.At(0).Replicas) != 3 {
		t.Errorf("with three brokers: %+v", topic)
	}
}

// A drained broker does not count: the topic has fewer replicas, and waits for the others.
func TestAnInternalTopicDoesNotCountDrainedBrokers(t *testing.T) {
	def := definition("a")
	def.ReplicationFactor = 3
	b, stop := start(t, vfs.Memory(), def)
	defer stop()
	h := b.services[0]
	h.opt.Brokers = 3
	mark := func(broker int32) int64 {
		rev, err := b.store.Txn(t.Context(), metadata.Txn{Put: []metadata.KV{{Key: metadata.BrokerConfigKey(broker),
			Value: metadata.EncodeConfigs(map[string]string{configdef.TakesReplicas: "false"})}}})
		must(t, err)
		return rev
	}
	_, _, err := solestore.Register(t.Context(), b.store, 3, "")
	must(t, err)
	must(t, b.applier.WaitFor(t.Context(), mark(3)))
	if err := h.Ensure(); err == nil {
		h.work.Wait()
		t.Fatal("a drained broker counts")
	}
	_, epoch, err := solestore.Register(t.Context(), b.store, 2, "")
	must(t, err)
	must(t, b.applier.WaitFor(t.Context(), epoch))
	must(t, h.Ensure())
	h.work.Wait()
	kvs, rev, err := b.store.Range(t.Context(), "") // nothing waits for a topic that is refused
	must(t, err)
	img, err := metadata.Load(kvs, rev)
	must(t, err)
	topic := img.Topic("a")
	if topic == nil || len(topic.Partitions.At(0).Replicas) != 2 || topic.Partitions.At(0).HasReplica(3) {
		t.Errorf("with two brokers that take replicas: %+v", topic)
	}
}

// The first request that needs the topic waits for it, and is answered when the topic cannot come.
func TestARequestWaitsUntilTheTopicIsCreated(t *testing.T) {
	def := definition("a")
	def.ReplicationFactor = 2
	b, stop := start(t, vfs.Memory(), def)
	defer stop()
	h := b.services[0]
	created := func() error {
		answered := make(chan error, 2)
		h.WhenCreated(func(err error) {
			if _, known := h.Partition("key"); err == nil && !known {
				err = errors.New("there is no topic")
			}
			answered <- err
		})
		err := <-answered
		if len(answered) != 0 {
			t.Error("answered twice")
		}
		return err
	}
	h.opt.Brokers = 2
	if err := created(); err == nil {
		t.Error("the topic is created with fewer replicas")
	}
	h.opt.Brokers = 1
	for range 2 {
		must(t, created())
	}
	closed := New(Options{Self: 1, Replicas: noReplicas(t), Logger: zap.NewNop()}, def)
	closed.Close()
	h = closed
	if err := created(); !errors.Is(err, coordinator.ErrNotCoordinator) {
		t.Errorf("after Close: %v", err)
	}
}
