package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/simnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDisk = errors.New("the disk fails")

// world is a cluster without goroutines and clocks: nodes on modeled disks and a modeled network,
// driven by one seed.
type world struct {
	rand     *rand.Rand
	net      *simnet.Net
	machines []*machine
	byMember map[uint64]*machine
	broken   broken

	leaders  map[uint64]uint64 // by term
	elapsed  time.Duration
	granted  map[uint64]time.Duration // by term: when its leader was confirmed last
	untils   map[uint64]time.Duration // by term: FormerUntil of its leader
	ready    map[uint64]bool          // by term: its leader was ready
	states   map[int64]uint32         // by revision: checksum of what the first node showed
	acked    map[string]int64         // key: revision
	refused  []string                 // keys of transactions that changed nothing
	maxAcked int64
	pending  []pending
	next     int
	faults   map[string]int // how often each fault was injected
	bad      error          // the first violation
}

type pending struct {
	key  string
	done chan result
}

// machine is one node with its disk. It implements host.
type machine struct {
	w        *world
	id       int
	disk     *crashfs.FS
	errs     *errfs.FS
	stop     chan struct{}
	node     *node // nil: down
	transfer receiver
	checked  int64 // the revision that was compared last

	sending map[uint64]int // by member that gets a snapshot: steps
	writes  []background
	epoch   time.Time // its clock when the world began: no two are comparable
}

// background is work of another goroutine: before it, or with its result.
type background struct {
	work func() error
	done func(*node, error) error
	err  error
}

// now reads the machine's clock.
func (m *machine) now() time.Time { return m.epoch.Add(m.w.elapsed) }

func newWorld(t *testing.T, seed uint64, voters int, b broken) *world {
	cryptotest.SetGlobalRandom(t, seed)
	w := &world{
		rand: rand.New(rand.NewPCG(seed, 2)), net: simnet.New(seed, simnet.Faults{}), byMember: map[uint64]*machine{}, broken: b,
		leaders: map[uint64]uint64{}, granted: map[uint64]time.Duration{}, untils: map[uint64]time.Duration{},
		ready: map[uint64]bool{}, states: map[int64]uint32{}, acked: map[string]int64{}, faults: map[string]int{},
	}
	initial := Initial{Generation: [16]byte{1}, Keys: []metadata.KV{{Key: "/cluster", Value: []byte("c"), ModRevision: 1}}, Revision: 1}
	for i := range voters {
		m := &machine{w: w, id: i, disk: crashfs.New(seed*10 + uint64(i)),
			epoch: time.Unix(w.rand.Int64N(1<<30), 0)}
		w.machines = append(w.machines, m)
		m.start()
		if m.node == nil {
			t.Fatal(w.bad)
		}
		initial.Voters = append(initial.Voters, m.node.member)
	}
	for _, m := range w.machines {
		if refused, err := m.node.bootstrap(initial); refused != nil || err != nil {
			t.Fatal(refused, err)
		}
	}
	return w
}

// fail records the first violation of a promise.
func (w *world) fail(format string, args ...any) {
	if w.bad == nil {
		w.bad = fmt.Errorf(format, args...)
	}
}

func (m *machine) start() {
	m.errs, m.stop = errfs.New(m.disk), make(chan struct{})
	opts := &Options{FS: m.errs, Dir: "/m", Log: zap.NewNop(), Tick: defaultTick, CompactBytes: 2000, History: 10, now: m.now,
		broken: m.w.broken, memberID: uint64(m.id + 1)}
	m.checked, m.writes = 0, nil
	n, err := openNode(opts, m, m.stop)
	if err != nil {
		if !m.disk.Crashed() {
			m.w.fail("machine %d does not start: %w", m.id, err)
		}
		return
	}
	m.node, m.transfer, m.sending = n, receiver{}, map[uint64]int{}
	m.w.byMember[n.member] = m
}

// die ends the process, without a word.
func (m *machine) die() {
	if m.node != nil {
		m.node.abandon(metadata.ErrUnknown)
		close(m.stop)
		m.node = nil
		m.w.net.Forget(uint64(m.id))
	}
}

