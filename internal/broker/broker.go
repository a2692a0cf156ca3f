package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/groups"
	"github.com/chronik-io/chronik/internal/membuf"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/topicconf"
)

// Options are what the handlers work with.
type Options struct {
	Self       int32
	Metadata   *metadata.Applier
	Controller *controller.Controller
	Replicas   *replica.Manager
	Configs    *topicconf.Registry
	Settings   *replica.TopicSettings
	Groups     *groups.Coordinator
	// Static are the broker's configs as the configuration sets them, by name.
	Static map[string]string
	// AnswerBytes bounds the records in answers that clients have not read yet; at
	// the bound answers get shorter. Default 256 MiB.
	AnswerBytes int64
	// Logger gets what handlers have to say; Level is the one that the whole
	// broker logs at, and that a client may change.
	Logger *zap.Logger
	Level  zap.AtomicLevel
}

// Broker answers requests. It implements network.Handler.
type Broker struct {
	opt      Options
	conf     topicconf.Broker
	table    *protocol.Table
	handlers map[int16]handler
	sessions *sessions
	answers  *membuf.Budget // of record bytes in answers to fetches
	produces sync.Pool      // of *produceOp

	producerIDs producerIDs
	fetches     sync.Pool // of *fetchOp

	// Background work of handlers ends with ctx; Close waits for it.
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
}

// handler answers one request; exactly one answer, now or later.
type handler func(*Broker, *network.Request)

// api is one line of apis.go.
type api struct {
	protocol.API
	handle handler
}

// defaultAnswerBytes is that of Options.AnswerBytes.
const defaultAnswerBytes = 256 << 20

// changeTimeout bounds a change of metadata whose request names no time.
const changeTimeout = 30 * time.Second

// New returns a broker that can answer once the metadata applier has started.
func New(opt Options) (*Broker, error) {
	conf, err := opt.Configs.ResolveBroker(opt.Static)
	if err != nil {
		return nil, fmt.Errorf("broker configuration: %w", err)
	}
	table, err := Table()
	if err != nil {
		return nil, err
	}
	b := &Broker{opt: opt, conf: conf, table: table, handlers: map[int16]handler{}, sessions: newSessions(int(conf.FetchSessions)),
		answers: membuf.NewBudget(cmp.Or(opt.AnswerBytes, defaultAnswerBytes))}
	for _, a := range apis() {
		b.handlers[a.Key] = a.handle
	}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b, nil
}

// Table returns the versions of the APIs that there is a handler for.
func Table() (*protocol.Table, error) {
	var lines []protocol.API
	for _, a := range apis() {
		lines = append(lines, a.API)
	}
	return protocol.NewTable(lines...)
}

// Handle is network.Handler.
func (b *Broker) Handle(r *network.Request) {
	h := b.handlers[r.Key]
	if h == nil {
		r.Abort(fmt.Errorf("API %d has no handler", r.Key))
		return
	}
	h(b, r)
}

// Answers is the budget of Options.AnswerBytes.
func (b *Broker) Answers() membuf.BudgetStats { return b.answers.Stats() }

// Close ends the background work of handlers and waits for it. Requests are no
// longer handed in.
func (b *Broker) Close() {
	b.stop()
	b.work.Wait()
}

// image is the metadata that a request sees from start to end.
func (b *Broker) image() *metadata.Image { return b.opt.Metadata.Image() }

// decoded makes a handler of a function that answers a decoded request at once.
func decoded[R kmsg.Request](answer func(*Broker, *network.Request, R) kmsg.Response) handler {
	return func(b *Broker, r *network.Request) {
		req, err := b.table.Decode(r.Key, r.Version, r.Body)
		if err != nil {
			r.Abort(err)
			return
		}
		r.Respond(answer(b, r, req.(R)))
	}
}

// changing makes a handler of a function that waits for something: it runs on a
// goroutine of its own, one per connection at most, since the connection starts
// nothing else meanwhile. ctx ends with the broker.
func changing[R kmsg.Request](answer func(context.Context, *Broker, *network.Request, R) kmsg.Response) handler {
	return func(b *Broker, r *network.Request) {
		req, err := b.table.Decode(r.Key, r.Version, r.Body)
		if err != nil {
			r.Abort(err)
			return
		}
		b.work.Go(func() { r.Respond(answer(b.ctx, b, r, req.(R))) })
	}
}

// respondTo returns an empty response for a request's version.
func respondTo[T kmsg.Response](r *network.Request, resp T) T {
	resp.SetVersion(r.Version)
	return resp
}

// waitApplied waits until the metadata shows a change. A timeout is no error of
// the change itself: it is made, and will be seen.
func (b *Broker) waitApplied(ctx context.Context, revision int64, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := b.opt.Metadata.WaitFor(ctx, revision)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: the change is made, and not yet applied everywhere", errTimedOut)
	}
	return err
}
