package sharestate

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// Initialize begins the states of share partitions. The answer is a []*kerr.Error with a result for
// each item, nil for success:
//
//   - INVALID_REQUEST: the item is malformed.
//   - UNKNOWN_TOPIC_OR_PARTITION: the metadata of this broker has no such partition.
//   - FENCED_LEADER_EPOCH, NOT_COORDINATOR: see Initializing.Coordinator.
//   - FENCED_STATE_EPOCH: the state has this or a later state epoch, and is not what was asked for.
//   - COORDINATOR_LOAD_IN_PROGRESS: there is no memory for another state.
//   - KAFKA_STORAGE_ERROR: the state is incomplete, and an Initialize without an offset leaves it.
type Initialize []Initializing

// FromFirst is a start offset of Initializing: that of the first record in the partition.
const FromFirst int64 = -2

// Initializing begins a state. If there is one, it stays if Start is negative, or if both its state
// epoch and its start are the same: then this is a repetition. Otherwise StateEpoch must be higher
// than that of the state, which is replaced.
type Initializing struct {
	Key        format.Key
	StateEpoch int32
	// Start is the share-partition start offset; -1: the first leader that opens the state decides.
	// FromFirst: the first record that the partition has.
	Start int64
	// Coordinator is the leader epoch of the group coordinator's partition that has the group, or
	// AnyCoordinator. If the metadata of this broker have a later one, the request is late and gets
	// FENCED_LEADER_EPOCH: the present group coordinator may have deleted the state since, or begun
	// it again. If they have an earlier one, they are behind, and the error is NOT_COORDINATOR: a
	// request of the former coordinator could still follow this one.
	Coordinator int32
}

// AnyCoordinator is the Coordinator of requests of tools, and of brokers of an earlier version.
const AnyCoordinator int32 = -1

// Peek asks for what a leader needs to open states. The answer is a []Peeked.
type Peek []format.Key

// Peeked is the result for a share partition.
type Peeked struct {
	// Err is nil, INVALID_REQUEST if there is no state, UNKNOWN_TOPIC_OR_PARTITION or
	// KAFKA_STORAGE_ERROR.
	Err *kerr.Error
	ID  Identity
	// Leader is the recorded leader epoch, -1 if no leader has opened the state.
	Leader int32
	// Started states that the start is decided.
	Started bool
	// Epochs are those of the Opening in the recorded leader epoch.
	Epochs epochs.Cache
}

// Cut returns the cut with which a leader opens the state, whose log has known epochs and a start.
// The end of the recorded epoch is not enough: a log without that epoch may end with records of an
// earlier one that a leader between had discarded (KIP-101, KIP-279). If nothing in the log is
// known to be in the log of the last opening, the group begins again at the log start.
func (p *Peeked) Cut(known *epochs.Cache, logStart int64) int64 {
	end, _ := known.Common(&p.Epochs)
	if p.Epochs.Len() == 0 { // Kafka has written the state
		_, end = known.End(p.Leader, math.MaxInt64)
	}
	return max(end, logStart)
}

// Open loads states for the leader of their partitions. The answer is a []Opened.
type Open []Opening

// Opening loads a state. ID and Recorded are those of Peeked.
type Opening struct {
	Key      format.Key
	ID       Identity
	Recorded int32
	// Leader is the leader epoch in which the leader opens the state.
	Leader int32
	// Cut is the offset below which the leader's log has the records of the log in which the state
	// was opened last; -1: it knows none. Marks at or above it belong to records that the log has
	// lost. It has no effect if Recorded is -1, or if the leader has opened the state in Leader
	// before: within an epoch the log loses nothing, but a late copy could cut later marks.
	Cut int64
	// Epochs are the last leader epochs in the leader's log, up to Leader, and format.MaxEpochs at
	// most. The next leader finds its cut by them. A tool has none, and no cut: those of the last
	// leader stay.
	Epochs epochs.Cache
	// Start is where the group starts, if that is not decided.
	Start int64
}

