package snapshots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/archive/cut"
	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/writer"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/replica"
)

// Peer is a broker whose logs are in a snapshot, perhaps this one.
type Peer interface {
	cut.Participant
	// Begin begins the uploads of a job, and returns at once.
	Begin(ctx context.Context, job writer.Job) error
	// Progress returns how far the job of a snapshot is, with the results from an index on.
	Progress(ctx context.Context, number int64, from int) (writer.Progress, error)
	// Cancel ends the job of a snapshot. It does not wait.
	Cancel(number int64)
}

// Freezer is the part of replica.Manager that a snapshot needs.
type Freezer interface {
	Freeze(id replica.FreezeID) (cuts []replica.Cut, ok bool)
	Frozen(id replica.FreezeID) bool
	Thaw(id replica.FreezeID)
}

// Uploads is the part of writer.Writer that a snapshot needs.
type Uploads interface {
	Begin(job writer.Job) error
	Progress(number int64, from int) (writer.Progress, error)
	Cancel(number int64)
}

// DeskOptions are those of a Desk.
type DeskOptions struct {
	Self     int32
	Replicas Freezer
	// Applied waits until this broker has applied a revision of the metadata.
	Applied func(ctx context.Context, revision int64) error
	// Uploads returns what uploads, or why this broker does not.
	Uploads func() (Uploads, error)
	// Image returns the newest image. Ask sends a request to another broker.
	Image func() *metadata.Image
	Ask   func(ctx context.Context, img *metadata.Image, broker int32, body []byte) ([]byte, error)
}

// Desk takes the requests of the controller to the brokers whose logs are in a snapshot, on this
// broker and between brokers.
type Desk struct {
	opt   DeskOptions
	asked atomic.Int64 // the last time of Handle, in ns since 1970
	sent  sync.WaitGroup
}

// NewDesk returns a desk.
func NewDesk(o DeskOptions) *Desk { return &Desk{opt: o} }

// Wait waits until no request of this broker is under way, for at most a second after the last one.
func (d *Desk) Wait() { d.sent.Wait() }

// Asked returns when another broker asked this one last; at the beginning of time if none has.
func (d *Desk) Asked() time.Time { return time.Unix(0, d.asked.Load()) }

// Peer returns a broker of the cluster.
func (d *Desk) Peer(id int32) Peer {
	if id == d.opt.Self {
		return local{d}
	}
	return remote{d, id}
}

// The requests. Their names are part of the format between brokers.
const (
	opFreeze   = "freeze"
	opFrozen   = "frozen"
	opThaw     = "thaw"
	opBegin    = "begin"
	opProgress = "progress"
	opCancel   = "cancel"
)

// request is one of the controller, as JSON. A receiver ignores fields that it does not know, and
// refuses an operation that it does not know.
type request struct {
	Op         string            `json:"op"`
	ID         replica.FreezeID  `json:"id,omitzero"`
	Revision   int64             `json:"revision,omitempty"`
	Number     int64             `json:"number,omitempty"`
	Base       *format.Previous  `json:"base,omitempty"`
	Collection writer.Collection `json:"collection,omitzero"`
	Probe      objects.Nonce     `json:"probe,omitzero"`
	Cuts       []replica.Cut     `json:"cuts,omitempty"`
	Tiers      []writer.Tier     `json:"tiers,omitempty"`
	From       int               `json:"from,omitempty"`
}

// answer is that to a request, as JSON.
type answer struct {
	Cuts     []replica.Cut    `json:"cuts,omitempty"`
	Frozen   bool             `json:"frozen,omitempty"`
	Progress *writer.Progress `json:"progress,omitempty"`
	// Partitions are those of Progress, as format.AppendPartitions encodes them.
	Partitions []byte `json:"partitions,omitempty"`
	// Unknown: the broker has no such job. Between brokers, an error is only a text.
	Unknown bool `json:"unknown,omitempty"`
}

