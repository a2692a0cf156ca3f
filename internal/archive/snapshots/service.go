package snapshots

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/view"
)

// Store is the part of the metadata store that a Service needs.
type Store interface {
	Range(ctx context.Context, prefix string) (kvs []metadata.KV, revision int64, err error)
	// WaitFor waits until Range shows a revision.
	WaitFor(ctx context.Context, revision int64) error
	// LeaderTxn changes something only if this node leads the metadata in a term.
	LeaderTxn(ctx context.Context, term uint64, t metadata.Txn) (revision int64, err error)
}

// Options are a Service's.
type Options struct {
	Conf configdef.Archive
	// Open returns the object store of Conf, whose URL is not empty.
	Open  func() (objects.Store, error)
	Store Store
	// Found is the revision of the metadata that this process has found.
	Found int64
	// Image returns the newest image of this node. Applied waits until it shows a revision.
	Image   func() *metadata.Image
	Applied func(ctx context.Context, revision int64) error
	// Leads returns the term in which this node leads the metadata and has applied an entry of its
	// own, 0 if it does not, and a channel that is closed when that changes.
	Leads func() (term uint64, moved <-chan struct{})
	// Raise raises the cluster to a feature level, if all brokers support it.
	Raise func(ctx context.Context, level int32) error
	// Topic returns the settings of a topic under an image.
	Topic func(*metadata.Image, *metadata.Topic) *configdef.Topic
	// Peer returns a broker of the cluster.
	Peer    func(id int32) Peer
	Release string
	Now     func() time.Time
	Log     *zap.Logger
}

// errNoStore is the answer to requests for snapshots without an object store.
var errNoStore = errors.New("there is no object store: set archive.url on all brokers and restart them (docs/snapshots.md)")

// Service takes snapshots while its node leads the metadata. Run runs it. The other methods may be
// called concurrently and do not wait for the store.
type Service struct {
	opt     Options
	attempt atomic.Int64  // of freezes
	found   int64         // Options.Found; math.MaxInt64 since the store has been compared with it
	first   int64         // the first snapshot that this process has named; 0: none
	wake    chan struct{} // capacity 1: asked has grown

	mu      sync.Mutex // guards the following fields
	state   view.Snapshots
	asked   []ask // of operators, in order
	uploads map[int32][2]int64
	tried   time.Time // when the last verification began
	// latest is the complete index of the newest snapshot, and sizes are the bytes that manifests
	// list: both are only read again after a change of the controller.
	latest   format.Previous
	complete *format.Index
	sizes    map[objects.Nonce]int64
	probed   objects.Nonce // what brokers must find in their store; zero: it is to be put
	// distrusted: the last snapshot has failed because an object is damaged or missing. It may be
	// one that brokers have put for snapshots that failed, and would use again.
	distrusted bool
}

// ask is a request of an operator.
type ask struct {
	id           int64
	action       string
	number       int64
	allowOffline bool
}

// New returns a service.
func New(o Options) *Service {
	return &Service{opt: o, found: o.Found, wake: make(chan struct{}, 1), uploads: map[int32][2]int64{}, sizes: map[objects.Nonce]int64{},
		state: view.Snapshots{URL: o.Conf.URL, IntervalMs: o.Conf.Interval.Milliseconds()}}
}

// State returns what the service does. The error matches controller.ErrNotController if this node
// does not lead the metadata.
func (s *Service) State() (view.Snapshots, error) {
	term, _ := s.opt.Leads()
	if term == 0 {
		return view.Snapshots{}, controller.ErrNotController
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Term != term { // it still works in a former term
		return view.Snapshots{}, controller.ErrNotController
	}
	x := s.state
	if x.Running != nil {
		r := *x.Running
		r.UploadedBytes, r.TotalBytes = 0, 0
		for _, n := range s.uploads {
			r.UploadedBytes, r.TotalBytes = r.UploadedBytes+n[0], r.TotalBytes+n[1]
		}
		x.Running = &r
	}
	x.Outcomes = slices.Clone(x.Outcomes)
	return x, nil
}

// Ask queues a request of an operator, and returns its id: State has its outcome later. Errors are
// those of State, or say what is wrong with the request.
func (s *Service) Ask(q view.SnapshotAsk) (id int64, err error) {
	term, _ := s.opt.Leads()
	if term == 0 {
		return 0, controller.ErrNotController
	}
	if s.opt.Conf.URL == "" {
		return 0, errNoStore
	}
	switch q.Action {
	case view.CreateSnapshot:
	case view.DeleteSnapshot, view.VerifySnapshot:
		if s.opt.Image().Snapshot(q.Number) == nil {
			return 0, fmt.Errorf("there is no snapshot %d; chronikctl snapshot list shows them", q.Number)
		}
	default:
		return 0, fmt.Errorf("action %q is not known to this version of chronik", q.Action)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Term != term { // it would be forgotten when the term begins
		return 0, controller.ErrNotController
	}
	if len(s.asked) >= mostAsks {
		return 0, fmt.Errorf("%d requests wait already; try again later", len(s.asked))
	}
	s.state.Asked++
	s.asked = append(s.asked, ask{s.state.Asked, q.Action, q.Number, q.AllowOffline})
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return s.state.Asked, nil
}

const (
	mostAsks     = 100 // requests that wait
	mostOutcomes = 100 // that are kept
	// retryPause is the pause after a failed snapshot, unless the interval is shorter.
	retryPause = 30 * time.Second
	// collectEvery is how often unused objects are deleted. They are not for as long after a failed
	// snapshot, so that the next one can continue what brokers have put.
	collectEvery = 24 * time.Hour
)

// Run works until ctx ends.
func (s *Service) Run(ctx context.Context) {
	for ctx.Err() == nil {
		term, moved := s.opt.Leads()
		if term == 0 {
			select {
			case <-ctx.Done():
			case <-moved:
			}
			continue
		}
		inTerm, cancel := context.WithCancelCause(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-inTerm.Done():
					return
				case <-moved:
				}
				var now uint64
				if now, moved = s.opt.Leads(); now != term {
					cancel(controller.ErrNotController)
					return
				}
			}
		}()
		s.lead(inTerm, term)
		cancel(nil)
		<-ended
	}
}

