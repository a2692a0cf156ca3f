package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// ErrNotController reports that this node does not lead the metadata quorum.
var ErrNotController = errors.New("this broker is not the controller")

// Register registers a broker process and returns its broker epoch. A process that was fenced while
// it ran registers again and keeps its epoch. Refusals are *Error; after
// DuplicateBroker the process should ask again until the session of the other one has ended. After
// any other error the registration may be incomplete, and the process should ask again, possibly
// another controller. Until Run has begun the term in which this node leads, Register waits.
func (l *Loop) Register(ctx context.Context, q *RegisterRequest) (epoch int64, err error) {
	l.awaitBegin(ctx)
	r := registrar{log: l.opt.Log, images: l.opt.Images, minISR: l.opt.MinISR, shunned: l.known().shunned}
	for range maxAttempts {
		if r.store, err = l.admit(q); err != nil {
			return 0, err
		}
		r.alone = l.opt.Own == q.Incarnation && l.opt.Leadership.Sole() && only(l.opt.Images.Image(), q.Broker)
		epoch, err = r.register(ctx, q)
		l.mu.Lock()
		delete(l.admitted, q.Broker)
		l.mu.Unlock()
		newer, refused := metadata.Refused(err)
		switch {
		case err == nil:
			// The first heartbeat may arrive at once, and is compared with the image.
			return epoch, l.opt.Images.WaitShown(ctx, epoch)
		case refused:
			if err := l.opt.Images.WaitShown(ctx, newer); err != nil {
				return 0, err
			}
		case !errors.Is(err, metadata.ErrConflict):
			return 0, err
		}
	}
	return 0, err
}

