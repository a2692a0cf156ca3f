package raftstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/vfs"
)

// ErrNotEmpty reports that the member has a state, or has voted already.
var ErrNotEmpty = errors.New("member already has metadata")

// Initial is the first state of a cluster. Every voter bootstraps with the same one.
type Initial struct {
	// Generation identifies this state and what follows from it; another one for every restore.
	Generation [16]byte
	Voters     []uint64 // member ids
	Keys       []metadata.KV
	Revision   int64
}

// Bootstrap gives an empty member its first state. It is durable when Bootstrap returns. All voters
// must be given the same state: they do not compare it.
func (s *Store) Bootstrap(initial Initial) error {
	done := make(chan error, 1)
	if err := s.do(context.Background(), func(n *node) error {
		refused, err := n.bootstrap(initial)
		done <- errors.Join(refused, err)
		return err
	}); err != nil {
		return err
	}
	return <-done
}

// bootstrap makes the state the node's own, and starts the library again. A first error is a
// refusal; a second one ends the node.
func (n *node) bootstrap(initial Initial) (refused, err error) {
	switch {
	case n.applied > 0 || n.mem.last() > 0 || n.mem.hard.GetTerm() > 0:
		return ErrNotEmpty, nil
	case !slices.Contains(initial.Voters, n.member):
		return fmt.Errorf("member %x is not a voter of the first metadata", n.member), nil
	case initial.Generation == [16]byte{}:
		return errors.New("the first metadata has no generation"), nil
	case n.failed != nil:
		return n.failed, nil
	}
	state := kv.NewState()
	for _, key := range initial.Keys {
		state.Load(key)
	}
	state.SetRevision(initial.Revision)
	voters := slices.Clone(initial.Voters)
	slices.Sort(voters)
	m := meta{
		member: n.member, generation: initial.Generation, index: 1, term: 1, revision: initial.Revision,
		conf: &pb.ConfState{Voters: voters},
	}
	hard := &pb.HardState{Term: new(uint64(1)), Vote: new(uint64(0)), Commit: new(uint64(1))}
	if err := n.disk.Rotate(emitState(m, state.Range(""), hard, nil)); err != nil {
		n.fail(err)
		return n.failed, nil
	}
	n.mem.reset(m.index, m.term)
	n.mem.hard, n.synced = hard, hard
	n.view.Replace(state)
	n.adopt(m)
	if err := n.start(); err != nil {
		return nil, err
	}
	return nil, n.first(voters[0])
}

// first begins the first election on one of the members, so that it need not wait for a timeout.
// The others vote for it even if they do not have the first state yet.
func (n *node) first(candidate uint64) (err error) {
	defer n.guard(&err)
	if candidate != n.member {
		return nil
	}
	if err := n.raft.Campaign(); err != nil {
		return err
	}
	return n.work()
}

// join notes the generation of the cluster that sends to a member without a state, so that the
// member's answers are accepted. It lasts until a state arrives or the process ends.
func (n *node) join(generation [16]byte) {
	if n.generation == [16]byte{} {
		n.generation = generation
	}
}

// Content is the content of a member's directory.
type Content struct {
	Used       bool // there is a member
	Member     uint64
	Generation [16]byte
	// Voters, sorted, are the voters of every configuration that may be in force as far as the
	// directory shows: more than one during a joint change, and if the log has a change that may or
	// may not be committed.
	Voters   []uint64
	Learners []uint64
	Revision int64
	Keys     []metadata.KV // in order
	// Pending is how many entries the log has beyond those in Keys. They are committed or not.
	Pending int
	// Term and Last are those of the last entry: of two members, the one with the larger term, or
	// with the larger index in the same term, has more of the metadata.
	Term, Last uint64
	// Fresh reports that the member has done nothing yet: it has no state, or the one of Bootstrap,
	// and has neither voted nor stored an entry.
	Fresh bool
	Torn  int    // bytes of an incomplete write at the end of the log
	Log   string // path of the log
}