// powerLoss ends the process and leaves what a disk may hold then.
func (m *machine) powerLoss() {
	m.die()
	m.disk = m.disk.PowerLossImage(m.w.mode(), m.w.rand.Uint64())
}

// check records an error of the node as a violation.
func (m *machine) check(err error) {
	if err != nil {
		m.w.fail("machine %d: %w", m.id, err)
	}
}

func (m *machine) post(from, to uint64, kind byte, payload []byte) {
	if other := m.w.byMember[to]; other != nil {
		p := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{kind}, from), to)
		m.w.net.Send(uint64(m.id), uint64(other.id), append(p, payload...))
	}
}

func (m *machine) send(to uint64, message []byte) { m.post(sender(message), to, 'm', message) }

// sender returns the member in a message's header. A node may send before it has returned from its
// start.
func sender(message []byte) uint64 { return binary.BigEndian.Uint64(message[17:]) }

func (m *machine) sendSnapshot(s *snapshot) {
	m.w.faults["snapshot"]++
	m.sending[s.to] = 0
	_ = s.transfer(func(piece []byte) error { m.post(s.from, s.to, 'p', piece); return nil })
}

func (m *machine) background(work func() error, done func(*node, error) error) {
	m.w.faults["rotation"]++
	m.writes = append(m.writes, background{work: work, done: done})
}

func (m *machine) note(*node) {}

func (m *machine) led(l Leadership) {
	if m.node == nil || l.Leader == 0 {
		return
	}
	if was, ok := m.w.leaders[l.Term]; ok && was != l.Leader {
		m.w.fail("term %d has the leaders %x and %x", l.Term, was, l.Leader)
	}
	m.w.leaders[l.Term] = l.Leader
	if !l.Ready || m.w.ready[l.Term] { // later, another member may lead without this one's knowledge
		return
	}
	m.w.ready[l.Term] = true
	if m.node.view.Revision() < m.w.maxAcked {
		m.w.fail("leader of term %d is ready at revision %d, %d is acknowledged", l.Term, m.node.view.Revision(), m.w.maxAcked)
	}
}

// elected notes until when the leader of a term believes that former ones were confirmed.
func (w *world) elected(term uint64, until time.Duration) {
	if was, again := w.untils[term]; again && was <= until {
		return
	}
	w.untils[term] = until
	for t, at := range w.granted {
		w.outlived(t, at, term, until)
	}
}

// confirmed notes that a majority confirmed the leader of a term.
func (w *world) confirmed(term uint64, at time.Duration) {
	if at <= w.granted[term] {
		return
	}
	w.granted[term] = at
	for t, until := range w.untils {
		w.outlived(term, at, t, until)
	}
}

func (w *world) outlived(former uint64, confirmed time.Duration, term uint64, until time.Duration) {
	if former < term && confirmed > until {
		w.fail("the leader of term %d was confirmed at %v, after %v, as that of term %d knows", former, confirmed, until, term)
	}
}

// receive handles a packet.
func (m *machine) receive(p []byte) {
	kind, from, to, p := p[0], binary.BigEndian.Uint64(p[1:]), binary.BigEndian.Uint64(p[9:]), p[17:]
	n := m.node
	if n == nil || n.member != to {
		return
	}
	if kind == 'r' {
		var err error
		if p[0] != 0 {
			err = errTransfer
		}
		delete(m.sending, from)
		m.check(n.snapshotSent(from, err))
		return
	}
	raw, gen, err := parseHeader(p, n.generation, from, to)
	if err != nil {
		m.w.faults["foreign"]++
		return
	}
	n.join(gen)
	if kind == 'm' {
		message, err := parseMessage(raw, from, to)
		if err != nil {
			m.check(err)
			return
		}
		m.check(n.step(message))
		return
	}
	message, state, err := m.transfer.piece(raw[1:], gen, from, to)
	switch {
	case err != nil:
		m.post(to, from, 'r', []byte{1})
	case state != nil:
		m.check(n.install(message, gen, state))
		m.post(to, from, 'r', []byte{0})
	}
}