// awaitBegin waits, if this node leads, until Run has begun the term. A broker that starts
// registers with itself right after its election, and would otherwise try again after a pause only.
func (l *Loop) awaitBegin(ctx context.Context) {
	for {
		l.mu.Lock()
		begun, leads := l.begun, l.sessions != nil
		l.mu.Unlock()
		if leads {
			return
		}
		term, changed := l.opt.Leadership.Leads()
		if term.Number == 0 {
			return
		}
		select {
		case <-begun:
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// only reports whether no other broker is registered.
func only(img *metadata.Image, broker int32) bool {
	return !slices.ContainsFunc(img.Brokers(), func(b metadata.Broker) bool { return b.ID != broker })
}

// admit checks a registration and begins the session of the process. From then on, no heartbeat of
// a former process is accepted, so that none makes it active again. It returns the store of the
// term in which that holds. The caller must remove the broker from admitted.
func (l *Loop) admit(q *RegisterRequest) (inTerm, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions == nil {
		return inTerm{}, ErrNotController
	}
	if l.admitted[q.Broker] {
		return inTerm{}, refuse(DuplicateBroker, "another registration of broker %d is in progress", q.Broker)
	}
	img := l.imageLocked()
	live := uint64(0)
	if _, _, ok := l.sessions.live(q.Broker); ok {
		b, _ := img.Broker(q.Broker)
		live = b.Member
	}
	if err := admit(img, q, live); err != nil {
		return inTerm{}, err
	}
	if incarnation, _, ok := l.sessions.live(q.Broker); !ok || incarnation != q.Incarnation {
		l.sessions.begin(q.Broker, q.Incarnation, false, l.opt.Now())
	}
	l.admitted[q.Broker] = true
	return l.store, nil
}

// Heartbeat records a heartbeat; it does not block. A refusal of kind StaleBrokerEpoch means that
// the process is not registered any longer, or was fenced when it was not reached: it must register
// again.
func (l *Loop) Heartbeat(_ context.Context, h Heartbeat) (HeartbeatAnswer, error) {
	confirmed, ever := l.opt.Leadership.Confirmed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions == nil {
		return HeartbeatAnswer{}, ErrNotController
	}
	if len(h.Unable) > maxDirs || len(h.UncomparedLogs) > MaxReportedUncompared ||
		len(h.Damaged) > MaxReportedDamaged || len(h.Unreached) > MaxReportedUnreached {
		return HeartbeatAnswer{}, refuse(InvalidRequest, "heartbeat of broker %d reports too many directories, logs or brokers", h.Broker)
	}
	if metadata.UnknownFault(h.Unable) {
		return HeartbeatAnswer{}, refuse(InvalidRequest, "heartbeat of broker %d with a directory without a fault", h.Broker)
	}
	img := l.imageLocked()
	b, ok := img.Broker(h.Broker)
	state, _ := img.State(h.Broker)
	stale := refuse(StaleBrokerEpoch, "broker %d is not registered with epoch %d", h.Broker, h.Epoch)
	if !ok || b.Epoch != h.Epoch || b.Incarnation != h.Incarnation || state.Incarnation != h.Incarnation || l.admitted[h.Broker] {
		return HeartbeatAnswer{}, stale
	}
	_, before, _ := l.sessions.live(h.Broker)
	runs := running(state.Liveness)
	a, ok := l.sessions.beat(h, shown{l.opt.Now(), confirmed, ever, img.Version(), runs})
	if !ok {
		return a, stale
	}
	a.Liveness, a.Shunned = state.Liveness, l.shunned
	if news(&before, &h) || !runs && a.Proven > 0 {
		l.signalLocked()
	}
	return a, nil
}

// news reports whether a heartbeat may change the state of a broker, so that it is decided about at
// once.
func news(before, h *Heartbeat) bool {
	same := slices.Equal(before.Unable, h.Unable) && slices.Equal(before.Damaged, h.Damaged) &&
		before.Uncompared == h.Uncompared && slices.Equal(before.UncomparedLogs, h.UncomparedLogs) &&
		slices.Equal(before.Unreached, h.Unreached)
	return !same || before.Sequence == 0 || before.Ready != h.Ready || before.Drain != h.Drain
}

// Refused reports that the connection to a broker broke and that its machine refuses new ones.
// If no heartbeat follows within an interval, the broker is fenced before its session would end.
func (l *Loop) Refused(broker int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions != nil {
		l.sessions.refusedDial(broker, l.opt.Now())
	}
}

// Unregister removes a broker from the cluster for good: its member id is refused from then on. It
// is refused while the broker has a session, or a replica of any partition.
func (l *Loop) Unregister(ctx context.Context, broker int32) (revision int64, err error) {
	for range maxAttempts {
		l.mu.Lock()
		leads, store, img, alive := l.sessions != nil, l.store, l.imageLocked(), false
		if leads {
			_, _, alive = l.sessions.live(broker)
		}
		l.mu.Unlock()
		if !leads {
			return 0, ErrNotController
		}
		txn, err := unregistration(img, broker, alive)
		if err != nil {
			return 0, err
		}
		revision, err = store.Txn(ctx, txn)
		newer, refused := metadata.Refused(err)
		switch {
		case refused:
			err = l.opt.Images.WaitShown(ctx, newer)
		case err == nil:
			return l.unregistered(ctx, store, broker, revision)
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("unregister broker %d: %w", broker, metadata.ErrConflict)
}

// unregistered confirms the deletions that wait for a broker, and returns a revision that shows it.
// If it fails, a later step of the loop does so.
func (l *Loop) unregistered(ctx context.Context, store inTerm, broker int32, revision int64) (int64, error) {
	err := l.opt.Images.WaitShown(ctx, revision)
	if err == nil {
		err = l.confirmGone(ctx, store)
	}
	if err != nil {
		l.opt.Log.Debug("deletions of topics wait for a broker that was unregistered", zap.Int32("broker", broker), zap.Error(err))
	}
	return max(revision, l.known().img.Version()), nil
}

// unregistration returns the transaction that removes a broker.
func unregistration(img *metadata.Image, broker int32, alive bool) (txn metadata.Txn, err error) {
	b, ok := img.Broker(broker)
	if !ok {
		return txn, brokerNotRegistered(broker)
	}
	if alive {
		return txn, refuse(InvalidRequest, "broker %d is alive; stop it before it is unregistered", broker)
	}
	for t := range img.Topics() {
		for i, p := range t.Partitions.All() {
			if p.HasReplica(broker) {
				return txn, refuse(InvalidRequest, "broker %d has a replica of %s-%d; move its replicas before it is unregistered",
					broker, t.Name, i)
			}
		}
	}
	_, state := img.Liveness(broker)
	txn.If = []metadata.Compare{{Key: metadata.BrokerKey(broker), ModRevision: b.Epoch},
		{Key: metadata.LivenessKey(broker), ModRevision: state}}
	txn.Delete = []string{metadata.BrokerKey(broker), metadata.LivenessKey(broker)}
	if img.BrokerConfigRevision(broker) > 0 { // they are not those of another broker that gets the number
		txn.Delete = append(txn.Delete, metadata.BrokerConfigKey(broker))
	}
	if b.Member != 0 {
		txn.Put = []metadata.KV{{Key: metadata.GoneKey(b.Member), Value: metadata.Gone{Broker: broker}.Encode()}}
	}
	for id := range img.Placements(broker) {
		txn.Delete = append(txn.Delete, metadata.PlacementKey(broker, id))
	}
	return txn, nil
}

// Resigned names a partition and the leader epoch in which its leader cannot continue.
type Resigned struct {
	metadata.TopicPartition
	Epoch int32
}

// Resign ends the leadership of a broker in partitions whose log took records back or cannot be
// read: another member of the ISR leads, or the broker in the next epoch. Partitions in another
// epoch are omitted. The revision is one at which an image shows the result.
func (l *Loop) Resign(ctx context.Context, broker int32, brokerEpoch int64, list []Resigned) (revision int64, err error) {
	if len(list) > MaxPartitions {
		return 0, refuse(InvalidRequest, "broker %d resigns from %d partitions, more than %d", broker, len(list), MaxPartitions)
	}
	for range maxAttempts {
		l.mu.Lock()
		leads, store, known := l.sessions != nil, l.store, l.knownLocked()
		l.mu.Unlock()
		if !leads {
			return 0, ErrNotController
		}
		if b, ok := known.img.Broker(broker); !ok || b.Epoch != brokerEpoch {
			return 0, refuse(StaleBrokerEpoch, "broker %d is not registered with epoch %d", broker, brokerEpoch)
		}
		changes := l.resigning(known, broker, list)
		if len(changes) == 0 {
			return max(revision, known.img.Version()), nil
		}
		if revision, err = submit(ctx, store, changes); err != nil {
			return 0, fmt.Errorf("resign: %w", err)
		}
		if err := l.opt.Images.WaitShown(ctx, revision); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("resign: %w", metadata.ErrConflict)
}

func (l *Loop) resigning(known knowledge, broker int32, list []Resigned) (changes []change) {
	for _, x := range list {
		t := known.img.TopicByID(x.Topic)
		if t == nil || t.Partitions.At(x.Partition) == nil {
			continue
		}
		p := t.Partitions.At(x.Partition)
		d := election.Decider{View: known.of(x.TopicPartition), MinISR: l.opt.MinISR(known.img, t, p)}
		if next, changed := d.Resign(*p, broker, x.Epoch); changed {
			changes = append(changes, newChange(known.img, x.TopicPartition, p, next))
		}
	}
	return changes
}
