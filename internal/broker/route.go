package broker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/replica"
)

// route says which broker serves the requests of an API that came to a listener with one address
// for all brokers (docs/forwarding.md). Without one, each broker serves them.
type route[R any] struct {
	// by names the brokers for people.
	by string
	// to returns the broker that serves a request, -1 if none is known: then it is answered here,
	// as at any broker that does not serve it.
	to func(b *Handler, img *metadata.Image, req R) int32
	// join adds what another broker has answered: a request of this API asks one broker for what it
	// has, and does not say which. So all are asked. It returns the other's error.
	join func(to, other kmsg.Response) int16
}

// The brokers of routes.
const (
	byLeader      = "the leader of its first partition"
	byGroup       = "the coordinator of its first group"
	byTransaction = "the coordinator of its first transactional id"
	byShare       = "the coordinator of its first share partition"
	byBroker      = "the broker that it names"
	byAll         = "every broker; the answer has what all have"
	byNone        = "none: such a listener does not offer it"
)

// partitionsIn are the partitions that a request names, in its order.
type partitionsIn[R any] func(R) iter.Seq2[topicRef, int32]

// toLeader is the route of requests about partitions.
func toLeader[R any](of partitionsIn[R]) route[R] {
	return route[R]{by: byLeader, to: func(_ *Handler, img *metadata.Image, req R) int32 {
		for topic, index := range of(req) {
			if leader := leaderOf(topic.in(img), index); leader >= 0 {
				return leader
			}
		}
		return -1
	}}
}

func (r topicRef) in(img *metadata.Image) *metadata.Topic {
	if r.id != [16]byte{} {
		return img.TopicByID(r.id)
	}
	return img.Topic(r.name)
}

// leaderOf returns -1 if a partition has no leader, or is none.
func leaderOf(t *metadata.Topic, index int32) int32 {
	if t == nil || index < 0 || index >= t.Partitions.Len() {
		return -1
	}
	return t.Partitions.At(index).Leader
}

// toCoordinator returns the leader of the partition of an internal topic that has the first of some
// keys.
func toCoordinator(of *service.Service, img *metadata.Image, keys []string) int32 {
	for _, key := range keys {
		if index, ok := of.Partition(key); ok {
			return leaderOf(img.Topic(of.Topic()), index)
		}
	}
	return -1
}

// toGroups is the route of requests about groups.
func toGroups[R any](of func(R) []string) route[R] {
	return route[R]{by: byGroup, to: func(b *Handler, img *metadata.Image, req R) int32 {
		return toCoordinator(b.opt.Groups.Service, img, of(req))
	}}
}

func toGroup[R any](of func(R) string) route[R] {
	return toGroups(func(req R) []string { return []string{of(req)} })
}

// toTransactions is the route of requests about transactional ids.
func toTransactions[R any](of func(R) []string) route[R] {
	return route[R]{by: byTransaction, to: func(b *Handler, img *metadata.Image, req R) int32 {
		return toCoordinator(b.opt.Transactions, img, of(req))
	}}
}

func toTransaction[R any](of func(R) string) route[R] {
	return toTransactions(func(req R) []string { return []string{of(req)} })
}

// toShares is the route of requests about the states of share partitions.
func toShares[R any](of func(R) []format.Key) route[R] {
	return route[R]{by: byShare, to: func(b *Handler, img *metadata.Image, req R) int32 {
		return toCoordinator(b.opt.Shares.Service, img, coordinatorKeys(of(req)))
	}}
}

// toBroker is the route of requests about configs, of which those of kinds belong to the broker
// that is their name.
func toBroker[R any](of func(R) []resource, kinds ...kmsg.ConfigResourceType) route[R] {
	return route[R]{by: byBroker, to: func(_ *Handler, _ *metadata.Image, req R) int32 {
		for _, res := range of(req) {
			if id, err := strconv.ParseInt(res.name, 10, 32); err == nil && slices.Contains(kinds, res.kind) {
				return int32(id)
			}
		}
		return -1
	}}
}

// forwards reports whether a request may have to be passed to another broker.
func (b *Handler) forwards(r *network.Request) bool {
	return b.forward != nil && r.Listener.Forward && !r.Session.Via
}

// errNoLease ends connections of clients whose only address leads to a broker that may not know who
// leads what. They connect again, and get to another one. Their first request, ApiVersions, is
// answered: without its answer they take the port for one with TLS.
var errNoLease = errors.New("this broker has lost contact with the controller, and another one knows where to pass requests")

// elsewhere reports whether a broker is another one that serves clients.
func (b *Handler) elsewhere(img *metadata.Image, broker int32) bool {
	return broker >= 0 && broker != b.opt.Self && !isFenced(img, broker)
}

// passes passes a request to the broker that serves it, and reports whether it did. Then the
// request must not be touched any more.
func (l *apiDef[R]) passes(c call, req R) bool {
	return c.b.pass(c.r, false, func(img *metadata.Image) int32 { return l.route.to(c.b, img, req) }, c.place)
}

const (
	// routePatience is how long a request waits for a broker that cannot be reached, or for another
	// one in its place: an election takes less. A refusal costs a client one of its retries, of
	// which some have three.
	routePatience = 5 * time.Second
	// routeLook is how often it is tried again.
	routeLook = 50 * time.Millisecond
)

