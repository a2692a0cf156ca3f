package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/txn/exchange"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for an expected event, on a busy machine: it detects a hang and
// does not measure how long anything takes.
const patience = 2 * time.Minute

// eventually polls until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("never: %s", what)
		}
	}
}

// node is a whole broker on a file system in memory, with clients on loopback.
type node struct {
	*Handler
	addr    string
	fs      vfs.FS
	store   *raftstore.Store
	control *controller.Controller
	storage *storage.Manager
	park    *purgatory.Purgatory
	applier *metadata.Applier
	server  atomic.Pointer[network.Server] // storage calls its Producers before it exists
	configs *configdef.Registry
	groups  *service.Groups
	txns    *service.Transactions
	shares  *service.Shares
	static  map[string]string
	level   zap.AtomicLevel
	pipe    *pipeListener // nil if clients connect by a socket
	// coordinators answers the questions of the gate.
	coordinators permits
}

// nodeOptions are what a test changes in a node before it starts.
type nodeOptions struct {
	self     int32
	fs       vfs.FS
	dir      string // of metadata and logs
	second   string // a further directory for logs; empty for none
	static   map[string]string
	listener network.Listener
	profiles []durability.Profile // in addition to the built-in ones
	storage  func(*storage.Options)
	network  func(*network.Options)
	broker   func(*Options)
	visible  func(group.Viewer) func(string) bool
	states   service.ShareStates
	// pipe makes clients connect in memory, which synctest can see waiting.
	pipe bool
	tier replica.TierOptions
	// store, if set, wraps the file store for the controller.
	store func(metadata.Store) metadata.Store
}

// newNode starts a broker and stops it when the test ends. The test must have ended everything that
// stopping would wait for.
func newNode(t testing.TB, change ...func(*nodeOptions)) *node {
	t.Helper()
	o := nodeOptions{self: 1, fs: vfs.Memory(), dir: "/data", static: map[string]string{}, listener: network.Listener{Name: "test"},
		store: func(s metadata.Store) metadata.Store { return s }, storage: func(*storage.Options) {}, network: func(*network.Options) {},
		broker: func(*Options) {}}
	for _, c := range change {
		c(&o)
	}
	n := &node{fs: o.fs, static: o.static, level: zap.NewAtomicLevel()}
	profiles, err := durability.NewSet(o.profiles...)
	must(t, err)
	n.configs = configdef.New(configdef.Options{Profiles: profiles, ProduceProfiles: []string{"balanced"}})
	must(t, n.configs.CheckStatic(o.static))
	conf, err := n.configs.ResolveBroker(o.static)
	must(t, err)
	must(t, vfs.MakeDir(n.fs, path.Join(o.dir, "metadata")))
	n.store = solestore.Open(t, raftstore.Options{FS: n.fs, Dir: path.Join(o.dir, "metadata"), Log: zap.NewNop()})
	t.Cleanup(func() { must(t, n.store.Close()) })
	n.control = controller.New(controller.Options{Store: o.store(n.store), Configs: n.configs,
		NumPartitions: conf.NumPartitions, ReplicationFactor: conf.DefaultReplicationFactor, Groups: conf.Groups})
	incarnation, _, err := solestore.Register(t.Context(), n.store, o.self, conf.Rack)
	must(t, err)
	n.openLogs(t, o, incarnation)
	n.serve(t, o)
	return n
}