// step advances the world by a tick.
func (w *world) step() {
	w.elapsed += defaultTick
	for _, p := range w.net.Step() {
		w.machines[p.To].receive(p.Payload)
	}
	for _, m := range w.machines {
		if m.disk.Crashed() {
			m.powerLoss()
		}
		if m.node != nil && w.rand.IntN(10) > 0 { // clocks differ
			m.check(m.node.tick())
		}
		for len(m.writes) > 0 && m.node != nil && w.rand.IntN(4) == 0 {
			b := m.writes[0]
			if b.work != nil {
				m.writes[0] = background{done: b.done, err: b.work()}
				break
			}
			m.writes = m.writes[1:]
			m.check(b.done(m.node, b.err))
		}
		for _, to := range slices.Sorted(maps.Keys(m.sending)) {
			if m.sending[to]++; m.node != nil && m.sending[to] > 50 {
				delete(m.sending, to)
				m.check(m.node.snapshotSent(to, errTransfer))
			}
		}
	}
	w.collect()
	for _, m := range w.machines {
		if m.node == nil {
			continue
		}
		n := m.node
		if n.role.Leader == n.member {
			w.elected(n.role.Term, n.role.FormerUntil.Sub(m.epoch))
		}
		if !n.confirmed.IsZero() {
			w.confirmed(n.role.Term, n.confirmed.Sub(m.epoch))
		}
		w.soleIsTrue(m)
		revision := m.node.view.Revision()
		if revision == m.checked {
			continue
		}
		m.checked = revision
		sum := checksum(m.node.view)
		if was, ok := w.states[revision]; ok && was != sum {
			w.fail("machine %d shows another revision %d than the first one that showed it", m.id, revision)
		}
		w.states[revision] = sum
	}
}

// soleIsTrue checks that no other member leads in this one's term or a later one while it counts as
// the only voter.
func (w *world) soleIsTrue(m *machine) {
	if m.node.sole == 0 {
		return
	}
	w.faults["steps of an only voter"]++
	for _, other := range w.machines {
		n := other.node
		if n != nil && other != m && n.role.Leader == n.member && n.role.Term >= m.node.mem.hard.GetTerm() {
			w.fail("machine %d leads term %d, and machine %d of term %d counts as the only voter", other.id, n.role.Term, m.id,
				m.node.mem.hard.GetTerm())
		}
	}
}

// checksum returns a checksum of all keys with their revisions.
func checksum(v *kv.View) uint32 {
	keys, _ := v.All("")
	var p []byte
	for _, key := range keys {
		p = kv.AppendKV(p, key)
	}
	return crc32.Checksum(p, castagnoli)
}

// collect takes the answers.
func (w *world) collect() {
	w.pending = slices.DeleteFunc(w.pending, func(p pending) bool {
		var r result
		select {
		case r = <-p.done:
		default:
			return false
		}
		var conflict *metadata.ConflictError
		switch {
		case r.err == nil:
			w.acked[p.key], w.maxAcked = r.revision, max(w.maxAcked, r.revision)
		case errors.As(r.err, &conflict):
			if conflict.Revision < conflict.Found || conflict.Revision == 0 {
				w.fail("%v was decided at revision %d", conflict, conflict.Revision)
			}
			w.refused = append(w.refused, p.key)
		case errors.Is(r.err, ErrNotLeader):
			w.refused = append(w.refused, p.key)
		}
		return true
	})
}

// propose sends a transaction to a machine: a new key, and a counter that all of them change.
func (w *world) propose(m *machine) {
	if m.node == nil {
		return
	}
	w.next++
	key := fmt.Sprintf("/n/%04d", w.next)
	counter := m.node.view.State().Get("/counter")
	if w.rand.IntN(4) == 0 {
		counter.ModRevision-- // a decision on an old state
	}
	r := &request{done: make(chan result, 1), txn: kv.AppendTxn(nil, metadata.Txn{
		If:  []metadata.Compare{{Key: "/counter", ModRevision: max(counter.ModRevision, 0)}},
		Put: []metadata.KV{{Key: "/counter", Value: []byte(key)}, {Key: key, Value: make([]byte, w.rand.IntN(300))}},
	})}
	w.pending = append(w.pending, pending{key, r.done})
	m.check(m.node.propose([]*request{r}))
}