// Opened is the result of an Opening.
type Opened struct {
	// Err is nil, one of the errors of Peeked, FENCED_STATE_EPOCH if the state has another
	// identity, FENCED_LEADER_EPOCH if it has another leader epoch than Recorded, or if it or the
	// metadata of this broker has a later one than Leader. After the latter two the leader peeks
	// again. For a tool also UNKNOWN_LEADER_EPOCH, if the metadata do not have that epoch.
	Err *kerr.Error
	// Stored is the state from now on.
	Stored window.Stored
}

// Write changes states. The answer is a []*kerr.Error, with nil for success and for repetitions. An
// error means that a write is not stored and never will be; the leader loads the state again:
//
//   - INVALID_REQUEST: there is no state, or the item is malformed.
//   - FENCED_LEADER_EPOCH: another leader has opened the state.
//   - FENCED_STATE_EPOCH: the state has another identity, a later start, or a higher mark.
//   - RECORD_LIST_TOO_LARGE: the state could get more than MaxMarks marks.
//   - KAFKA_STORAGE_ERROR: the state is incomplete.
type Write []Writing

// Writing changes a state.
type Writing struct {
	Key    format.Key
	ID     Identity
	Leader int32
	// Start, Complete and Marks are those of window.Write.
	Start, Complete int64
	Marks           []window.Mark
}

// Delete removes states. The answer is a []*kerr.Error; an unknown state is a success.
type Delete []Deleting

// Deleting removes a state.
type Deleting struct {
	Key format.Key
	// Coordinator is that of Initializing, with the same errors.
	Coordinator int32
}

// Summarize asks for what an administrator sees of states. The answer is a []Summary.
type Summarize []format.Key

// Summary describes a state.
type Summary struct {
	// Err is one of the errors of Peeked.
	Err        *kerr.Error
	StateEpoch int32
	Leader     int32
	// Start is the share-partition start offset; -1: it is not decided.
	Start int64
	// Complete is how many offsets at or above Start are finished (KIP-1226).
	Complete int32
}

// Read asks for whole states, without an open. The answer is a []State. Tools use it.
type Read []format.Key

// State is a stored state. Its marks must not be changed.
type State struct {
	// Err is one of the errors of Peeked.
	Err      *kerr.Error
	ID       Identity
	Leader   int32 // recorded leader epoch; -1: no leader has opened the state
	Complete int32
	Stored   window.Stored // with the start -1 if it is not decided
}

// Changed is sent when a state begins, ends, or loses marks by a cut: a leader that has the share
// partition in memory drops it, unless it has opened the state ID in the epoch Leader or a later
// one. It is a hint, and may be late or lost: what a leader of an earlier state writes is refused.
type Changed struct {
	Key    format.Key
	ID     Identity // the zero value: the state was removed
	Leader int32    // as in Peeked
}

// Notified is the result of a Changed.
type Notified struct{}

// MaxMarks bounds the marks of a state. A snapshot must fit into a batch that replication can
// carry.
const MaxMarks = 1 << 20

// find returns the state of a share partition, or why there is none that can be served.
func (s *Shard) find(k format.Key) (*state, *kerr.Error) {
	st := s.states[k]
	switch {
	case !s.known(k):
		return nil, kerr.UnknownTopicOrPartition
	case st == nil:
		return nil, kerr.InvalidRequest
	case st.incomplete:
		return nil, kerr.KafkaStorageError
	}
	return st, nil
}

// known reports whether the partition of a key exists.
func (s *Shard) known(k format.Key) bool {
	return s.exists != nil && s.exists.LeaderEpoch(k.Topic, k.Partition) >= 0
}

// fenced returns why a request of the coordinator of a group is refused in a leader epoch; nil if
// it is not.
func (s *Shard) fenced(group string, coordinator int32) *kerr.Error {
	now := int32(-1)
	if s.exists != nil {
		now = s.exists.GroupEpoch(group)
	}
	switch {
	case coordinator == AnyCoordinator:
	case coordinator < now && !s.cfg.Broken.Has(FormerCoordinator):
		return kerr.FencedLeaderEpoch
	case coordinator > now && !s.cfg.Broken.Has(LaterCoordinator):
		return kerr.NotCoordinator
	}
	return nil
}

