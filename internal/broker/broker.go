package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/txn/exchange"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/forward"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/security/refusals"
	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/shareleader"
	"github.com/chronik-io/chronik/internal/telemetry"
)

// Options configures a Handler.
type Options struct {
	Self       int32
	Metadata   *metadata.Applier
	Controller *controller.Controller
	// Cluster is nil on a single node.
	Cluster  Cluster
	Replicas *replica.Manager
	Configs  *configdef.Registry
	Settings *replica.TopicSettings
	Groups   *service.Groups
	// Transactions coordinates transactions.
	Transactions *service.Service
	// Shares coordinates the states of share groups.
	Shares *service.Shares
	// Exchange appends the markers that tools send.
	Exchange *exchange.Exchange
	// Coordinators asks whether a group's offsets may join a transaction. Nil: they are refused.
	Coordinators gate.Coordinators
	// Gate holds transactional batches until their coordinator permits them.
	Gate *gate.Gate
	// Static has the broker's configs from its configuration, by name.
	Static map[string]string
	// AnswerBytes bounds the records in answers that clients have not read yet; near the bound
	// answers get shorter. Default 256 MiB.
	AnswerBytes int64
	// ParkedBytes bounds the memory of requests that wait: fetches for records, joins for other
	// members. Near the bound, and earlier if they are large, fetches are answered without waiting,
	// and other requests are refused with a retriable error. For large requests that find no memory
	// there, a quarter as much is reserved; they wait for it in the order of arrival. Default 64
	// MiB.
	ParkedBytes int64
	// SessionBytes bounds the memory of fetch sessions; a client without a session names all its
	// partitions in every fetch. Default 128 MiB.
	SessionBytes int64
	// DecodedBytes bounds the arrays of one decoded request, in addition to the bound of its API.
	// Default: only the latter.
	DecodedBytes int64
	// AppendTime bounds how long an append waits for this broker's own disk. As in Kafka, the
	// timeout of a request applies only to the other replicas of acks=all. A request with a timeout
	// longer than AppendTime waits for its timeout. Default 30 s.
	AppendTime time.Duration
	// Rules returns the rules by which clients are allowed to do what their requests ask for. It is
	// called for every request, and by several goroutines. No function, or no rules: no
	// authorization.
	Rules func() *acl.Rules
	// Tunnel opens connections to other brokers, over which requests of clients are passed to them.
	// Nil: none are.
	Tunnel forward.Dial
	// Lease reports whether this broker's metadata can lack no election of the controller; others
	// pass no requests on. Required with Tunnel.
	Lease func() bool
	// ProduceBytes is that of network.Options; a quarter of it bounds what waits for another
	// broker.
	ProduceBytes int64
	// Audit gets refused requests; what clients change is recorded by changes.Watch. Nil: nothing
	// is recorded.
	Audit *audit.Log
	// Refusals counts the rights that clients do not have. Nil: they are not counted.
	Refusals *refusals.Table
	// Report returns the health report of the broker and its cluster. It must not block. Nil:
	// clients get none.
	Report func() *health.Report
	// Quotas has the quotas of clients; nil: none.
	Quotas *quota.Keeper
	// Share divides the processors. Default: one of the broker alone.
	Share *share.Share
	// ShareStates reaches the share coordinators. Nil: share groups are not served.
	ShareStates shareleader.Coordinator
	// Operators reaches the leaders of share partitions. Nil: operators are refused.
	Operators ShareOperators
	// Letters copies the dead letters of share groups. Nil: they are not copied.
	Letters shareleader.Letters
	// ShareBytes bounds the memory of share partitions and share sessions. Default 64 MiB.
	ShareBytes int64
	// Logger receives the log messages of handlers. Level is the log level of the whole broker,
	// which clients may change.
	Logger *zap.Logger
	Level  zap.AtomicLevel
}

// Handler answers requests. It implements network.Handler.
type Handler struct {
	imageSize  atomic.Pointer[imageSize] // see largestAnswer
	opt        Options
	conf       configdef.Broker
	table      *protocol.Table
	entries    entries
	at         waiters
	sessions   *sessions
	telemetry  *telemetry.Keeper  // the metrics of clients
	forward    *forward.Forwarder // nil: requests are not passed on
	damage     damageReports
	unknown    series.Failures               // by request: errors without a code
	reported   pause.Seldom[[]byte]          // the encoded report, for clients
	answers    *bufpool.Shares[netip.Prefix] // of record bytes in answers to fetches
	parked     *bufpool.Budget               // of requests that wait
	wide       *bufpool.Budget               // of large requests that parked has no memory for, until they are answered
	produces   sync.Pool                     // of *produceOp
	inspecting chan struct{}                 // an element for each operator's request that reads records; of mostInspections, never closed
	large      *share.Places                 // of large requests
	batches    *share.Places                 // of batches that are inflated or compressed

	shares       *shareleader.Leader // nil: share groups are not served
	shareMemory  *coordinator.MemoryBudget
	shareConfigs shareConfigs

	producerIDs producerIDs
	creations   creations // topics that Metadata requests create
	internal    creations // internal topics of streams groups
	fetches     sync.Pool // of *fetchOp

	// Background work of handlers ends with ctx; Close waits for it.
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
}

// The defaults of Options.
const (
	defaultAnswerBytes  = 256 << 20
	defaultParkedBytes  = 64 << 20
	defaultSessionBytes = 128 << 20
	defaultAppendTime   = 30 * time.Second
	defaultShareBytes   = 64 << 20
)

