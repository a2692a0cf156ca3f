package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/vfs"
)

// ticksOfElection is how many units of the raft library's time metadata.election.ms has.
const ticksOfElection = 10

// Options configure a Cluster.
type Options struct {
	FS vfs.FS
	// Dial, Admit and Trusts are those of link.Options.
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Admit  func(nc net.Conn, principal string) error
	Trusts func(shown []*x509.Certificate) error
	// Adopt serves a connection for a client of another broker; see network.Server.Adopt.
	Adopt func(nc net.Conn, early []byte, of *network.Adopted) error
	// Dir is the metadata directory; its parent must exist and be locked.
	Dir  string
	Conf configdef.Cluster
	Node int32
	Rack string
	// InternalReplicas is the number of replicas of each internal topic, by name.
	InternalReplicas map[string]int
	// Endpoints are the addresses that this broker registers, one for each listener; the first is
	// the one for brokers.
	Endpoints []metadata.Endpoint
	// Secrets are those of cluster.secret.file.
	Secrets []secret.Secret
	// Logs is the cluster whose records are in the log directories, "" for none.
	Logs string
	// Refused is called when a connection of another broker was refused, with the principal of its
	// certificate, if it has one. It must not block. Default: none.
	Refused func(from net.Addr, principal string, err error)
	// Progress is called with what the start waits for.
	Progress func(string)
	// Version is that of the software.
	Version string
	// Health returns this broker's own health report, for other brokers, until ctx ends. Nil: they
	// get none.
	Health func(ctx context.Context) *health.Report
	// Fail is called if this process cannot continue. It must not block.
	Fail func(error)
	Log  *zap.Logger
}