func (n *node) openLogs(t testing.TB, o nodeOptions, incarnation [16]byte) {
	t.Helper()
	settings := replica.NewTopicSettings(replica.SettingsOptions{Self: o.self, Configs: n.configs, Static: n.static, Logger: zap.NewNop()})
	dir := path.Join(o.dir, "logs")
	must(t, vfs.MakeDir(n.fs, dir))
	opt := storage.Options{FS: n.fs, JournalFileSize: 1 << 20, Absent: n.absent,
		Config: func(string, storage.ID) storage.Config { return settings.Of(metadata.Empty(), nil).Log }}
	o.storage(&opt)
	var err error
	locations := []storage.Location{{Path: dir}}
	if o.second != "" {
		must(t, vfs.MakeDir(n.fs, o.second))
		locations = append(locations, storage.Location{Path: o.second})
	}
	n.storage, err = storage.Open(locations, opt)
	must(t, err)
	t.Cleanup(func() { must(t, n.storage.Close()) })
	n.applier = metadata.NewApplier(zap.NewNop())
	replicas := replica.NewManager(replica.Options{Self: o.self, Incarnation: incarnation, Storage: n.storage, Cluster: n.control,
		Logger: zap.NewNop(), Tier: o.tier,
		Config: func(img *metadata.Image, topic *metadata.Topic) storage.Config {
			s := settings.Of(img, topic)
			if s.Err != nil {
				t.Errorf("configs of a log: %v", s.Err)
			}
			return s.Log
		}})
	n.park = replicas.Purgatory()
	n.applier.Subscribe("settings", settings.Follow)
	t.Cleanup(func() { must(t, replicas.Close(context.Background())) })
	n.applier.Subscribe("replicas", replicas.Apply)
	n.applier.Finish(replicas.AwaitApplied)
	n.groups, err = service.NewGroups(service.GroupsOptions{Configs: n.configs, Static: n.static, Visible: o.visible, States: o.states,
		Options: service.Options{Self: o.self, Replicas: replicas, Controller: n.control, Logger: zap.NewNop()}})
	must(t, err)
	n.applier.Subscribe("groups", n.groups.Apply)
	t.Cleanup(n.groups.Close)
	markers := n.openTransactions(t, o, replicas, settings)
	handlers := Options{Self: o.self, Metadata: n.applier, Controller: n.control, Replicas: replicas, Settings: settings,
		Configs: n.configs,
		Cluster: &fakeCluster{}, Groups: n.groups, Static: n.static, Logger: zap.NewNop(), Level: n.level,
		Transactions: n.txns.Service, Exchange: markers, Gate: gate.New(gate.Options{Coordinators: &n.coordinators})}
	n.openShares(t, &o, replicas)
	handlers.Shares = n.shares
	o.broker(&handlers)
	n.Handler, err = New(handlers)
	must(t, err)
	n.applier.Subscribe("client metrics", n.Telemetry().Follow(n.configs, zap.NewNop()))
	t.Cleanup(func() { must(t, n.Close(context.Background())) })
	must(t, n.applier.Start(context.Background(), n.store))
	must(t, n.applier.WaitFor(t.Context(), n.applier.Image().Version())) // raised leader epochs are recorded
	t.Cleanup(n.applier.Stop)
	// Changes of the registration, such as new leader epochs, are applied before a client connects.
	_, revision, err := n.store.Range(t.Context(), metadata.ClusterKey)
	must(t, err)
	must(t, n.applier.WaitFor(t.Context(), revision))
}

// openTransactions starts the transaction coordinator, and returns what connects it with
// partitions. The gate does not ask it: tests set the answers that it gets.
func (n *node) openTransactions(t testing.TB, o nodeOptions, replicas *replica.Manager,
	settings *replica.TopicSettings) *exchange.Exchange {
	t.Helper()
	x := exchange.New(exchange.Options{Self: o.self, Topic: service.TransactionsTopic, Offsets: service.OffsetsTopic, Logger: zap.NewNop(),
		Image:  func() *metadata.Image { return n.txns.Image() },
		Submit: func(id string, event any, done func(any, error)) { n.txns.Submit(id, event, done) },
		Partition: func(topic [16]byte, index int32) (exchange.Partition, error) {
			return replicas.Partition(topic, index)
		},
		WriteOffsets: func(index int32, m exchange.Marker, done func(error)) {
			n.groups.WriteMarker(index, group.Marker(m), done)
		},
		Fenced: func(partition, epoch, known int32) { n.txns.Fenced(partition, epoch, known) }})
	t.Cleanup(x.Close)
	var err error
	n.txns, err = service.NewTransactions(service.TransactionsOptions{
		Options: service.Options{Self: o.self, Replicas: replicas, Controller: n.control, Logger: zap.NewNop()}, Configs: n.configs,
		Settings: settings, Static: n.static, Version: (*metadata.Image).TransactionVersion, Send: x.Send,
		ProducerID: func(ctx context.Context) (int64, error) { return n.ProducerID(ctx) }})
	must(t, err)
	n.applier.Subscribe("transactions", n.txns.Apply)
	t.Cleanup(n.txns.Close)
	return x
}

