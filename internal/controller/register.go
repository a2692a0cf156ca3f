package controller

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// RegisterRequest is what a broker process of a cluster reports when it registers. As JSON
// it is the request of another broker.
type RegisterRequest struct {
	Broker      int32       `json:"broker"`
	Member      uint64      `json:"member"`
	ClusterID   string      `json:"cluster"`
	Incarnation metadata.ID `json:"incarnation"`
	// Seen is the revision of the broker's registration that the process has seen, 0 for none. A
	// request of a process that was overtaken by another one is refused by it.
	Seen      int64               `json:"seen"`
	Dirs      []RegisterDir       `json:"dirs"`
	Listeners []metadata.Endpoint `json:"listeners"`
	Rack      string              `json:"rack,omitempty"`
	Features  metadata.Features   `json:"features"`
	// Lossy are the logs that may lack records that they acknowledged: those of a directory that
	// was not closed before the machine ended, with a durability profile that permits it.
	Lossy metadata.TopicPartitions `json:"lossy,omitempty"`
	// Damaged are the logs that recovery found damaged.
	Damaged metadata.TopicPartitions `json:"damaged,omitempty"`
}

// RegisterDir is a log directory that the process has opened.
type RegisterDir struct {
	ID     metadata.ID `json:"id"`
	Format int32       `json:"format"`
	// Clean: the last stop closed the directory, with all records on disk.
	Clean bool `json:"clean,omitempty"`
	// Finding identifies what the start found, Found is the sequence of the checkpoint there, and
	// Sequence that of the present one.
	Finding  metadata.ID `json:"finding"`
	Found    uint64      `json:"found"`
	Sequence uint64      `json:"sequence"`
}

// Limits of what a broker may register.
const (
	maxDirs      = 1000
	maxListeners = 64
)

// registrar registers the brokers of a cluster.
//
// A registration has three steps:
//
//  1. /liveness: the broker is starting, with the new incarnation. The new revision refuses every
//     change of an ISR that was decided before, and nothing of the former process is accepted any
//     longer. No ISR changes.
//  2. The records of its replicas: it leads none of them any longer, and leaves ISR and ELR where a
//     replica lacks records that it may have acknowledged.
//  3. /brokers and /liveness, if both are as in step 1. From its revision on, the new process
//     counts. If the last stop did not close its log directories, the logs have to be compared.
//
// Each step has the same result if it is repeated: if the controller fails in between, the broker
// registers at the next one from the beginning.
//
// The only broker, on the node of the only voter, knows all that this controller knows, and there
// is neither another controller nor a leader that changes an ISR. So it needs no proof: step 3
// makes it active. It keeps a leadership with its epoch if it has the only replica and its
// directory was closed cleanly: then nothing that the former process sent is lost. If step 2
// changes nothing, step 1 is omitted, and the registration is one transaction. Otherwise the broker
// leads what it can when it has registered, so that no client finds it without its leaderships.
type registrar struct {
	log    *zap.Logger
	store  inTerm
	images *metadata.Applier
	minISR func(*metadata.Image, *metadata.Topic, *metadata.Partition) int
	alone  bool // the broker is on this node, and there is no other voter and no other broker
	// shunned are those of knowledge.
	shunned []int32
}

// register runs all steps and returns the broker epoch. The request must have been admitted. It
// returns an error that matches metadata.ErrConflict if another change of the broker's own keys was
// faster; the caller should admit the request again.
func (r *registrar) register(ctx context.Context, q *RegisterRequest) (epoch int64, err error) {
	img := r.images.Image()
	if b, ok := img.Broker(q.Broker); ok && b.Incarnation == q.Incarnation {
		if state, _ := img.State(q.Broker); state.Incarnation == q.Incarnation {
			return b.Epoch, nil // the answer was lost
		}
		again := *q // another process has begun to register since, and did not finish
		again.Seen = b.Epoch
		q = &again
	}
	fence, err := r.begin(ctx, q)
	if err != nil {
		return 0, fmt.Errorf("register broker %d: %w", q.Broker, err)
	}
	if err := r.clean(ctx, q, fence); err != nil {
		return 0, fmt.Errorf("register broker %d: clean its partitions: %w", q.Broker, err)
	}
	if epoch, err = r.finish(ctx, q, fence); err != nil {
		return 0, fmt.Errorf("register broker %d: %w", q.Broker, err)
	}
	if r.alone {
		if err := r.lead(ctx, q.Broker, epoch); err != nil {
			return 0, fmt.Errorf("register broker %d: elect it: %w", q.Broker, err)
		}
	}
	return epoch, nil
}