// Cluster is this broker's part of a cluster. A broker without seeds is a cluster of its own: the
// only voter of its metadata, without links to others.
type Cluster struct {
	o     Options
	self  membership.Member
	book  *book
	store *raftstore.Store
	links *link.Links
	serve *membership.Server
	began time.Time

	seen      atomic.Pointer[string]                              // see membership.State
	record    atomic.Pointer[metadata.Cluster]                    // nil until the node has metadata
	control   atomic.Pointer[controller.Loop]                     // since Control
	agent     atomic.Pointer[membership.Agent]                    // since Register
	reporter  atomic.Pointer[reporter]                            // since Register
	follows   atomic.Pointer[Streams]                             // since NewStreams
	streams   atomic.Pointer[func(*link.Conn)]                    // since Streams.Serve
	subjects  [subjectsEnd - Transactions]atomic.Pointer[Handler] // since Serve
	snapshots atomic.Pointer[SnapshotService]                     // since ServeSnapshots
	watched   atomic.Pointer[Watched]
	// votersWait is nil if the members of the metadata group are as they must be, or another node
	// leads. votersSaid are the reasons that were logged, and used by keepVoters only.
	votersWait atomic.Pointer[votersWait]
	votersSaid series.Failures
	others     others
	twins      *twins

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// Open opens the metadata directory and the links, and begins to dial the seeds. The caller must
// serve Accept on the listener for brokers and call Close.
func Open(o Options) (*Cluster, error) {
	c := &Cluster{o: o, began: time.Now(), others: others{heard: map[int32]health.Heard{}, asked: map[int32]bool{}}}
	if !c.Linked() { // the rest is news of other brokers
		c.o.Log = o.Log.WithOptions(zap.WrapCore(func(of zapcore.Core) zapcore.Core { return warnings{of} }))
		o = c.o
	}
	own := ""
	if len(o.Endpoints) > 0 {
		own = address(o.Endpoints[0].Host, o.Endpoints[0].Port)
	} else if c.Linked() {
		return nil, errors.New("there is no listener for other brokers")
	}
	c.seen.Store(new(string))
	c.watched.Store(&Watched{At: c.began, Led: c.began})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.book = newBook(o.Conf.Seeds, func() uint64 { return c.self.ID }, c.here)
	var err error
	c.store, err = raftstore.Open(raftstore.Options{
		FS: o.FS, Dir: o.Dir, Log: o.Log.Named("metadata"), Peers: requests{c.book}, Fatal: o.Fail,
		Tick: o.Conf.Election / ticksOfElection,
	})
	if err != nil {
		return nil, err
	}
	c.self = membership.Member{Node: o.Node, ID: c.store.Member(), Address: own}
	c.twins = newTwins(c.self)
	c.serve = membership.NewServer(membership.ServerOptions{
		Version: o.Version, State: c.state, Reach: c.book.Reach, AddLearner: c.addLearner, Gone: c.gone,
		Controller: c.control.Load,
	})
	c.links, err = link.New(link.Options{
		Identity: c.identity, Secrets: o.Secrets, Notify: c.notify, Log: o.Log.Named("link"), Dial: o.Dial, Admit: o.Admit,
		Trusts: o.Trusts, Urgent: urgent, Met: c.met,
		Handler: &router{
			heard: c.book.heard, operator: c.Operator(), store: c.store, server: c.serve, log: o.Log.Named("link"),
			reports: func(body []byte) ([]byte, error) { return c.reporter.Load().answer(body) }, subject: c.handleSubject,
			health: c.answerHealth,
		}, Data: c.data, Client: c.serveTunnel, Check: c.admit,
	})
	if err != nil {
		return nil, errors.Join(err, c.store.Close())
	}
	c.book.start(c.links, c.self.Address)
	c.work.Go(c.watch)
	if c.Linked() {
		c.work.Go(c.askHealth)
	}
	return c, nil
}

// Linked reports whether there may be other brokers: the configuration names seeds.
func (c *Cluster) Linked() bool { return len(c.o.Conf.Seeds) > 0 }

// Accept returns the handler of requests with which other brokers begin their connections, nil if
// there are none.
func (c *Cluster) Accept() network.Handler {
	if !c.Linked() {
		return nil
	}
	return accept{c.links}
}

// EndUntrusted ends the links to brokers whose certificates Options.Trusts no longer accepts. It is
// called when it may have changed its mind.
func (c *Cluster) EndUntrusted() { c.links.EndUntrusted() }

// Store returns the metadata.
func (c *Cluster) Store() *raftstore.Store { return c.store }

// Agent returns the agent of this process, nil before Register.
func (c *Cluster) Agent() *membership.Agent { return c.agent.Load() }

// Close ends everything.
func (c *Cluster) Close(context.Context) error {
	c.cancel()
	c.work.Wait()
	err := c.store.Close()
	c.book.close()
	c.links.Close()
	return err
}

// Enter waits until this node has metadata: those in its directory, or those of the cluster that it
// forms or joins. Without seeds, it forms one alone. The error matches membership.ErrRefused or is
// that of ctx.
func (c *Cluster) Enter(ctx context.Context) error {
	if !c.Linked() {
		return begin(ctx, c.store)
	}
	return membership.Enter(ctx, membership.EnterOptions{
		List: c.o.Conf.Seeds, Seeds: c.book, Self: c.state, Note: func(seen string) { c.seen.Store(&seen) },
		Bootstrap: c.bootstrap, HasMetadata: c.hasMetadata, Alone: c.alone, Progress: c.o.Progress,
	})
}

func (c *Cluster) bootstrap(generation metadata.ID, voters []uint64, keys []metadata.KV) error {
	err := c.store.Bootstrap(raftstore.Initial{Generation: generation, Voters: voters, Keys: keys, Revision: 1})
	if errors.Is(err, raftstore.ErrNotEmpty) {
		return nil // it has voted already; the leader sends its metadata
	}
	return err
}

// alone reports whether no other broker can have the metadata of this node: it is the only voter,
// and no other broker has registered.
func (c *Cluster) alone() bool {
	list, err := c.brokers(c.ctx)
	return err == nil && c.store.Sole() != 0 && !slices.ContainsFunc(list, func(b metadata.Broker) bool { return b.ID != c.o.Node })
}

// brokers returns the registered brokers.
func (c *Cluster) brokers(ctx context.Context) (list []metadata.Broker, err error) {
	keys, _, err := c.store.Range(ctx, metadata.BrokerPrefix)
	if err != nil {
		return nil, err
	}
	for _, kv := range keys {
		b, err := metadata.DecodeBroker(kv)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}

// CheckNode refuses metadata to which the configuration of this broker does not fit. It must be
// called after Enter.
func (c *Cluster) CheckNode(ctx context.Context) error {
	list, err := c.brokers(ctx)
	if err != nil {
		return err
	}
	return checkNode(list, c.o.Node, c.self.ID, c.Linked(), c.o.Dir)
}

// checkNode is CheckNode for the registered brokers. This one has the id node and the metadata
// directory dir, which is the given member; linked is true if it has seeds.
func checkNode(list []metadata.Broker, node int32, member uint64, linked bool, dir string) error {
	const none = -1
	other, former := int32(none), int32(none) // any other broker; the one with this metadata directory
	own, kept := false, false                 // whether node is registered, and with this directory
	for i := range list {
		switch b := &list[i]; {
		case b.ID == node:
			own, kept = true, b.Member == member
		case b.Member == member:
			former = b.ID
		case other == none:
			other = b.ID
		}
	}
	if former == none && !own && !linked {
		former = other // a broker without seeds is the only one of its metadata
	}
	switch {
	case former != none && !kept:
		return membership.Refused(fmt.Sprintf("the data directory belongs to the broker with node.id %d, not %d: set node.id=%d, "+
			"or use another data directory", former, node, former))
	case !linked && max(former, other) != none:
		return membership.Refused(fmt.Sprintf("%s belongs to a broker of a cluster, in which broker %d is registered, too; "+
			"set cluster.name and cluster.seeds, or use another data.dir (--data-dir)", dir, max(former, other)))
	}
	return nil
}

// begin makes a member without metadata the only voter of a new cluster. It refuses one that needs
// the votes of others.
func begin(ctx context.Context, s *raftstore.Store) error {
	kv, _, err := s.Get(ctx, metadata.ClusterKey)
	if err == nil && kv.ModRevision == 0 {
		generation := metadata.NewID()
		err = s.Bootstrap(raftstore.Initial{
			Generation: generation, Voters: []uint64{s.Member()}, Revision: 1,
			Keys: membership.FirstKeys(metadata.FormatID(metadata.NewID()), generation),
		})
	}
	switch {
	case err == nil && s.Sole() != 0:
		return s.Failed()
	case err == nil, errors.Is(err, raftstore.ErrNotEmpty):
		return membership.Refused("it belongs to a broker of a cluster, in which other brokers have a vote; " +
			"set cluster.name and cluster.seeds, or use another data.dir (--data-dir)")
	}
	return err
}

// hasMetadata waits until the node has metadata.
func (c *Cluster) hasMetadata(ctx context.Context, most time.Duration) bool {
	const poll = 20 * time.Millisecond
	for end := time.Now().Add(most); ; {
		if c.clusterRecord() != nil {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		if pause.Sleep(ctx, poll) != nil {
			return false
		}
	}
}

// clusterRecord returns the cluster's record, nil if the node has no metadata.
func (c *Cluster) clusterRecord() *metadata.Cluster {
	if r := c.record.Load(); r != nil {
		return r
	}
	kv, _, err := c.store.Get(c.ctx, metadata.ClusterKey)
	if err != nil || kv.ModRevision == 0 {
		return nil
	}
	r, err := metadata.DecodeCluster(kv)
	if err != nil {
		return nil
	}
	c.record.Store(&r)
	return &r
}

// Features returns an image with only the cluster's record, as this node has it now. It may be
// older than the cluster's: Version is the revision that it shows. It is nil before the node has
// metadata.
func (c *Cluster) Features() *metadata.Image {
	kv, revision, err := c.store.Get(c.ctx, metadata.ClusterKey)
	if err != nil || kv.ModRevision == 0 {
		return nil
	}
	img, err := metadata.Load([]metadata.KV{kv}, revision)
	if err != nil {
		return nil // the start reports it
	}
	return img
}

// ID returns the cluster's id, "" before Enter.
func (c *Cluster) ID() string {
	if r := c.clusterRecord(); r != nil {
		return r.ID
	}
	return ""
}

// state is what this node answers to other nodes' question for it.
func (c *Cluster) state() membership.State {
	s := membership.State{
		Name: c.o.Conf.Name, Self: c.self, Logs: c.o.Logs, Seeds: membership.SeedsHash(c.o.Conf.Seeds), Seen: *c.seen.Load(),
	}
	if r := c.clusterRecord(); r != nil {
		s.Cluster, s.Generation = r.ID, r.Generation
	}
	role, _ := c.store.Leadership()
	switch role.Leader {
	case 0:
		if voters := c.Watched().voters(); slices.Contains(voters, c.self.ID) {
			s.Votes = c.book.votes(voters)
		}
	case c.self.ID:
		s.Leader = c.self
	default:
		s.Leader = c.book.member(role.Leader)
	}
	return s
}

// identity is what this node states when a link begins.
func (c *Cluster) identity() link.Identity {
	id := link.Identity{
		ClusterName: c.o.Conf.Name, Node: c.o.Node, Member: c.self.ID, BrokerEpoch: -1, FeatureLevel: int16(metadata.MaxFeatureLevel),
		Address: c.self.Address,
	}
	if r := c.clusterRecord(); r != nil {
		id.ClusterID, id.Generation = r.ID, r.Generation
	}
	if a := c.agent.Load(); a != nil && a.Epoch() > 0 {
		id.BrokerEpoch = a.Epoch()
	}
	return id
}

// admit refuses links of members that were unregistered.
func (c *Cluster) admit(peer link.Hello) error {
	gone, err := c.gone(c.ctx, peer.Member)
	if err == nil && gone {
		return &link.Mismatch{
			Reason: link.Removed, Remedy: "start it with an empty data directory",
			Cause: fmt.Sprintf("node %d, member %016x, was unregistered from the cluster", peer.Node, peer.Member),
		}
	}
	return err
}

func (c *Cluster) notify(e link.Event) {
	if e.Kind == link.Rejected && !e.Dialed && c.o.Refused != nil {
		c.o.Refused(e.From, e.Principal, e.Err)
	}
	gone := c.book.notify(e)
	if a := c.agent.Load(); a != nil && e.Kind == link.Broken && e.Lane == link.Meta {
		a.Ended(e.Peer.Member)
	}
	if l := c.control.Load(); l != nil && gone >= 0 && gone != c.o.Node {
		l.Refused(gone)
	}
}

func (c *Cluster) data(conn *link.Conn) {
	if serve := c.streams.Load(); serve != nil {
		(*serve)(conn)
	}
}

// here answers a request that this node sends to itself.
func (c *Cluster) here(ctx context.Context, method uint16, body []byte) ([]byte, error) {
	return c.serve.Handle(ctx, c.self.ID, method, body)
}

// seek asks the seeds for the metadata leader, for a node that hears none: it may have been removed
// from the group while its directory was away. It returns former, which was asked in vain, only if
// no seed knows another. If no seed knows any, it returns 0 and the reasons.
func (c *Cluster) seek(ctx context.Context, former uint64) (leader uint64, why string) {
	answers := membership.Ask(ctx, c.book, c.o.Conf.Seeds)
	for _, a := range answers {
		if a.State == nil || a.State.Cluster != c.ID() || a.State.Leader.ID == 0 {
			continue
		}
		c.book.Reach(a.State.Leader)
		if leader = a.State.Leader.ID; leader != former {
			return leader, ""
		}
	}
	if leader != 0 {
		return leader, ""
	}
	return 0, membership.Reasons(answers)
}

func (c *Cluster) gone(ctx context.Context, member uint64) (bool, error) {
	kv, _, err := c.store.Get(ctx, metadata.GoneKey(member))
	return kv.ModRevision != 0, err
}

func (c *Cluster) addLearner(ctx context.Context, member uint64) error {
	err := c.store.AddLearner(ctx, member)
	if errors.Is(err, raftstore.ErrNotLeader) {
		return membership.ErrNotLeader
	}
	return err
}

func address(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