// openShares starts the share coordinator.
func (n *node) openShares(t testing.TB, o *nodeOptions, replicas *replica.Manager) {
	t.Helper()
	var err error
	n.shares, err = service.NewShares(service.SharesOptions{Configs: n.configs, Static: n.static,
		Options: service.Options{Self: o.self, Replicas: replicas, Controller: n.control, Logger: zap.NewNop()}})
	must(t, err)
	n.applier.Subscribe("shares", n.shares.Apply)
	t.Cleanup(n.shares.Close)
}

func (n *node) serve(t testing.TB, o nodeOptions) {
	t.Helper()
	opt := network.Options{Handler: n.Handler, Quotas: n.Handler.Quotas(), Table: n.table, Linger: time.Millisecond}
	o.network(&opt)
	server, err := network.New(opt)
	must(t, err)
	n.server.Store(server)
	var ln net.Listener
	if o.pipe {
		n.pipe = newPipeListener()
		ln = n.pipe
	} else {
		ln, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
	}
	n.addr = ln.Addr().String()
	must(t, server.Serve(&o.listener, ln))
	t.Cleanup(func() {
		n.groups.Close()
		n.txns.Close()
		n.shares.Close()
		n.park.Close()
		must(t, server.Close())
	})
}

// absent is the function that the daemon passes to the journals.
func (n *node) absent() int {
	if s := n.server.Load(); s != nil {
		return s.Producers().Absent()
	}
	return 0
}

// pipeListener accepts connections in memory.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// topic creates a topic and returns its id when it is usable.
func (n *node) topic(t testing.TB, name string, partitions int32, configs ...string) [16]byte {
	t.Helper()
	spec := controller.TopicSpec{Name: name, Partitions: partitions, ReplicationFactor: -1, Configs: map[string]*string{}}
	for i := 0; i < len(configs); i += 2 {
		spec.Configs[configs[i]] = &configs[i+1]
	}
	made, err := n.control.CreateTopic(t.Context(), spec)
	must(t, err)
	must(t, n.applier.WaitFor(t.Context(), made.Revision))
	eventually(t, "the directories of the replicas are recorded, without which the high watermark does not move", func() bool {
		for i := range partitions {
			tp := metadata.TopicPartition{Topic: made.ID, Partition: i}
			if p := n.image().Partition(tp); p == nil || p.Leader != n.opt.Self {
				continue
			}
			if _, ok := n.image().Placement(n.opt.Self, tp); !ok {
				return false
			}
		}
		return true
	})
	return made.ID
}

// wire is one connection that speaks kmsg.
type wire struct {
	net.Conn
	format      *kmsg.RequestFormatter
	correlation int32
}

func (n *node) dial(t testing.TB) *wire {
	t.Helper()
	var c net.Conn
	if n.pipe != nil {
		here, there := net.Pipe()
		n.pipe.conns <- there
		c = here
	} else {
		var err error
		c, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", n.addr)
		must(t, err)
	}
	must(t, c.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { _ = c.Close() }) // some tests have closed it
	return &wire{Conn: c, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))}
}

// send writes a request at its version.
func (w *wire) send(req kmsg.Request) error {
	w.correlation++
	_, err := w.Write(w.format.AppendRequest(nil, req, w.correlation))
	return err
}

// receive reads the answer to a request.
func (w *wire) receive(req kmsg.Request) (kmsg.Response, error) {
	body, err := w.body()
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && req.Key() != protocol.KeyApiVersions {
		if len(body) == 0 || body[0] != 0 {
			return nil, errors.New("no empty tagged fields in the response header")
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("answer to %s version %d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp, nil
}

// body reads one frame and returns what follows the correlation id.
func (w *wire) body() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(w, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w, frame); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != w.correlation {
		return nil, fmt.Errorf("answer to request %d, want %d", got, w.correlation)
	}
	return frame[4:], nil
}

// ask sends a request at a version and returns its answer.
func ask[R kmsg.Response](t testing.TB, w *wire, version int16, req kmsg.Request) R {
	t.Helper()
	req.SetVersion(version)
	must(t, w.send(req))
	resp, err := w.receive(req)
	must(t, err)
	return resp.(R)
}

// client is a franz-go client of the node.
func (n *node) client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.addr)}, opts...)...)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}