// changeTimeout bounds the write of a metadata change, and the wait for it to show if the request
// has no timeout.
const changeTimeout = 30 * time.Second

// New returns a Handler that can answer once the metadata applier has started.
func New(opt Options) (*Handler, error) {
	conf, err := opt.Configs.ResolveBroker(opt.Static)
	if err != nil {
		return nil, fmt.Errorf("broker configuration: %w", err)
	}
	table, err := Table(opt.DecodedBytes)
	if err != nil {
		return nil, err
	}
	if opt.Share == nil {
		opt.Share = share.New()
	}
	opt.ParkedBytes = cmp.Or(opt.ParkedBytes, defaultParkedBytes)
	opt.AppendTime = cmp.Or(opt.AppendTime, defaultAppendTime)
	b := &Handler{opt: opt, conf: conf, table: table, entries: newEntries(),
		telemetry: telemetry.New(time.Now),
		sessions:  newSessions(int(conf.FetchSessions), cmp.Or(opt.SessionBytes, defaultSessionBytes)),
		damage:    damageReports{gap: damageGap},
		answers:   bufpool.NewShares[netip.Prefix](cmp.Or(opt.AnswerBytes, defaultAnswerBytes), minAnswer),
		parked:    bufpool.NewBudget(opt.ParkedBytes),
		wide:      bufpool.NewBudget(opt.ParkedBytes / 4),
		large:     opt.Share.Of(share.Requests), batches: opt.Share.Of(share.Batches)}
	b.at = newWaiters(b)
	if opt.Tunnel != nil {
		b.forward = forward.New(forward.Options{Dial: opt.Tunnel, Answers: b.answers, Bytes: opt.ProduceBytes / 4, Log: opt.Logger,
			Lost: func(r *network.Request, sent bool) { b.entries[r.Key].lost(b, r, sent) }})
	}
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.shareMemory = coordinator.NewMemoryBudget(cmp.Or(opt.ShareBytes, defaultShareBytes))
	b.inspecting = make(chan struct{}, mostInspections)
	if opt.ShareStates != nil {
		b.shares = shareleader.New(shareleader.Options{Self: opt.Self, Coordinator: opt.ShareStates,
			Sessions: int(conf.Groups.ShareSessions),
			Memory:   b.shareMemory, Park: opt.Replicas.Purgatory(), Raise: opt.Replicas.RaiseAbove,
			Go: b.work.Go, Logger: opt.Logger, Letters: opt.Letters, TopicName: b.topicText})
	}
	return b, nil
}

// Telemetry returns what keeps the metrics of clients. It has no subscriptions until it follows the
// metadata.
func (b *Handler) Telemetry() *telemetry.Keeper { return b.telemetry }

// Answers returns the state of the budget of Options.AnswerBytes.
func (b *Handler) Answers() bufpool.BudgetStats { return b.answers.Stats() }

// Parked returns the state of the budget of Options.ParkedBytes.
func (b *Handler) Parked() bufpool.BudgetStats { return b.parked.Stats() }

// ShareMemory returns the memory budget of share partitions and share sessions.
func (b *Handler) ShareMemory() *coordinator.MemoryBudget { return b.shareMemory }

// releaseTime bounds ReleaseShares: share coordinators may be out of reach.
const releaseTime = 5 * time.Second

// ReleaseShares prepares share groups for a stop of the broker: members acquire nothing more, and
// the next leaders learn how often records were delivered. It waits for share coordinators until
// ctx ends, for a few seconds at most. What members hold they may still acknowledge.
func (b *Handler) ReleaseShares(ctx context.Context) {
	if b.shares == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	b.shares.Release(ctx)
}

// closeGrace is how long handlers may take to end after the context of Close has ended.
const closeGrace = 250 * time.Millisecond

// Close ends the background work of handlers and waits for it until ctx ends; work that a disk
// still blocks then is abandoned. The caller must first stop the arrival of requests.
func (b *Handler) Close(ctx context.Context) error {
	b.stop()
	if b.shares != nil {
		b.shares.Close()
	}
	if b.forward != nil {
		b.forward.Close()
	}
	ended := make(chan struct{})
	go func() {
		b.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	select { // stop ends what can be ended; that takes a moment, even if ctx ended before
	case <-ended:
		return nil
	case <-time.After(closeGrace):
		return fmt.Errorf("requests that wait for a disk have not ended: %w", context.Cause(ctx))
	}
}

// Forwarder returns what passes requests to other brokers; nil if nothing does.
func (b *Handler) Forwarder() *forward.Forwarder { return b.forward }

// image returns the metadata that a request uses from start to end.
func (b *Handler) image() *metadata.Image { return b.opt.Metadata.Image() }

// topicText returns the name of a topic, or its id if it is unknown.
func (b *Handler) topicText(id [16]byte) string {
	if t := b.image().TopicByID(id); t != nil {
		return t.Name
	}
	return metadata.FormatID(id)
}

// respondTo returns an empty response for a request's version.
func respondTo[T kmsg.Response](r *network.Request, resp T) T {
	resp.SetVersion(r.Version)
	return resp
}

// waitApplied waits until the metadata shows a change and the logs of new partitions were created
// or failed. A timeout is no error of the change itself, which is made and will become visible.
func (b *Handler) waitApplied(ctx context.Context, revision int64, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := b.opt.Metadata.WaitFor(ctx, revision)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: the change is made, but this broker has not applied it yet", errTimedOut)
	}
	return err
}