func (s *Shard) initialize(e Initializing) *kerr.Error {
	st := s.states[e.Key]
	fenced := s.fenced(e.Key.Group, e.Coordinator)
	switch {
	case e.Key.Group == "" || len(e.Key.Group) > format.MaxGroup || e.StateEpoch < 0 || e.Start < FromFirst:
		return kerr.InvalidRequest
	case fenced != nil:
		return fenced
	case !s.known(e.Key):
		return kerr.UnknownTopicOrPartition
	case st == nil:
		if !s.cfg.Memory.AllowsKept(s.memory, int(weight(e.Key))) {
			return kerr.CoordinatorLoadInProgress
		}
	case st.incomplete:
		if e.Start < 0 {
			return kerr.KafkaStorageError
		}
	case e.Start < 0 && !s.cfg.Broken.Has(ReplaceExisting), e.StateEpoch == st.id.StateEpoch && e.Start == st.start:
		return nil
	case e.StateEpoch <= st.id.StateEpoch && !s.cfg.Broken.Has(ReplaceExisting):
		return kerr.FencedStateEpoch
	}
	created := s.now.UnixMilli()
	if !s.cfg.Broken.Has(RepeatCreation) {
		created = max(created, s.created+1)
	}
	next := &format.Snapshot{StateEpoch: e.StateEpoch, Leader: -1, Start: e.Start, Created: created}
	if e.Start == FromFirst {
		next.Start = 0 // the first take moves it to the log start
	}
	if st != nil {
		next.Epoch = st.epoch + 1
	}
	s.emitSnapshot(e.Key, next)
	s.out.Send(Changed{e.Key, Identity{next.StateEpoch, next.Created}, next.Leader})
	return nil
}

func (s *Shard) peek(k format.Key) Peeked {
	st, err := s.find(k)
	if err != nil {
		return Peeked{Err: err, Leader: -1}
	}
	return Peeked{ID: st.id, Leader: st.leader, Started: st.start >= 0, Epochs: st.epochs}
}

func (s *Shard) open(e Opening) Opened {
	st, err := s.find(e.Key)
	switch {
	case err != nil:
		return Opened{Err: err}
	case e.Leader < 0 || e.Cut < -1 || st.start < 0 && e.Start < 0 || !e.valid():
		return Opened{Err: kerr.InvalidRequest}
	case !s.same(st, e.ID):
		return Opened{Err: kerr.FencedStateEpoch}
	case e.Recorded != st.leader && !s.cfg.Broken.Has(OpenOutdated), e.Leader < st.leader && !s.cfg.Broken.Has(OpenFormer),
		e.Leader < s.exists.LeaderEpoch(e.Key.Topic, e.Key.Partition) && !s.cfg.Broken.Has(OpenStale):
		return Opened{Err: kerr.FencedLeaderEpoch}
	case e.Epochs.Len() == 0 && e.Leader > s.exists.LeaderEpoch(e.Key.Topic, e.Key.Partition):
		// A leader may know its epoch before this broker does. If a tool could name a later one,
		// the leader would ask for a still later one, until the partition has no epochs left.
		return Opened{Err: kerr.UnknownLeaderEpoch}
	}
	next := st.snapshot()
	if !s.cfg.Broken.Has(RaiseLater) {
		next.Leader = e.Leader
	}
	if e.Epochs.Len() > 0 {
		next.Epochs = e.Epochs
	}
	to := st.stored()
	if to.Start < 0 {
		to.Start = e.Start
	}
	whole := to
	again := st.epochs.Latest() == e.Leader
	if e.Cut >= 0 && (e.Recorded >= 0 || s.cfg.Broken.Has(CutAltered)) && (!again || s.cfg.Broken.Has(CutOwn)) {
		uncut := to
		if to = to.Cut(e.Cut, s.cfg.Cuts); to.Start != uncut.Start || !slices.Equal(to.Marks, uncut.Marks) {
			s.out.Send(Changed{e.Key, e.ID, e.Leader})
		}
	}
	if !s.cfg.Broken.Has(CutLater) {
		whole = to
	}
	if next.Batches = batches(whole.Marks); st.start >= 0 || !s.cfg.Broken.Has(StartLater) {
		next.Start = whole.Start
	}
	next.Complete = finished(next.Batches)
	s.emitSnapshot(e.Key, next)
	return Opened{Stored: to}
}

