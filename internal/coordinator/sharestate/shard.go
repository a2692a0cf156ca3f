package sharestate

import (
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// Config configures a Shard.
type Config struct {
	// SnapshotUpdates is share.coordinator.snapshot.update.records.per.snapshot: how many updates
	// follow a snapshot of a share partition. The next write is a snapshot.
	SnapshotUpdates int
	// Memory bounds the memory for states, with the marks. All shards of a broker share it. New
	// states are refused beyond it; writes and loads are not.
	Memory *coordinator.MemoryBudget
	// Broken is empty in an ordinary build, and so is Cuts, for the removal of marks.
	Broken Broken
	Cuts   window.Broken
}

// Shard holds the states of one partition of __share_group_state. It is a coordinator.Machine. What
// it sends (coordinator.Options.Send) is a Changed, whose result is a Notified.
type Shard struct {
	cfg    Config
	states map[format.Key]*state
	// oldest and newest are the ends of a list of all states in the order of their last snapshots.
	oldest, newest *state
	topics         map[[16]byte]int // states by topic
	created        int64            // the largest Created of all snapshots so far, ms since 1970
	memory         int64            // bytes in use of cfg.Memory
	// incomplete is how many states have updates but no snapshot, and foreign reports that the log
	// has records of unknown types. Either way it is not deleted.
	incomplete int
	foreign    bool

	// The fields below are volatile.

	exists  Topics // nil until the first TopicsChanged
	removed []format.Key
	prune   pruning

	// Set only during an event.
	now   time.Time
	out   *coordinator.Effects
	bytes int // of the records that the event has emitted
}

// Identity tells states of the same share partition apart. The zero value is none.
type Identity struct {
	// StateEpoch is the epoch of the group with which the state began.
	StateEpoch int32
	// Created is a time in ms since 1970, which no other state of the shard has.
	Created int64
}

// state is the stored state of a share partition.
type state struct {
	key      format.Key
	id       Identity
	epoch    int32 // of the last snapshot
	leader   int32 // recorded leader epoch; -1: no leader has opened the state
	start    int64 // -1: not decided
	complete int32 // how many offsets at or above start are finished
	marks    []format.Batch
	epochs   epochs.Cache // of Opening
	updates  int          // since the last snapshot
	// incomplete: the log begins after the snapshot to which its updates belong.
	incomplete bool

	memory     int64
	round      uint64 // of pruning, in which the last snapshot was written; 0: in a load
	prev, next *state // in the list of the shard
}

// New returns a shard without states.
func New(cfg Config) *Shard {
	return &Shard{cfg: cfg, states: map[format.Key]*state{}, topics: map[[16]byte]int{}, prune: pruning{mark: -1}}
}

// Loaded implements coordinator.Machine.
func (s *Shard) Loaded(time.Time, int32, *coordinator.Effects) {}

// Fire implements coordinator.Machine. A Shard sets no timers.
func (s *Shard) Fire(time.Time, coordinator.TimerKey, *coordinator.Effects) {}

// End implements coordinator.Machine.
func (s *Shard) End() { s.count(-s.memory) }

// Writes implements coordinator.Machine.
func (s *Shard) Writes(event any) bool {
	switch event.(type) {
	case Initialize, Open, Write, Delete:
		return true
	}
	return false
}

// Handle implements coordinator.Machine.
func (s *Shard) Handle(now time.Time, to coordinator.Ticket, event any, out *coordinator.Effects) {
	s.now, s.out, s.bytes = now, out, 0
	switch e := event.(type) {
	case Initialize:
		each(s, to, e, s.initialize)
	case Peek:
		each(s, to, e, s.peek)
	case Open:
		each(s, to, e, s.open)
	case Write:
		each(s, to, e, s.write)
	case Delete:
		each(s, to, e, s.delete)
	case Summarize:
		each(s, to, e, s.summarize)
	case Read:
		each(s, to, e, s.read)
	case Notified:
	case more:
		e()
	case Prune:
		s.beginPrune(to, e)
	case snapshotOld:
		s.snapshotOld()
	case TopicsChanged:
		s.topicsChanged(e)
	case removeStates:
		s.removeStates()
	default:
		out.Reply(to, fmt.Errorf("share coordinator: unknown event %T", event))
	}
	s.out = nil
}

// more is deferred: it handles the items of a request that did not fit into the event before.
type more func()

// eventBytes bounds the records of an event in bytes, except for the last one. A snapshot may have
// 24 MiB.
const eventBytes = 1 << 20

// each handles the items of a request, in several events if their records are large, and answers
// with the results in the same order. The items are independent: their records need not be in one
// batch.
func each[Item, Result any](s *Shard, to coordinator.Ticket, items []Item, handle func(Item) Result) {
	results := make([]Result, 0, len(items))
	var next more
	next = func() {
		for _, item := range items[len(results):] {
			if s.bytes >= eventBytes {
				s.out.Defer(next)
				return
			}
			results = append(results, handle(item))
		}
		s.out.Reply(to, results)
	}
	next()
}

// emit emits a record. A batch may begin with it.
func (s *Shard) emit(r coordinator.Record) {
	s.out.Split()
	s.out.Emit(r)
	s.bytes += r.Size()
}

// What a state counts in addition to its marks, its leader epochs and its group's name, a mark, and
// a leader epoch, in bytes.
const (
	stateWeight = 384
	markWeight  = 24
	epochWeight = 16
)

// weigh updates the accounting of a state's memory.
func (s *Shard) weigh(st *state) {
	n := weight(st.key) + markWeight*int64(cap(st.marks)) + epochWeight*int64(st.epochs.Len())
	s.count(n - st.memory)
	st.memory = n
}

// weight returns the memory of a state without marks, in bytes.
func weight(k format.Key) int64 { return stateWeight + int64(len(k.Group)) }

func (s *Shard) count(n int64) {
	s.memory += n
	s.cfg.Memory.Count(n)
}