// lead makes the only broker, whose registration has a revision, the leader of the partitions that
// wait for it.
func (r *registrar) lead(ctx context.Context, broker int32, revision int64) error {
	if err := r.images.WaitShown(ctx, revision); err != nil {
		return err
	}
	img := r.images.Image()
	var changes []change
	for t := range img.Topics() {
		for i, p := range t.Partitions.All() {
			if p.Leader != election.None || !p.HasReplica(broker) {
				continue
			}
			v := knowledge{img, r.shunned}.of(metadata.TopicPartition{Topic: t.ID, Partition: i})
			if next, changed, _ := decide(election.Decider{MinISR: r.minISR(img, t, p)}, v, *p); changed {
				changes = append(changes, newChange(img, v.tp, p, next))
			}
		}
	}
	revision, err := submit(ctx, r.store, changes)
	if err != nil {
		return err
	}
	return r.images.WaitShown(ctx, revision)
}

// admit returns why a request is refused, as an *Error. live is the member id of the process that
// has a session under this broker id, 0 if there is none.
func admit(img *metadata.Image, q *RegisterRequest, live uint64) error {
	former, known := img.Broker(q.Broker)
	switch {
	case q.Broker < 0 || len(q.Dirs) > maxDirs || len(q.Listeners) > maxListeners || q.Incarnation == [16]byte{}:
		return refuse(InvalidRequest, "invalid registration of broker %d", q.Broker)
	case q.ClusterID != img.ClusterID():
		return refuse(InconsistentClusterID, "broker %d belongs to the cluster %s, not %s", q.Broker, q.ClusterID, img.ClusterID())
	case q.Features.Min > img.FeatureLevel() || q.Features.Max < img.FeatureLevel():
		return refuse(UnsupportedVersion, "broker %d supports the feature levels %d to %d, the cluster has level %d",
			q.Broker, q.Features.Min, q.Features.Max, img.FeatureLevel())
	case live != 0 && live != q.Member:
		return refuse(DuplicateBroker, "another process with node.id %d is alive in this cluster", q.Broker)
	case known && former.Incarnation == q.Incarnation:
		return nil // it registered, and the answer was lost
	case known && former.Epoch != q.Seen, !known && q.Seen != 0:
		return refuse(StaleBrokerEpoch, "another process has registered node.id %d since revision %d", q.Broker, q.Seen)
	}
	for i, d := range q.Dirs {
		if d.ID == [16]byte{} || slices.ContainsFunc(q.Dirs[:i], func(x RegisterDir) bool { return x.ID == d.ID }) {
			return refuse(InvalidRequest, "two log directories of broker %d have the same id, or one has none", q.Broker)
		}
		for _, other := range img.Brokers() {
			if _, has := other.Dir(d.ID); has && other.ID != q.Broker {
				return refuse(InvalidRequest, "log directory %[1]s of broker %[2]d is registered by broker %[3]d; "+
					"if node.id was changed from %[3]d, set node.id=%[3]d again; "+
					"if the directory was copied from broker %[3]d, give broker %[2]d an empty one, and leave that of broker %[3]d as it is",
					metadata.FormatID(d.ID), q.Broker, other.ID)
			}
		}
	}
	return nil
}