// Sole reports that the member is the only voter: whatever it has stored is committed.
func (c *Content) Sole() bool { return len(c.Voters) == 1 && c.Voters[0] == c.Member }

// Read reads a member's directory as Open does, and changes nothing: for chronikctl and for export.
// Keys contains what the directory proves to be committed. A *Damage or ErrNewerFormat of package
// statelog is the reason why Open would refuse it; if the snapshot is intact and the log is
// damaged, the content is that before the damage. The caller must make sure that no process uses
// the directory.
func Read(fsys vfs.FS, dir string) (Content, error) {
	l := newLoader()
	found, err := statelog.Read(fsys, dir, format, l)
	c := Content{Used: found.Used, Torn: int(found.Torn), Log: found.Log}
	if !found.Used || err != nil && (found.Log == "" || !errors.Is(err, statelog.ErrDamaged)) {
		return c, err
	}
	checked := l.check(c.Log)
	if err == nil {
		err = checked
	}
	if checked != nil {
		return c, err
	}
	described := l.describe(&c)
	return c, errors.Join(err, described)
}

// contradiction returns the damage of a log whose records match their checksums, but not each
// other.
func contradiction(log, what string) error {
	return &statelog.Damage{Name: format.Name, File: log, What: what}
}

// describe sets the content of a directory whose records are loaded.
func (l *loader) describe(c *Content) (err error) {
	c.Member, c.Generation = l.meta.member, l.meta.generation
	if c.Voters, c.Learners, err = l.members(); err != nil {
		return contradiction(c.Log, err.Error())
	}
	c.Last = l.log.last()
	if c.Term, err = l.log.Term(c.Last); err != nil {
		return err
	}
	hard := l.log.hard
	c.Fresh = c.Last <= 1 && l.log.base == c.Last && hard.GetTerm() <= 1 && hard.GetVote() == 0
	committed := max(hard.GetCommit(), l.log.base)
	if c.Sole() {
		committed = c.Last
	}
	c.Pending = int(c.Last - committed)
	view, err := l.apply(committed)
	if err != nil {
		return err
	}
	c.Keys, c.Revision = view.All("")
	return nil
}

// apply applies the loaded entries up to an index to the loaded state.
func (l *loader) apply(last uint64) (*kv.View, error) {
	view := kv.NewView(l.state, 1, nil)
	for _, e := range l.log.entries {
		if e.GetIndex() > last || e.GetType() != pb.EntryNormal || len(e.GetData()) == 0 {
			continue
		}
		_, txns, err := parseTxns(e.GetData())
		if err != nil {
			return nil, err
		}
		view.Apply(txns)
	}
	return view, nil
}

// members returns the voters of the configuration after the last entry that is known to be
// committed and of those that the entries after it lead to, and the learners of the last one.
func (l *loader) members() (voters, learners []uint64, err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics if a change contradicts the ones before it
			err = fmt.Errorf("%w: %v", errBroken, p)
		}
	}()
	conf := l.meta.conf
	r, err := raft.NewRawNode(&raft.Config{
		ID: l.meta.member, Storage: &l.log, Applied: l.log.base, ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		MaxSizePerMsg: maxMessage, MaxInflightMsgs: 1, Logger: raftLogger{zap.NewNop().Sugar()},
	})
	if err != nil {
		return nil, nil, err
	}
	known := map[uint64]bool{}
	note := func() {
		for _, v := range slices.Concat(conf.GetVoters(), conf.GetVotersOutgoing()) {
			known[v] = true
		}
	}
	for _, e := range l.log.entries {
		if e.GetType() != pb.EntryConfChangeV2 {
			continue
		}
		if e.GetIndex() > l.log.hard.GetCommit() {
			note()
		}
		cc := &pb.ConfChangeV2{}
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			return nil, nil, fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
		conf = r.ApplyConfChange(cc)
	}
	note()
	return slices.Sorted(maps.Keys(known)), slices.Sorted(slices.Values(conf.GetLearners())), nil
}

