package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
)

// config describes a walk. The seed and it determine the walk.
type config struct {
	replicas int
	steps    int
	unclean  bool // the topic allows unclean elections
	restores bool // the metadata is restored from one copy, again and again, and an operator elects
	// nodes is the number of brokers, if it is more than the replicas. Then replicas move.
	nodes   int
	removed removed
	trace   bool
}

// dir is the id of a log directory.
type dir = [16]byte

// state is the metadata at one revision. It never changes.
type state struct {
	version int64
	part    metadata.Partition
	brokers []broker
	minISR  int
	written bool // the profile acknowledges written records
}

// broker is what the metadata has about a broker.
type broker struct {
	epoch       int64 // revision of the registration
	dir         dir   // its log directory
	liveness    metadata.Liveness
	livenessRev int64
	runs        int64 // version at which it became active; it has no lease before it sees that
	placement   dir   // of its replica of the partition
	damaged     bool  // its log is damaged
	low         bool  // its log directory is low on space
	uncompared  bool  // its log directory was not closed, and no leader has compared the log since
}

// world is the state of a walk.
type world struct {
	cfg     config
	r       *rand.Rand
	now     time.Duration
	history []*state // by version
	nodes   []*node
	links   [][]link // by sender and receiver
	stray   []stray  // frames of broken connections that the receiver still has
	writes  []write  // transactions on their way to the store
	answers []answer
	serial  uint64
	values  int
	ctl     []duty // the controller's, by broker
	slow    bool   // the store is slow
	healing bool   // the faults have ended
	oneMin  bool   // min.insync.replicas does not change
	gen     dir    // generation of the metadata
	oracle  oracle
	stats   map[string]int
	lines   []string
	fault   string
}

func newWorld(seed uint64, cfg config) *world {
	w := &world{cfg: cfg, r: rand.New(rand.NewPCG(seed, 0xc10c)), stats: map[string]int{}}
	n := max(cfg.replicas, cfg.nodes)
	first := &state{minISR: 1 + w.r.IntN(2), written: w.r.IntN(3) == 0, brokers: make([]broker, n)}
	w.slow, w.oneMin = w.chance(3), w.chance(2)
	first.part = metadata.Partition{Leader: 0, LeaderEpoch: 1}
	w.links = make([][]link, n)
	w.ctl = make([]duty, n)
	for i := range n {
		has := i < cfg.replicas
		if has {
			first.part.Replicas = append(first.part.Replicas, int32(i))
		}
		w.links[i] = make([]link, n)
		x := &node{id: int32(i), up: true, dir: w.newDir(), step: registered, slots: make([]slot, n), through: first.written}
		w.nodes = append(w.nodes, x)
		b := &first.brokers[i]
		*b = broker{epoch: int64(1000 + i), dir: x.dir, liveness: metadata.Active, livenessRev: int64(2000 + i)}
		x.brokerEpoch = b.epoch
		if w.r.IntN(2) == 0 && has { // otherwise the topic is new, and the replica has no recorded directory
			b.placement = x.dir
		}
	}
	first.part.ISR = first.part.Replicas
	w.history = []*state{first}
	w.commit(func(*state) {})
	w.oracle = newOracle()
	for _, x := range w.nodes {
		w.see(x, 1)
	}
	return w
}

// store returns the present metadata.
func (w *world) store() *state { return w.history[len(w.history)-1] }

// commit applies a transaction, which makes a new revision.
func (w *world) commit(change func(*state)) {
	old := w.store()
	next := *old
	next.version = int64(len(w.history))
	next.brokers = append([]broker(nil), old.brokers...)
	change(&next)
	w.history = append(w.history, &next)
	w.oracle.believers(w)
}

// image returns the metadata that a node sees.
func (w *world) image(x *node) *state { return w.history[x.image] }

func (w *world) newDir() (d dir) {
	w.serial++
	d[0], d[1], d[2] = 1, byte(w.serial), byte(w.serial>>8)
	return d
}

// chance reports true in one of n cases.
func (w *world) chance(n int) bool { return w.r.IntN(n) == 0 }

func (w *world) logf(format string, args ...any) {
	if w.cfg.trace {
		w.lines = append(w.lines, fmt.Sprintf("%6d ms  ", w.now.Milliseconds())+fmt.Sprintf(format, args...))
	}
}

// failf notes the first violation.
func (w *world) failf(format string, args ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, args...)
		w.logf("VIOLATION: %s", w.fault)
	}
}

func name(broker int32) string {
	if broker < 0 {
		return "no broker"
	}
	return string('A' + broker)
}

func names(set []int32) string {
	s := ""
	for _, b := range set {
		s += name(b)
	}
	return "{" + s + "}"
}

func (s *state) String() string {
	p := &s.part
	text := fmt.Sprintf("revision %d: leader %s epoch %d isr %s elr %s min %d", s.version, name(p.Leader), p.LeaderEpoch, names(p.ISR),
		names(p.ELR), s.minISR)
	if p.Reassigning() {
		text += fmt.Sprintf(", from %s to %s", names(p.Former()), names(p.Target()))
	}
	return text
}