// Handle answers a request of another broker.
func (d *Desk) Handle(ctx context.Context, _ int32, body []byte) ([]byte, error) {
	d.asked.Store(time.Now().UnixNano())
	var q request
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, fmt.Errorf("a request about snapshots: %w", err)
	}
	here, a := local{d}, answer{}
	var err error
	switch q.Op {
	case opFreeze:
		a.Cuts, err = here.Freeze(ctx, q.ID, q.Revision)
	case opFrozen:
		a.Frozen, err = here.Frozen(ctx, q.ID)
	case opThaw:
		here.Thaw(q.ID)
	case opBegin:
		err = here.Begin(ctx, writer.Job{Number: q.Number, Probe: q.Probe, Base: q.Base, Collection: q.Collection, Cuts: q.Cuts,
			Tiers: q.Tiers})
	case opProgress:
		var p writer.Progress
		if p, err = here.Progress(ctx, q.Number, q.From); errors.Is(err, writer.ErrUnknown) {
			a.Unknown, err = true, nil
		} else if err == nil {
			a.Partitions, p.Partitions = format.AppendPartitions(nil, p.Partitions), nil
			a.Progress = &p
		}
	case opCancel:
		here.Cancel(q.Number)
	default:
		err = fmt.Errorf("request %q about snapshots is not known to this version of chronik; upgrade the broker", q.Op)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

// local is this broker.
type local struct{ d *Desk }

// Freeze implements cut.Participant.
func (b local) Freeze(ctx context.Context, id replica.FreezeID, revision int64) ([]replica.Cut, error) {
	if err := b.d.opt.Applied(ctx, revision); err != nil {
		return nil, fmt.Errorf("apply the metadata: %w", err)
	}
	cuts, ok := b.d.opt.Replicas.Freeze(id)
	if !ok {
		return nil, errors.New("the broker was frozen by a later controller or attempt")
	}
	return cuts, nil
}

// Frozen implements cut.Participant.
func (b local) Frozen(_ context.Context, id replica.FreezeID) (bool, error) {
	return b.d.opt.Replicas.Frozen(id), nil
}

// Thaw implements cut.Participant.
func (b local) Thaw(id replica.FreezeID) { b.d.opt.Replicas.Thaw(id) }

// Begin implements Peer.
func (b local) Begin(_ context.Context, job writer.Job) error {
	u, err := b.d.opt.Uploads()
	if err == nil {
		err = u.Begin(job)
	}
	return err
}

// Progress implements Peer.
func (b local) Progress(_ context.Context, number int64, from int) (writer.Progress, error) {
	u, err := b.d.opt.Uploads()
	if err != nil {
		return writer.Progress{}, err
	}
	return u.Progress(number, from)
}

// Cancel implements Peer.
func (b local) Cancel(number int64) {
	if u, err := b.d.opt.Uploads(); err == nil {
		u.Cancel(number)
	}
}

// unawaited bounds requests whose answers are not awaited.
const unawaited = time.Second

// remote is another broker.
type remote struct {
	d  *Desk
	id int32
}

func (b remote) ask(ctx context.Context, q *request) (*answer, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	p, err := b.d.opt.Ask(ctx, b.d.opt.Image(), b.id, body)
	a := &answer{}
	if err == nil {
		err = json.Unmarshal(p, a)
	}
	if err != nil {
		return nil, fmt.Errorf("broker %d: %w", b.id, err)
	}
	return a, nil
}

// notify asks without waiting for the answer; Desk.Wait waits for it.
func (b remote) notify(q *request) {
	b.d.sent.Go(func() {
		label.Goroutine("snapshot", "")
		ctx, cancel := context.WithTimeout(context.Background(), unawaited)
		defer cancel()
		_, _ = b.ask(ctx, q) // it ends on its own if the request is lost
	})
}

// Freeze implements cut.Participant.
func (b remote) Freeze(ctx context.Context, id replica.FreezeID, revision int64) ([]replica.Cut, error) {
	a, err := b.ask(ctx, &request{Op: opFreeze, ID: id, Revision: revision})
	if err != nil {
		return nil, err
	}
	return a.Cuts, nil
}

// Frozen implements cut.Participant.
func (b remote) Frozen(ctx context.Context, id replica.FreezeID) (bool, error) {
	a, err := b.ask(ctx, &request{Op: opFrozen, ID: id})
	return err == nil && a.Frozen, err
}

// Thaw implements cut.Participant.
func (b remote) Thaw(id replica.FreezeID) { b.notify(&request{Op: opThaw, ID: id}) }

// Begin implements Peer.
func (b remote) Begin(ctx context.Context, job writer.Job) error {
	_, err := b.ask(ctx, &request{Op: opBegin, Number: job.Number, Probe: job.Probe, Base: job.Base, Collection: job.Collection,
		Cuts: job.Cuts, Tiers: job.Tiers})
	return err
}

// Progress implements Peer.
func (b remote) Progress(ctx context.Context, number int64, from int) (p writer.Progress, err error) {
	a, err := b.ask(ctx, &request{Op: opProgress, Number: number, From: from})
	if err != nil {
		return p, err
	}
	if a.Unknown {
		return p, fmt.Errorf("broker %d: %w: %d", b.id, writer.ErrUnknown, number)
	}
	if a.Progress == nil {
		return p, fmt.Errorf("broker %d: an answer without the progress of an upload", b.id)
	}
	p = *a.Progress
	if p.Partitions, err = format.DecodePartitions(a.Partitions); err != nil {
		return p, fmt.Errorf("broker %d: %w", b.id, err)
	}
	return p, nil
}

// Cancel implements Peer.
func (b remote) Cancel(number int64) { b.notify(&request{Op: opCancel, Number: number}) }