func (w *world) mode() crashfs.Mode {
	modes := crashfs.Modes()
	return modes[w.rand.IntN(len(modes))]
}

// fault injects one random fault.
func (w *world) fault() {
	m := w.machines[w.rand.IntN(len(w.machines))]
	switch kind := w.rand.IntN(13); {
	case kind < 2 && m.node != nil:
		w.faults["kill"]++
		m.die()
		m.disk = m.disk.Kill()
	case kind < 3 && m.node != nil:
		w.faults["power loss in a write"]++
		m.disk.CrashDuring(m.disk.Ops() + 1 + w.rand.IntN(12))
	case kind < 4 && m.node != nil:
		w.faults["power loss"]++
		m.powerLoss()
	case kind < 5 && m.node != nil: // every machine: the state is what the disks hold
		w.faults["power loss of all"]++
		for _, m := range w.machines {
			m.powerLoss()
		}
	case kind < 7:
		w.faults["cut"]++
		other := w.machines[w.rand.IntN(len(w.machines))]
		w.net.Cut(uint64(m.id), uint64(other.id))
		if w.rand.IntN(2) == 0 {
			w.net.Cut(uint64(other.id), uint64(m.id))
		}
	case kind < 8:
		w.net.Heal()
	case kind < 9 && m.node != nil:
		w.faults["bad disk"]++
		m.errs.Add(errfs.Rule{
			Ops: errfs.Datasync | errfs.Write, Err: errDisk, Short: w.rand.IntN(50), Drop: errfs.DropCached, From: 1 + w.rand.IntN(4),
		})
	case kind < 10:
		m.errs.Clear()
	case kind < 11 && m.node != nil:
		w.faults["transfer"]++
		m.check(m.node.resign(nil))
	case kind < 12:
		w.net.Faults = simnet.Faults{
			Loss: w.rand.Float64() / 4, Duplicate: w.rand.Float64() / 4, MaxDelay: w.rand.IntN(6), Reorder: w.rand.IntN(2) == 0,
		}
	}
}

// heal ends all faults and starts what is down.
func (w *world) heal() {
	w.net.Heal()
	w.net.Faults = simnet.Faults{}
	for _, m := range w.machines {
		m.disk.CrashAt(-1)
	}
	for _, m := range w.machines {
		m.errs.Clear()
		if m.disk.Crashed() {
			m.powerLoss()
		}
		if m.node == nil {
			m.start()
		}
	}
}

// leader returns a machine that leads and is ready.
func (w *world) leader() *machine {
	for _, m := range w.machines {
		if m.node != nil && m.node.failed == nil && m.node.role.Ready {
			return m
		}
	}
	return nil
}

// converge waits until all machines show the same, and checks what was acknowledged and refused.
func (w *world) converge() {
	w.heal()
	for range 600 {
		if w.step(); w.bad != nil {
			return
		}
		l := w.leader()
		if l == nil {
			continue
		}
		same := len(w.pending) == 0
		for _, m := range w.machines {
			same = same && m.node.applied == l.node.applied && l.node.applied == l.node.mem.last()
		}
		if !same {
			continue
		}
		state := l.node.view.State()
		for key, revision := range w.acked {
			if kv := state.Get(key); kv.ModRevision != revision {
				w.fail("%s was acknowledged at revision %d, and is at %d", key, revision, kv.ModRevision)
			}
		}
		for _, key := range w.refused {
			if state.Get(key).ModRevision != 0 {
				w.fail("%s was refused, and is there", key)
			}
		}
		return
	}
	w.fail("no agreement after 600 steps without a fault")
}

