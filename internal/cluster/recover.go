package cluster

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/vfs"
)

// askLost is how long Inspect asks seeds that do not answer.
const askLost = 5 * time.Second

// RecoverOptions configure Inspect.
type RecoverOptions struct {
	FS  vfs.FS
	Dir string // the metadata directory; no other process may use it
	// From is a copy of a metadata directory that replaces the one in Dir, which must be missing;
	// empty: none.
	From string
	Conf configdef.Cluster
	Node int32
	// Dial and Secrets are those of link.Options.
	Dial    func(ctx context.Context, address string) (net.Conn, error)
	Secrets []secret.Secret
	Log     *zap.Logger
}

// Recovery is a cluster that has lost the majority of its voters, as the directory of one of them,
// or a copy of a directory, shows it.
type Recovery struct {
	Cluster    string
	Term, Last uint64 // see raftstore.Content
	// Lost are the node ids of the other voters, in order; -1 for one whose broker is not known. If
	// a change of the voters may be in progress, those before it and after it count. With a copy,
	// they are all voters, also this broker.
	Lost []int32

	o RecoverOptions
	// keys and revision are the content of a copy.
	keys     []metadata.KV
	revision int64
	replaces bool // Dir is that of a member without metadata
	// ask are the addresses to ask: the seeds, and those of voters that are not among them.
	ask []string
}

// Inspect reads the directory of a voter and asks all seeds, and the other voters where they have
// registered. It fails if the cluster is not lost as far as these show: another voter answers, or
// the metadata was recovered before. It changes nothing. The error matches membership.ErrRefused
// if the text has the cause and a remedy.
func Inspect(ctx context.Context, o RecoverOptions) (*Recovery, error) {
	r := &Recovery{o: o, ask: slices.Clone(o.Conf.Seeds)}
	c, err := r.read()
	if err != nil {
		return nil, err
	}
	if o.From != "" {
		there, err := raftstore.Exists(o.FS, o.Dir)
		if err != nil {
			return nil, err
		}
		if there {
			if r.replaces, err = unused(o.FS, o.Dir); err != nil {
				return nil, err
			}
		}
		if there && !r.replaces {
			return nil, membership.Refused(o.Dir + " has metadata, which may be newer than the copy; recover these, or move the directory away")
		}
		id := metadata.NewID()
		c.Member = binary.BigEndian.Uint64(id[:]) | 1 // this broker becomes another member
	}
	r.Term, r.Last = c.Term, c.Last
	nodes := map[uint64]int32{}
	for _, kv := range c.Keys {
		k, err := metadata.ParseKey(kv.Key)
		switch {
		case err != nil:
		case k.Kind == metadata.KindCluster:
			var record metadata.Cluster
			record, err = metadata.DecodeCluster(kv)
			r.Cluster = record.ID
		case k.Kind == metadata.KindBroker:
			var b metadata.Broker
			b, err = metadata.DecodeBroker(kv)
			for _, m := range append([]uint64{b.Member}, b.Former...) {
				nodes[m] = b.ID
			}
			at, ok := b.Peer()
			if ok && b.Member != c.Member && slices.Contains(c.Voters, b.Member) && !slices.Contains(r.ask, address(at.Host, at.Port)) {
				r.ask = append(r.ask, address(at.Host, at.Port))
			}
		}
		if err != nil {
			return nil, err
		}
	}
	for _, v := range c.Voters {
		if v == c.Member {
			continue
		}
		node, known := nodes[v]
		if !known {
			node = -1
		}
		r.Lost = append(r.Lost, node)
	}
	slices.Sort(r.Lost)
	r.Lost = slices.Compact(r.Lost) // two directories of one broker
	switch {
	case r.Cluster == "":
		return nil, membership.Refused(cmp.Or(o.From, o.Dir) + " has no metadata of a cluster")
	case o.From != "":
	case !slices.Contains(c.Voters, c.Member):
		return nil, membership.Refused(fmt.Sprintf("this broker has no vote; recover the cluster on one of the %d brokers that have one",
			len(c.Voters)))
	case len(r.Lost) == 0:
		return nil, membership.Refused("this broker is the only voter and has lost nothing; start it")
	}
	if err := r.askOthers(ctx, &c); err != nil {
		return nil, err
	}
	return r, nil
}

