package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/view"
)

const (
	// maxOperation bounds an encoded request: an election names at most controller.MaxPartitions.
	maxOperation = 2 << 20
	// askPause is the pause before a request that no leader accepted is sent again.
	askPause = 100 * time.Millisecond
)

// Operator does for clients what only the metadata leader can do. Its methods are safe for
// concurrent use. They wait for a leader until their context ends; then the error matches
// controller.ErrNotController. It matches metadata.ErrUnknown if a leader received the request and
// did not answer. It implements broker.Cluster.
type Operator struct {
	leader func() uint64 // member id, 0 for none
	// alone is how long this node has known no leader, 0 if it knows one.
	alone  func() time.Duration
	own    uint64
	call   func(ctx context.Context, member uint64, method uint16, body []byte) ([]byte, error)
	quorum func(ctx context.Context) controller.Quorum
	loop   func() operations // nil before there is a controller
	// snapshots returns what takes snapshots; nil while this broker starts.
	snapshots func() SnapshotService
}

// SnapshotService is what takes snapshots of the cluster on the metadata leader: a
// *snapshots.Service.
type SnapshotService interface {
	State() (view.Snapshots, error)
	Ask(q view.SnapshotAsk) (id int64, err error)
}

// ServeSnapshots sets what takes snapshots if this node leads the metadata.
func (c *Cluster) ServeSnapshots(s SnapshotService) { c.snapshots.Store(&s) }

// operations is the part of controller.Loop that an Operator needs.
type operations interface {
	Unregister(ctx context.Context, broker int32) (revision int64, err error)
	ElectUnclean(ctx context.Context, list []metadata.TopicPartition) (revision int64, errs []error)
}

// Operator returns the operator of this member.
func (c *Cluster) Operator() *Operator {
	return &Operator{
		leader: func() uint64 { role, _ := c.store.Leadership(); return role.Leader },
		alone: func() time.Duration {
			if w := c.Watched(); w.Leader == 0 {
				return time.Since(w.Led)
			}
			return 0
		},
		own: c.self.ID, call: c.book.Call, quorum: c.quorum,
		loop: func() operations {
			if l := c.control.Load(); l != nil {
				return l
			}
			return nil
		},
		snapshots: func() SnapshotService {
			if s := c.snapshots.Load(); s != nil {
				return *s
			}
			return nil
		},
	}
}

// quorum returns what this node knows of the quorum; it is complete on the leader.
func (c *Cluster) quorum(ctx context.Context) controller.Quorum {
	s := c.store.Status(ctx)
	q := controller.Quorum{Leader: s.Leader, Term: s.Term, Commit: s.Commit}
	for _, m := range s.Members {
		q.Members = append(q.Members, controller.QuorumMember{Member: m.Member, Voter: m.Voter, End: m.Match, Silent: m.Silent})
	}
	return q
}

// The requests and answers are JSON. A receiver ignores fields that it does not know.

// refusal is an error on the wire; the zero value is none.
type refusal struct {
	Kind controller.Kind `json:"kind,omitempty"` // of a *controller.Error
	Text string          `json:"text,omitempty"`
}

func packError(err error) refusal {
	var refused *controller.Error
	switch {
	case err == nil:
		return refusal{}
	case errors.As(err, &refused):
		return refusal{refused.Kind, refused.Msg}
	}
	return refusal{0, err.Error()}
}

func (r refusal) err() error {
	switch {
	case r == refusal{}:
		return nil
	case r.Kind != 0:
		return &controller.Error{Kind: r.Kind, Msg: r.Text}
	}
	return fmt.Errorf("%w: the metadata leader failed: %s", metadata.ErrUnknown, r.Text)
}

type unregisterRequest struct {
	Broker int32 `json:"broker"`
}

type electRequest struct {
	Partitions []metadata.TopicPartition `json:"partitions"`
}

// outcome answers unregisterRequest with one refusal, and electRequest with one for each partition.
type outcome struct {
	Revision int64     `json:"revision"`
	Errors   []refusal `json:"errors"`
}

// Leader implements broker.Cluster.
func (o *Operator) Leader() uint64 { return o.leader() }

// electionTime is longer than an election takes.
const electionTime = 3 * time.Second

// Quorum implements broker.Cluster. It waits for an election, not for a leader that this node has
// lost before: it may be cut off for hours.
func (o *Operator) Quorum(ctx context.Context) (q controller.Quorum, err error) {
	if n := o.alone(); n >= electionTime {
		return q, fmt.Errorf("%w, and has known no metadata leader for %v", controller.ErrNotController, n.Round(time.Second))
	}
	err = o.ask(ctx, methodQuorum, struct{}{}, &q)
	return q, err
}

// Unregister implements broker.Cluster.
func (o *Operator) Unregister(ctx context.Context, broker int32) (revision int64, err error) {
	var a outcome
	if err := o.ask(ctx, methodUnregister, unregisterRequest{broker}, &a); err != nil {
		return 0, err
	}
	if len(a.Errors) != 1 {
		return 0, fmt.Errorf("%w: the metadata leader answered with %d outcomes of one", metadata.ErrUnknown, len(a.Errors))
	}
	return a.Revision, a.Errors[0].err()
}

// ElectUnclean implements broker.Cluster. After a recovery of the metadata, all partitions may be
// among them, more than one request has.
func (o *Operator) ElectUnclean(ctx context.Context, list []metadata.TopicPartition) (revision int64, errs []error) {
	for part := range slices.Chunk(list, controller.MaxPartitions) {
		at, of := o.electUnclean(ctx, part)
		revision, errs = max(revision, at), append(errs, of...)
	}
	return revision, errs
}