// walk runs a random history and returns its world.
func walk(t *testing.T, seed uint64, voters, steps int, b broken, wipes bool) *world {
	w := newWorld(t, seed, voters, b)
	for i := 0; i < steps && w.bad == nil; i++ {
		w.step()
		busy := i/40%2 == 0 // otherwise a member that is cut off lacks no entry and may win an election
		if busy && w.rand.IntN(3) == 0 {
			w.propose(w.machines[w.rand.IntN(voters)])
		}
		if l := w.leader(); busy && l != nil && w.rand.IntN(2) == 0 {
			w.propose(l)
		}
		if w.rand.IntN(15) == 0 {
			w.fault()
		}
		if wipes && w.rand.IntN(60) == 0 {
			w.wipe()
		}
		if voters == 5 && w.rand.IntN(20) == 0 {
			w.reseat()
		}
		if wipes {
			w.replaceWiped()
		}
		for _, m := range w.machines {
			if m.node == nil && w.rand.IntN(10) == 0 {
				m.start()
			}
		}
	}
	if w.bad == nil {
		if wipes {
			w.heal()
			for range 400 {
				w.step()
				w.replaceWiped()
			}
		}
		w.converge()
	}
	for _, m := range w.machines {
		m.die()
	}
	return w
}

// wipe replaces the disk of a machine, if all others still have theirs.
func (w *world) wipe() {
	l := w.leader()
	if l == nil {
		return
	}
	for _, m := range w.machines {
		if m.node == nil || m.node.changing() || !slices.Contains(l.node.conf.GetVoters(), m.node.member) {
			return
		}
	}
	m := w.machines[w.rand.IntN(len(w.machines))]
	w.faults["wipe"]++
	m.die()
	m.disk = crashfs.New(w.rand.Uint64())
	m.start()
}

// changing reports whether a former voter counts, or may count after a restart: the files may have
// a change of the voters that is not committed yet, as far as this member knows.
func (n *node) changing() bool {
	if len(n.conf.GetVotersOutgoing()) > 0 || n.mem.base > n.applied {
		return true
	}
	return slices.ContainsFunc(n.mem.entries, func(e *pb.Entry) bool {
		return e.GetType() == pb.EntryConfChangeV2 && e.GetIndex() > n.applied
	})
}

// reseat asks the leader for other voters: itself and a random even number of the others.
func (w *world) reseat() {
	l := w.leader()
	if l == nil {
		return
	}
	next := []uint64{l.node.member}
	for _, i := range w.rand.Perm(len(w.machines))[:w.rand.IntN(len(w.machines))] {
		if m := w.machines[i]; m != l && m.node != nil {
			next = append(next, m.node.member)
		}
	}
	if len(next)%2 == 0 {
		next = next[:len(next)-1]
	}
	if cc, err := l.node.setVoters(next); err == nil && cc != nil && l.node.change == nil {
		w.faults["other voters"]++
		l.check(l.node.reconfigure(cc, make(chan error, 1)))
	}
}

// replaceWiped does what the controller does for a machine that came back as another member.
func (w *world) replaceWiped() {
	l := w.leader()
	if l == nil || l.node.change != nil {
		return
	}
	members := map[int]uint64{}
	for member, m := range w.byMember {
		if m.node != nil && m.node.member == member {
			members[m.id] = member
		}
	}
	for _, former := range l.node.conf.GetVoters() {
		m := w.byMember[former]
		if members[m.id] == former || members[m.id] == 0 {
			continue
		}
		learner, done := members[m.id], make(chan error, 1)
		switch {
		case !l.node.isMember(learner):
			m.check(l.node.reconfigure(changes(single(pb.ConfChangeAddLearnerNode, learner)), done))
		case l.node.silence(former) > electionTicks*l.node.opts.Tick && l.node.caughtUp(learner):
			w.faults["replaced"]++
			m.check(l.node.reconfigure(changes(single(pb.ConfChangeRemoveNode, former), single(pb.ConfChangeAddNode, learner)), done))
		}
		return
	}
}