// valid reports whether the epochs are those of a leader, or none for a tool.
func (e *Opening) valid() bool {
	if e.Epochs.Len() == 0 {
		return e.Cut < 0
	}
	return e.Epochs.Latest() == e.Leader && e.Epochs.Len() <= format.MaxEpochs
}

// same reports whether an identity is that of a state.
func (s *Shard) same(st *state, id Identity) bool {
	return st.id.StateEpoch == id.StateEpoch && (st.id.Created == id.Created || s.cfg.Broken.Has(AnyCreation))
}

func (s *Shard) write(e Writing) *kerr.Error {
	st, err := s.find(e.Key)
	switch {
	case err != nil:
		return err
	case e.Leader < 0 || e.Start < 0 || e.Complete < 0 || !valid(e.Marks):
		return kerr.InvalidRequest
	case !s.same(st, e.ID):
		return kerr.FencedStateEpoch
	case !s.leads(st, e.Leader):
		return kerr.FencedLeaderEpoch
	case e.Start < st.start && !s.cfg.Broken.Has(MoveBack):
		return kerr.FencedStateEpoch
	}
	marks := batches(e.Marks)
	if outranks(st.marks, marks) && !s.cfg.Broken.Has(TakeLower) && !s.cfg.Broken.Has(IgnoreOutranked) {
		return kerr.FencedStateEpoch
	}
	if len(st.marks)+2*len(marks) > MaxMarks { // a mark in another one makes two more
		return kerr.RecordListTooLarge
	}
	complete := int32(min(e.Complete, math.MaxInt32))
	if st.updates < s.cfg.SnapshotUpdates {
		s.emitUpdate(st, &format.Update{Epoch: st.epoch, Leader: e.Leader, Start: e.Start, Batches: marks, Complete: complete})
		return nil
	}
	next := st.snapshot()
	next.Leader, next.Start, next.Complete = e.Leader, e.Start, complete
	if s.cfg.Broken.Has(PartialSnapshot) {
		marks = nil
	}
	next.Batches = merge(next.Batches, marks, e.Start, s.cfg.Broken.Has(TakeLower))
	s.emitSnapshot(e.Key, next)
	return nil
}

// leads reports whether a write in a leader epoch counts.
func (s *Shard) leads(st *state, epoch int32) bool {
	return epoch == st.leader || s.cfg.Broken.Has(AnyLeader) || epoch > st.leader && s.cfg.Broken.Has(RaiseLater)
}

func (s *Shard) delete(e Deleting) *kerr.Error {
	if fenced := s.fenced(e.Key.Group, e.Coordinator); fenced != nil {
		return fenced
	}
	if s.states[e.Key] != nil {
		s.emitTombstone(e.Key)
		s.out.Send(Changed{Key: e.Key, Leader: -1})
	}
	return nil
}

func (s *Shard) read(k format.Key) State {
	st, err := s.find(k)
	if err != nil {
		return State{Err: err, Leader: -1, Stored: window.Stored{Start: -1}}
	}
	return State{ID: st.id, Leader: st.leader, Complete: st.complete, Stored: st.stored()}
}

func (s *Shard) summarize(k format.Key) Summary {
	st, err := s.find(k)
	if err != nil {
		return Summary{Err: err, Leader: -1, Start: -1}
	}
	return Summary{StateEpoch: st.id.StateEpoch, Leader: st.leader, Start: st.start, Complete: st.complete}
}