// lead works in one term.
func (s *Service) lead(ctx context.Context, term uint64) {
	s.mu.Lock()
	s.state = view.Snapshots{URL: s.opt.Conf.URL, IntervalMs: s.opt.Conf.Interval.Milliseconds(), Term: term}
	s.asked = nil
	s.mu.Unlock()
	s.forget()
	var verifying sync.WaitGroup
	defer verifying.Wait()
	verified := make(chan struct{}, 1)
	verified <- struct{}{} // one verification at a time
	verify := func(q ask) {
		select {
		case <-verified:
		default:
			s.outcome(q, errors.New("another snapshot is being verified; try again later"))
			return
		}
		verifying.Go(func() {
			s.outcome(q, s.verify(ctx, term, q.number))
			verified <- struct{}{}
		})
	}
	var collected time.Time
	var failed lastFailures
	var found newest
	for ctx.Err() == nil {
		now := s.opt.Now()
		if q, ok := s.next(); ok {
			switch q.action {
			case view.CreateSnapshot:
				failed.note(s.create(ctx, term, q), s.opt.Now())
			case view.DeleteSnapshot:
				s.outcome(q, s.delete(ctx, term, q.number))
			case view.VerifySnapshot:
				verify(q)
			}
			continue
		}
		due := s.due(now, failed.last, &found)
		if due != nil && !now.Before(*due) {
			failed.note(s.create(ctx, term, ask{allowOffline: true}), s.opt.Now())
			continue
		}
		if s.opt.Conf.URL != "" && min(now.Sub(collected), now.Sub(failed.first)) >= collectEvery && s.mayCollect() {
			if err := s.collect(ctx, term); err != nil && ctx.Err() == nil {
				s.opt.Log.Warn("unused objects of snapshots were not deleted", zap.Error(err))
			}
			collected = s.opt.Now()
			continue
		}
		if n := s.unverified(now); n != 0 {
			verify(ask{number: n})
		}
		wait := time.Minute
		if due != nil {
			wait = min(wait, due.Sub(now))
		}
		t := time.NewTimer(max(wait, 0))
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// lastFailures are the times of the first and the last of the snapshots in a row that failed; zero:
// none has.
type lastFailures struct{ first, last time.Time }

func (f *lastFailures) note(ok bool, at time.Time) {
	switch {
	case ok:
		*f = lastFailures{}
	case f.first.IsZero():
		f.first = at
	}
	if !ok {
		f.last = at
	}
}

// mayCollect reports whether the metadata may have a collection. What they name does not count: a
// topic can be deleted before any collection, and its objects stay.
func (s *Service) mayCollect() bool { return s.opt.Image().FeatureLevel() >= metadata.SnapshotLevel }

// next returns the next request of an operator.
func (s *Service) next() (q ask, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 {
		return q, false
	}
	q, s.asked = s.asked[0], s.asked[1:]
	return q, true
}

// newest is the newest snapshot, and when this node knew of it at the latest, by its own clock.
type newest struct {
	number int64
	at     time.Time
}

// due returns when the next snapshot of the schedule begins; nil: there is none. It updates found.
func (s *Service) due(now, failed time.Time, found *newest) *time.Time {
	c := &s.opt.Conf
	if c.URL == "" || c.Interval == 0 {
		return nil
	}
	at := now
	if list := s.opt.Image().Snapshots(); len(list) > 0 {
		x := &list[len(list)-1]
		if found.number != x.Number || now.Before(found.at) {
			*found = newest{x.Number, now}
		}
		// The time may be ahead of the clock: of that of another node, or because it was set back.
		at = earlier(time.UnixMilli(x.Time), found.at).Add(c.Interval)
	}
	if retry := failed.Add(min(retryPause, c.Interval)); !failed.IsZero() && at.Before(retry) {
		at = retry
	}
	return &at
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// create takes a snapshot and notes its outcome.
func (s *Service) create(ctx context.Context, term uint64, q ask) bool {
	store, err := s.open()
	var x *metadata.Snapshot
	if err == nil {
		s.running(0, s.opt.Now().UnixMilli())
		x, err = s.take(ctx, term, store, q.allowOffline)
	}
	s.mu.Lock()
	s.state.Running = nil
	clear(s.uploads)
	switch {
	case err == nil:
		s.state.Failures, s.state.LastError = 0, ""
		q.number = x.Number
	case ctx.Err() == nil && (q.id == 0 || s.opt.Conf.Interval == 0): // an operator gets the outcome
		s.state.Failures++
		s.state.LastError, s.state.LastFailureMs = err.Error(), s.opt.Now().UnixMilli()
	}
	s.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		s.opt.Log.Warn("no snapshot was taken", zap.Error(err))
	} else if err == nil {
		if x.Note != "" {
			s.opt.Log.Warn("brokers have notes about their uploads", zap.Int64("number", x.Number), zap.String("note", x.Note))
		}
		s.opt.Log.Info("snapshot", zap.Int64("number", x.Number), zap.Int("partitions", x.Partitions), zap.Int("offline", x.Offline),
			zap.Int64("bytes", x.Bytes), zap.Int64("uploaded", x.Uploaded), zap.Int64("took_ms", x.Ended-x.Time))
	}
	s.outcome(q, err)
	return err == nil
}

func (s *Service) open() (objects.Store, error) {
	if s.opt.Conf.URL == "" {
		return nil, errNoStore
	}
	return s.opt.Open()
}

// outcome notes what became of a request of an operator.
func (s *Service) outcome(q ask, err error) {
	if q.id == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := view.SnapshotOutcome{ID: q.id, Number: q.number}
	if err != nil {
		o.Error = err.Error()
		var off *OfflineError
		o.Offline = errors.As(err, &off)
	}
	s.state.Outcomes = append(s.state.Outcomes, o)
	if n := len(s.state.Outcomes) - mostOutcomes; n > 0 {
		s.state.Outcomes = slices.Delete(s.state.Outcomes, 0, n)
	}
}

// delete removes a snapshot from the metadata. A collection deletes its objects later.
func (s *Service) delete(ctx context.Context, term uint64, number int64) error {
	revision, err := s.opt.Store.LeaderTxn(ctx, term, metadata.Txn{Delete: []string{metadata.SnapshotKey(number)}})
	if err != nil {
		return err
	}
	return s.opt.Applied(ctx, revision)
}

// running notes the snapshot that is being taken, without a number until its cut is.
func (s *Service) running(number, since int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Running = &view.RunningSnapshot{Number: number, SinceMs: since}
}

// progress notes how far the upload of a broker is.
func (s *Service) progress(broker int32, done, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploads[broker] = [2]int64{done, max(done, total)}
}

func (s *Service) cached(at format.Previous) *format.Index {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest != at {
		return nil
	}
	return s.complete
}

func (s *Service) cache(at format.Previous, index *format.Index) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest, s.complete = at, index
	used := map[objects.Nonce]bool{}
	for i := range index.Partitions {
		used[index.Partitions[i].Manifest] = true
	}
	maps.DeleteFunc(s.sizes, func(n objects.Nonce, _ int64) bool { return !used[n] })
}

// forget forgets what the store had: it is read again.
func (s *Service) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest, s.complete, s.probed = format.Previous{}, nil, objects.Nonce{}
	clear(s.sizes)
}