func (o *Operator) electUnclean(ctx context.Context, list []metadata.TopicPartition) (revision int64, errs []error) {
	errs = make([]error, len(list))
	var a outcome
	err := o.ask(ctx, methodElect, electRequest{Partitions: list}, &a)
	if err == nil && len(a.Errors) != len(list) {
		err = fmt.Errorf("%w: the metadata leader answered with %d outcomes of %d", metadata.ErrUnknown, len(a.Errors), len(list))
	}
	for i := range errs {
		if errs[i] = err; err == nil {
			errs[i] = a.Errors[i].err()
		}
	}
	return a.Revision, errs
}

// Snapshots implements broker.Cluster.
func (o *Operator) Snapshots(ctx context.Context) (x view.Snapshots, err error) {
	err = o.ask(ctx, methodSnapshots, struct{}{}, &x)
	return x, err
}

// AskSnapshot implements broker.Cluster.
func (o *Operator) AskSnapshot(ctx context.Context, q view.SnapshotAsk) (a view.SnapshotAnswer, err error) {
	err = o.ask(ctx, methodSnapshot, q, &a)
	return a, err
}

// ask sends a request to the metadata leader and decodes the answer. While there is none that
// accepts it, it tries again until ctx ends.
func (o *Operator) ask(ctx context.Context, method uint16, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if len(body) > maxOperation {
		return &controller.Error{Kind: controller.InvalidRequest, Msg: "the request is too large for the metadata leader"}
	}
	for {
		p, err := o.once(ctx, method, body)
		var f *membership.Failure
		switch {
		case err == nil:
			if err := json.Unmarshal(p, answer); err != nil {
				return fmt.Errorf("%w: answer of the metadata leader: %w", metadata.ErrUnknown, err)
			}
			return nil
		case errors.Is(err, controller.ErrNotController), errors.Is(err, link.ErrNotSent),
			errors.As(err, &f) && f.Code == membership.CodeNotLeader:
		default:
			return fmt.Errorf("%w: %w", metadata.ErrUnknown, err)
		}
		if pause.Sleep(ctx, pause.Spread(askPause)) != nil {
			return fmt.Errorf("%w, and no other broker accepted the request: %w", controller.ErrNotController, err)
		}
	}
}

func (o *Operator) once(ctx context.Context, method uint16, body []byte) ([]byte, error) {
	switch leader := o.leader(); leader {
	case 0:
		return nil, controller.ErrNotController
	case o.own:
		return o.do(ctx, method, body)
	default:
		return o.call(ctx, leader, method, body)
	}
}

// handle answers a request of another member.
func (o *Operator) handle(ctx context.Context, method uint16, body []byte) ([]byte, error) {
	p, err := o.do(ctx, method, body)
	if errors.Is(err, controller.ErrNotController) {
		return nil, &link.RemoteError{Code: membership.CodeNotLeader, Text: err.Error()}
	}
	return p, err
}

// do does what a request asks for. The error matches controller.ErrNotController if this node does
// not lead the metadata, or is not ready to.
func (o *Operator) do(ctx context.Context, method uint16, body []byte) ([]byte, error) {
	loop := o.loop()
	if loop == nil || o.leader() != o.own {
		return nil, controller.ErrNotController
	}
	switch method {
	case methodQuorum:
		q := o.quorum(ctx)
		if q.Leader != o.own {
			return nil, controller.ErrNotController
		}
		return json.Marshal(q)
	case methodUnregister:
		var q unregisterRequest
		if err := decodeRequest(body, &q); err != nil {
			return nil, err
		}
		revision, err := loop.Unregister(ctx, q.Broker)
		if errors.Is(err, controller.ErrNotController) {
			return nil, err
		}
		return json.Marshal(outcome{revision, []refusal{packError(err)}})
	case methodElect:
		var q electRequest
		if err := decodeRequest(body, &q); err != nil {
			return nil, err
		}
		return electUnclean(ctx, loop, q.Partitions)
	case methodSnapshots, methodSnapshot:
		return o.doSnapshots(method, body)
	}
	return nil, fmt.Errorf("request of the unknown method %d", method)
}

// doSnapshots answers a request about snapshots.
func (o *Operator) doSnapshots(method uint16, body []byte) ([]byte, error) {
	s := o.snapshots()
	if s == nil {
		return nil, controller.ErrNotController
	}
	x, err := s.State()
	if err != nil {
		return nil, err
	}
	if method == methodSnapshots {
		return json.Marshal(x)
	}
	var q view.SnapshotAsk
	if err := decodeRequest(body, &q); err != nil {
		return nil, err
	}
	a := view.SnapshotAnswer{Term: x.Term}
	if a.ID, err = s.Ask(q); errors.Is(err, controller.ErrNotController) {
		return nil, err
	}
	if err != nil {
		a.Error = err.Error()
	}
	return json.Marshal(a)
}

func electUnclean(ctx context.Context, loop operations, list []metadata.TopicPartition) ([]byte, error) {
	revision, errs := loop.ElectUnclean(ctx, list)
	a := outcome{Revision: revision, Errors: make([]refusal, len(errs))}
	for i, err := range errs {
		if errors.Is(err, controller.ErrNotController) {
			return nil, err
		}
		a.Errors[i] = packError(err)
	}
	return json.Marshal(a)
}

// decodeOperation decodes a request or an answer.
func decodeOperation(body []byte, v any) error {
	if len(body) > maxOperation {
		return fmt.Errorf("%d bytes are more than %d", len(body), maxOperation)
	}
	return json.Unmarshal(body, v)
}

// decodeRequest decodes the request of another member.
func decodeRequest(body []byte, v any) error {
	if err := decodeOperation(body, v); err != nil {
		return fmt.Errorf("decode a request: %w", err)
	}
	return nil
}