// Recover makes the member in a directory the only voter of a new generation, for a group that has
// lost the majority of its voters for good. change returns the first state of that generation; it
// gets all that the directory has, also entries of which it is not known whether they were
// committed. The change is complete or absent after a crash. No process may use the directory.
func Recover(fsys vfs.FS, dir string, generation [16]byte,
	change func(keys []metadata.KV, revision int64) ([]metadata.KV, int64, error)) error {
	l := newLoader()
	disk, found, err := statelog.Open(statelog.Options{FS: fsys, Dir: dir, Format: format, Log: zap.NewNop()}, l)
	if err != nil {
		return err
	}
	if err = l.check(found.Log); err == nil {
		err = l.recover(disk, found.Used, generation, change)
	}
	return errors.Join(err, disk.Close())
}

func (l *loader) recover(disk *statelog.Log, used bool, generation [16]byte,
	change func([]metadata.KV, int64) ([]metadata.KV, int64, error)) error {
	last := l.log.last()
	if !used || last == 0 {
		return errors.New("the directory has no metadata")
	}
	term, err := l.log.Term(last)
	if err != nil {
		return err
	}
	view, err := l.apply(last)
	if err != nil {
		return err
	}
	keys, revision, err := change(view.All(""))
	if err != nil {
		return err
	}
	m := meta{
		member: l.meta.member, generation: generation, index: last, term: term, revision: revision,
		conf: &pb.ConfState{Voters: []uint64{l.meta.member}},
	}
	hard := &pb.HardState{Term: new(max(term, l.log.hard.GetTerm())), Vote: new(uint64(0)), Commit: new(last)}
	return disk.Rotate(emitState(m, keys, hard, nil))
}

// ReadAll returns all that a directory has, also entries of which it is not known whether they were
// committed. The directory may be a copy that was made while the member ran.
func ReadAll(fsys vfs.FS, dir string) (keys []metadata.KV, revision int64, err error) {
	l := newLoader()
	found, err := statelog.Read(fsys, dir, format, l)
	if err == nil {
		err = l.check(found.Log)
	}
	switch {
	case err != nil:
		return nil, 0, err
	case !found.Used || l.log.last() == 0:
		return nil, 0, errors.New("the directory has no metadata")
	}
	view, err := l.apply(l.log.last())
	if err != nil {
		return nil, 0, err
	}
	keys, revision = view.All("")
	return keys, revision, nil
}

// Begin makes a new member in the directory dir, which must be empty or missing: the only voter of
// a generation that begins with the given keys. The directory is complete or absent after a crash.
func Begin(fsys vfs.FS, dir string, generation [16]byte, keys []metadata.KV, revision int64) error {
	disk, found, err := statelog.Open(statelog.Options{FS: fsys, Dir: dir, Format: format, Log: zap.NewNop()}, newLoader())
	if err != nil {
		return err
	}
	if found.Used {
		return errors.Join(fmt.Errorf("%s has metadata", dir), disk.Close())
	}
	m := meta{member: randomID(), generation: generation, index: 1, term: 1, revision: revision}
	m.conf = &pb.ConfState{Voters: []uint64{m.member}}
	hard := &pb.HardState{Term: new(uint64(1)), Vote: new(uint64(0)), Commit: new(uint64(1))}
	return errors.Join(disk.Rotate(emitState(m, keys, hard, nil)), disk.Close())
}

// Exists reports whether dir contains a member, damaged or not.
func Exists(fsys vfs.FS, dir string) (bool, error) { return statelog.Exists(fsys, dir) }

// Peek returns statelog.ErrNewerFormat if a newer version of chronik wrote the member in dir. It
// changes nothing and leaves all other checks to Open.
func Peek(fsys vfs.FS, dir string) error { return statelog.Peek(fsys, dir, format) }