func (s *Service) distrust(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.distrusted = yes
}

func (s *Service) distrusts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.distrusted
}

// probe returns a probe that the store has. It puts one after each collection and each failure.
func (s *Service) probe(ctx context.Context, store objects.Store, prefix string) (objects.Nonce, error) {
	s.mu.Lock()
	nonce := s.probed
	s.mu.Unlock()
	if nonce != (objects.Nonce{}) {
		return nonce, nil
	}
	nonce, err := format.PutProbe(ctx, store, prefix)
	if err != nil {
		return nonce, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probed = nonce
	return nonce, nil
}

// bytesOf returns the bytes of a partition's records.
func (s *Service) bytesOf(ctx context.Context, store objects.Store, prefix string, p *format.Partition) (n int64, err error) {
	for i := range p.Parts {
		n += p.Parts[i].Bytes()
	}
	if (p.Manifest == objects.Nonce{}) {
		return n, nil
	}
	s.mu.Lock()
	listed, ok := s.sizes[p.Manifest]
	s.mu.Unlock()
	if !ok {
		if err := format.EachManifest(ctx, store, prefix, p.ID, p.Manifest, func(_ objects.Nonce, m *format.Manifest) error {
			for i := range m.Parts {
				listed += m.Parts[i].Bytes()
			}
			return nil
		}); err != nil {
			return 0, err
		}
		s.mu.Lock()
		s.sizes[p.Manifest] = listed
		s.mu.Unlock()
	}
	return n + listed, nil
}