// pass passes a request to the broker of a route, and reports whether it did. silent: the request
// has no answer. A request that was not sent waits, on its connection's reader.
func (b *Handler) pass(r *network.Request, silent bool, to func(*metadata.Image) int32, at *place) bool {
	for {
		img := b.image()
		broker := to(img)
		if !b.elsewhere(img, broker) {
			r.WaitsAt(nil, "")
			return false
		}
		err := b.forward.Pass(r, broker, silent)
		switch {
		case err == nil:
			at.end()
			return true
		case time.Since(r.Received) > routePatience || b.ctx.Err() != nil:
			at.end()
			b.forward.Refuse(r, broker)
			return true
		}
		at.mayWait()
		b.forward.Waits(r, broker)
		pause.Wait(b.ctx.Done(), routeLook)
	}
}

// joinTime bounds how long all brokers are asked.
const joinTime = 10 * time.Second

// joined asks all other brokers. It returns what adds their answers to this broker's, and false if
// the request was answered or is handled again.
func (l *apiDef[R]) joined(c call, req R) (add func(kmsg.Response), goes bool) {
	b, r := c.b, c.r
	if !r.MayBlock() {
		r.HandOver()
		return nil, false
	}
	var others []int32
	img := b.image()
	for _, x := range img.Brokers() {
		if b.elsewhere(img, x.ID) {
			others = append(others, x.ID)
		}
	}
	ctx, cancel := context.WithTimeout(c.place.context(r.Client()), joinTime)
	defer cancel()
	bodies, err := b.forward.Ask(ctx, r, others)
	answers := make([]kmsg.Response, len(bodies))
	for i, body := range bodies {
		answers[i] = respondTo(r, any(req).(kmsg.Request).ResponseKind())
		if answers[i].IsFlexible() && len(body) > 0 {
			body = body[1:] // the tags of the header
		}
		if e := answers[i].ReadFrom(body); e != nil {
			err = e
		}
	}
	if err != nil {
		l.refused(c, req, l.overloaded)
		return nil, false
	}
	return func(resp kmsg.Response) {
		for _, other := range answers {
			if code := l.route.join(resp, other); code != 0 {
				r.Code = code
			}
		}
	}, true
}

var errLost = errors.New("the broker to which a request was passed cannot be reached")

// lost answers a request that was passed to another broker and has no answer. A client repeats it,
// as if the connection had ended. sent: the other broker may have handled it.
func (l *apiDef[R]) lost(b *Handler, r *network.Request, _ bool) {
	code := l.overloaded
	if l.route.by == byLeader {
		code = kerr.NotLeaderForPartition
	}
	if code == nil || r.Body == nil {
		r.Reset(errLost)
		return
	}
	req, _, err := l.decode(b, r)
	if err != nil {
		r.Abort(err)
		return
	}
	r.Code = code.Code
	r.Respond(l.refuse(r, req, code))
}

// errRepeat ends a connection whose client repeats a Produce request.
var errRepeat = errors.New("records are to be sent again, and none that were sent after them may come before them")

// lostProduce is lost for Produce. Its connection ends, for a client that has sent further records
// meanwhile must send them again behind these: to a leader that has not seen the producer yet, any
// sequence number is the first one. Clients must take records that were sent for possibly written.
func lostProduce(_ *Handler, r *network.Request, _ bool) {
	r.Abort(fmt.Errorf("%w: %w", errLost, errRepeat))
}

// refuseProduce refuses all partitions of a Produce request. One that has no answer is reset.
func refuseProduce(r *network.Request, code *kerr.Error, why error) {
	var view protocol.ProduceView
	if err := view.Parse(r.Version, r.Body); r.Unsupported || err != nil || view.Acks == int16(replica.AcksNone) {
		r.Reset(why)
		return
	}
	r.Code = code.Code
	w := protocol.NewProduceWriter(nil, view.Version, len(view.Topics))
	for _, t := range view.Topics {
		w.Topic(t.Name, t.ID, len(t.Partitions))
		for _, p := range t.Partitions {
			w.Partition(&protocol.ProducePartitionResult{Index: p.Index, Code: r.Code, BaseOffset: -1, AppendTime: -1, LogStart: -1})
		}
	}
	r.RespondRaw([][]byte{w.End(0, nil)}, nil)
}

// passProduce passes a Produce request to the leader of its first partition, or refuses one that
// would not keep its order, and reports whether it did.
func (b *Handler) passProduce(r *network.Request, view *protocol.ProduceView) bool {
	leader := func(img *metadata.Image) int32 {
		for i := range view.Topics {
			t := &view.Topics[i]
			topic := img.TopicByID(t.ID)
			if view.Version < 13 {
				topic = img.Topic(string(t.Name))
			}
			if len(t.Partitions) > 0 {
				return leaderOf(topic, t.Partitions[0].Index)
			}
		}
		return -1
	}
	if b.pass(r, view.Acks == int16(replica.AcksNone), leader, nil) {
		return true
	}
	if b.forward.Elsewhere(r) {
		r.Abort(fmt.Errorf("%w: earlier ones are at another broker", errRepeat))
		return true
	}
	return false
}