// begin is step 1. It returns the state that it wrote or found, with its key-value.
func (r *registrar) begin(ctx context.Context, q *RegisterRequest) (metadata.KV, error) {
	gone, _, err := r.store.Get(ctx, metadata.GoneKey(q.Member))
	if err != nil {
		return metadata.KV{}, err
	}
	if gone.ModRevision != 0 {
		return metadata.KV{}, refuse(UnknownMember, "broker %d was unregistered; empty its metadata directory to let it join as a new member",
			q.Broker)
	}
	kv, revision, err := r.store.Get(ctx, metadata.LivenessKey(q.Broker))
	if err != nil {
		return kv, err
	}
	kv.Key = metadata.LivenessKey(q.Broker)
	former, err := metadata.DecodeState(kv)
	if err != nil {
		return kv, err
	}
	if former.Incarnation == q.Incarnation && former.Liveness == metadata.Starting {
		return kv, nil
	}
	if r.alone {
		if err := r.images.WaitShown(ctx, revision); err != nil {
			return kv, err
		}
		if len(r.returning(r.images.Image(), q)) == 0 {
			return kv, nil
		}
	}
	state := metadata.BrokerState{Liveness: metadata.Starting, Incarnation: q.Incarnation, Uncompared: former.Uncompared,
		UncomparedLogs: former.UncomparedLogs}
	put := metadata.KV{Key: kv.Key, Value: state.Encode()}
	registered := metadata.Compare{Key: metadata.BrokerKey(q.Broker), ModRevision: q.Seen}
	put.ModRevision, err = r.store.Txn(ctx, metadata.Txn{If: []metadata.Compare{unchanged(kv), registered}, Put: []metadata.KV{put}})
	return put, err
}

// clean is step 2. It ends when an image that shows step 1 has nothing left to change.
func (r *registrar) clean(ctx context.Context, q *RegisterRequest, fence metadata.KV) error {
	revision := fence.ModRevision
	for {
		if err := r.images.WaitShown(ctx, revision); err != nil {
			return err
		}
		img := r.images.Image()
		if _, now := img.State(q.Broker); now != fence.ModRevision {
			return fmt.Errorf("another process registers: %w", metadata.ErrConflict)
		}
		changes := r.returning(img, q)
		if len(changes) == 0 {
			return nil
		}
		var err error
		if revision, err = submit(ctx, r.store, changes); err != nil {
			return err
		}
	}
}

// returning returns the changes of step 2.
func (r *registrar) returning(img *metadata.Image, q *RegisterRequest) (changes []change) {
	former, _ := img.Broker(q.Broker)
	for t := range img.Topics() {
		for i, p := range t.Partitions.All() {
			if !p.HasReplica(q.Broker) {
				continue
			}
			tp := metadata.TopicPartition{Topic: t.ID, Partition: i}
			dir, _ := img.Placement(q.Broker, tp)
			v := knowledge{img, r.shunned}.of(tp)
			is := condition(&former, q, v, dir, p)
			if r.alone && is == election.Whole && keeps(q, dir, p) {
				continue
			}
			d := election.Decider{View: v, MinISR: r.minISR(img, t, p)}
			if next, changed := d.Return(*p, q.Broker, dir, is); changed {
				if is == election.LossySole {
					leads := next
					leads.Leader = q.Broker // when it is active
					logChoice(r.log, t, tp, &leads, nil, "nothing: the only replica may have lost records")
				}
				changes = append(changes, newChange(img, tp, p, next))
			}
		}
	}
	return changes
}

// keeps reports whether a broker continues to lead a partition in the same epoch: it has the only
// replica, in a directory that was closed cleanly.
func keeps(q *RegisterRequest, dir [16]byte, p *metadata.Partition) bool {
	return p.Leader == q.Broker && len(p.Replicas) == 1 &&
		slices.ContainsFunc(q.Dirs, func(d RegisterDir) bool { return d.ID == dir && d.Clean })
}

// condition compares a replica with its last known state. dir is its recorded log directory, zero
// if there is none: then none of its records was counted. The only replica of a partition
// stays if its directory is there: no other replica has what it lacks. So does the last member of
// ISR and ELR if its log is damaged: it ends where it did.
func condition(former *metadata.Broker, q *RegisterRequest, v view, dir [16]byte, p *metadata.Partition) election.Condition {
	if dir == [16]byte{} {
		return election.Whole
	}
	i := slices.IndexFunc(q.Dirs, func(d RegisterDir) bool { return d.ID == dir })
	if i < 0 {
		return election.Missing
	}
	damaged := slices.Contains(q.Damaged, v.tp) && (len(p.Replicas) == 1 || v.hasOther(p, q.Broker))
	if former.Incarnation == q.Incarnation { // its first registration has compared what the start found
		if damaged && len(p.Replicas) > 1 {
			return election.Lossy
		}
		return election.Whole
	}
	known, _ := former.Dir(dir)
	older := q.Dirs[i].Found < known.CheckpointSequence && q.Dirs[i].Finding != known.Finding
	if older || slices.Contains(q.Lossy, v.tp) || damaged {
		if len(p.Replicas) == 1 {
			return election.LossySole
		}
		return election.Lossy
	}
	return election.Whole
}