// read returns the content of the directory or of the copy. A copy may also be the one that a
// broker keeps in a log directory while its cluster has few voters (copies.Copy). That does not
// name the voters: then all brokers count.
func (r *Recovery) read() (raftstore.Content, error) {
	if r.o.From == "" {
		return raftstore.Read(r.o.FS, r.o.Dir)
	}
	kept, err := copies.Check(r.o.FS, r.o.From)
	if err != nil || !kept.Used {
		c, err := raftstore.Read(r.o.FS, r.o.From)
		if err == nil {
			r.keys, r.revision, err = raftstore.ReadAll(r.o.FS, r.o.From)
		}
		return c, err
	}
	r.keys, r.revision = kept.Keys, kept.Revision
	c := raftstore.Content{Used: true, Keys: kept.Keys, Revision: kept.Revision, Last: uint64(kept.Revision)}
	img, err := metadata.Load(kept.Keys, kept.Revision)
	if err != nil {
		return c, err
	}
	c.Generation = img.Generation()
	for _, b := range img.Brokers() {
		c.Voters = append(c.Voters, b.Member)
	}
	return c, nil
}

// unused reports whether a directory is that of a member that has waited for its cluster in vain.
func unused(fsys vfs.FS, dir string) (bool, error) {
	c, err := raftstore.Read(fsys, dir)
	return c.Fresh && len(c.Keys) == 0, err
}

// askOthers asks the other brokers whether one of them is another voter.
func (r *Recovery) askOthers(ctx context.Context, c *raftstore.Content) error {
	ctx, cancel := context.WithTimeout(ctx, askLost)
	defer cancel()
	b := newBook(r.ask, func() uint64 { return c.Member }, func(context.Context, uint16, []byte) ([]byte, error) {
		return nil, membership.ErrNotLeader
	})
	links, err := link.New(link.Options{
		Identity: func() link.Identity {
			return link.Identity{
				ClusterName: r.o.Conf.Name, Node: r.o.Node, Member: c.Member, BrokerEpoch: -1,
				FeatureLevel: int16(metadata.MaxFeatureLevel), ClusterID: r.Cluster, Generation: c.Generation,
			}
		},
		Secrets: r.o.Secrets, Log: r.o.Log, Handler: silent{}, Notify: func(e link.Event) { b.notify(e) }, Dial: r.o.Dial,
	})
	if err != nil {
		return err
	}
	defer links.Close()
	b.start(links, "")
	defer b.close()
	for ctx.Err() == nil {
		for _, a := range membership.Ask(ctx, b, r.ask) {
			switch s := a.State; {
			case a.Rejected != "":
				return membership.Refused(a.Seed + ": " + a.Rejected)
			case s != nil && s.Cluster == r.Cluster && r.o.From != "":
				return membership.Refused(fmt.Sprintf("the broker at %s, node %d, answers and has the metadata of the cluster, which may be newer "+
					"than the copy; start this broker with an empty metadata directory, or recover that one", a.Seed, s.Self.Node))
			case s != nil && s.Cluster == r.Cluster && slices.Contains(c.Voters, s.Self.ID):
				return membership.Refused(fmt.Sprintf("the broker at %s, node %d, answers and has a vote, so the cluster may not be lost; "+
					"start brokers until a majority of the voters runs, or stop that broker if its voters are lost, too", a.Seed, s.Self.Node))
			}
		}
		pause.Wait(ctx.Done(), 100*time.Millisecond)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// Recover makes this broker the only voter, in another generation of the metadata.
func (r *Recovery) Recover() error {
	generation := metadata.NewID()
	change := func(keys []metadata.KV, revision int64) ([]metadata.KV, int64, error) {
		return controller.Recovered(keys, revision, generation, time.Now())
	}
	if r.o.From != "" {
		keys, revision, err := change(r.keys, r.revision)
		if err == nil && r.replaces {
			err = errors.Join(r.o.FS.RemoveAll(r.o.Dir), r.o.FS.SyncDir(path.Dir(r.o.Dir)))
		}
		if err != nil {
			return err
		}
		return raftstore.Begin(r.o.FS, r.o.Dir, generation, keys, revision)
	}
	return raftstore.Recover(r.o.FS, r.o.Dir, generation, change)
}

// silent implements link.Handler for a process that only asks.
type silent struct{}

// Message implements link.Handler.
func (silent) Message(link.Hello, uint16, []byte) {}

// Request implements link.Handler.
func (silent) Request(context.Context, link.Hello, uint16, []byte) ([]byte, error) {
	return nil, membership.ErrNotLeader
}