// finish is step 3. It returns the broker epoch.
func (r *registrar) finish(ctx context.Context, q *RegisterRequest, fence metadata.KV) (int64, error) {
	img := r.images.Image()
	former, _ := img.Broker(q.Broker)
	if n := replicasOf(img, q.Broker); n > 0 && len(q.Dirs) == 0 {
		return 0, refuse(InvalidRequest, "log.dirs is none on broker %d, and %d partitions have replicas there: start it with its log directories, "+
			"run chronikctl broker drain %d, and then set log.dirs to none", q.Broker, n, q.Broker)
	}
	b := metadata.Broker{Member: q.Member, Incarnation: q.Incarnation, Listeners: q.Listeners, Rack: q.Rack, Features: q.Features}
	b.Former = formerMembers(&former, q.Member)
	for _, d := range q.Dirs {
		b.Dirs = append(b.Dirs, metadata.BrokerDir{ID: d.ID, Format: d.Format, CheckpointSequence: d.Sequence, Finding: d.Finding})
	}
	for _, d := range former.Dirs {
		if _, here := b.Dir(d.ID); !here && hasReplicaIn(img, q.Broker, d.ID, 1) && len(b.Dirs) < maxDirs {
			d.Offline = true
			b.Dirs = append(b.Dirs, d)
		}
	}
	state := metadata.BrokerState{Liveness: metadata.Starting, Incarnation: q.Incarnation, Damaged: q.Damaged}
	state.Uncompared, state.UncomparedLogs = uncompared(img, &former, q)
	if r.alone {
		state.Liveness = metadata.Active
	}
	state = limitDamaged(img, q.Broker, state)
	return r.store.Txn(ctx, metadata.Txn{
		If: []metadata.Compare{{Key: metadata.BrokerKey(q.Broker), ModRevision: q.Seen}, unchanged(fence)},
		Put: []metadata.KV{{Key: metadata.BrokerKey(q.Broker), Value: b.Encode()},
			{Key: fence.Key, Value: state.Encode()}},
	})
}

// uncompared reports whether the logs of a broker have to be compared when it registers: the last
// stop did not close one of their directories, or they had to be compared before. logs are single
// ones that had to be. A process that registers again has lost nothing since its first
// registration. Where every replica is the only one, none is to be compared.
func uncompared(img *metadata.Image, former *metadata.Broker, q *RegisterRequest) (all bool, logs []metadata.TopicPartition) {
	if img.FeatureLevel() < metadata.CompareLevel {
		return false, nil
	}
	state, _ := img.State(q.Broker)
	for _, d := range q.Dirs {
		unclean := !d.Clean && former.Incarnation != q.Incarnation
		all = all || unclean && hasReplicaIn(img, q.Broker, d.ID, 2)
	}
	return all || state.Uncompared, state.UncomparedLogs
}

// formerMembers returns the members of a broker's earlier directories, as it registers with a
// member: an earlier directory may be back.
func formerMembers(former *metadata.Broker, member uint64) []uint64 {
	list := slices.Insert(slices.Clone(former.Former), 0, former.Member)
	list = slices.DeleteFunc(list, func(m uint64) bool { return m == member || m == 0 })
	return list[:min(len(list), metadata.MaxFormer)]
}

// replicasOf returns how many partitions have a replica on a broker.
func replicasOf(img *metadata.Image, broker int32) (n int) {
	for t := range img.Topics() {
		for _, p := range t.Partitions.All() {
			if p.HasReplica(broker) {
				n++
			}
		}
	}
	return n
}

// hasReplicaIn reports whether a broker has a replica in a log directory, of a partition with at
// least so many replicas.
func hasReplicaIn(img *metadata.Image, broker int32, dir [16]byte, least int) bool {
	for t := range img.Topics() {
		for i, p := range t.Partitions.All() {
			at, ok := img.Placement(broker, metadata.TopicPartition{Topic: t.ID, Partition: i})
			if ok && at == dir && p.HasReplica(broker) && len(p.Replicas) >= least {
				return true
			}
		}
	}
	return false
}
