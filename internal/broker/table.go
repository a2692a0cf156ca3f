package broker

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// apiDef is an entry of the table of APIs whose requests are decoded to an R. It contains
// everything that differs between APIs before a handler is called; serve contains what they have in
// common.
type apiDef[R any] struct {
	// API is the key with its versions, and the memory bound of a decoded request.
	protocol.API
	// decode reads the body, and returns about how many bytes the request takes in addition to it.
	// Default: kmsg's. errHandedOver: it called Request.HandOver and did nothing else, or has
	// passed the request to another broker.
	decode func(*Handler, *network.Request) (req R, cost int, err error)
	// fresh returns a new request as kmsg decodes it. Default: one of type R.
	fresh func() kmsg.Request
	// asks are the rights that the request needs.
	asks asks[R]
	// refuse returns the answer to a request that is refused as a whole. Default: refuseWhole.
	refuse func(*network.Request, R, *kerr.Error) kmsg.Response
	// overloaded is the retriable error for when the memory of waiting requests is used up. nil:
	// the request is answered before handle returns, or the handler counts its memory itself.
	overloaded *kerr.Error
	// copyBody replaces slices of the body by copies that may outlive the request, such as a
	// member's metadata; then the request's memory is released. nil: the request keeps its body. It
	// requires overloaded.
	copyBody func(R)
	// inProportion: the size of the answer is proportional to the request. If not, the request
	// waits for the memory of the largest answer there can be (see answers.go) before it is
	// handled, or for answerBytes.
	inProportion bool
	// answerBytes returns about how many bytes the answer has beyond those that are proportional to
	// the request. nil: none if it is inProportion, otherwise as many as any answer.
	answerBytes func(*Handler, R) int64
	// route says which broker serves a request, where all have one address. Default: each does.
	route route[R]
	// enabled reports whether the levels of the cluster's features permit the API; otherwise a
	// request gets UNSUPPORTED_VERSION, whatever its client may do. nil: they always do.
	enabled func(*metadata.Image) bool
	// changes returns what an answer says was changed in groups, for the audit log. The metadata
	// store records its changes itself. nil: nothing.
	changes func(*Handler, R, kmsg.Response) []changedGroup
	// handle answers, now or later, with call.respond. It must not block, except on a connection's
	// own reader (Request.MayBlock). Its constructors are in waits.go.
	handle handler[R]
}

// errHandedOver ends serve: the request is handled again on its connection's reader, or was passed
// to another broker.
var errHandedOver = errors.New("handed over")

// api is an apiDef without its type parameter.
type api struct {
	protocol.API
	fresh      func() kmsg.Request // as in apiDef
	handle     func(*Handler, *network.Request)
	declared   bool                                            // it declares the rights that its requests need
	audited    bool                                            // it declares what its answers change in groups
	overloaded *kerr.Error                                     // as in apiDef
	route      string                                          // as in apiDef
	lost       func(b *Handler, r *network.Request, sent bool) // answers a request that was passed on in vain

	inProportion bool // as in apiDef
}

func (l apiDef[R]) api() api {
	if l.decode == nil {
		l.decode = decode[R]
	}
	if l.refuse == nil {
		l.refuse = func(_ *network.Request, req R, code *kerr.Error) kmsg.Response {
			return refuseWhole(any(req).(kmsg.Request), code)
		}
	}
	if l.fresh == nil {
		request := reflect.TypeFor[R]().Elem()
		l.fresh = func() kmsg.Request { return reflect.New(request).Interface().(kmsg.Request) }
	}
	return api{API: l.API, fresh: l.fresh, handle: l.serve, declared: l.asks.declared(), audited: l.changes != nil,
		overloaded: l.overloaded, inProportion: l.inProportion, route: l.route.by, lost: l.lost}
}

// serve decodes a request, checks its rights and memory, and calls its handler.
func (l *apiDef[R]) serve(b *Handler, r *network.Request) {
	c := call{b: b, r: r}
	sized := l.inProportion || l.answerBytes != nil && len(r.Body) <= largeBody
	forwards := b.forwards(r)
	how := l.building(forwards)
	// Another broker may have to build the answer: meanwhile this one reserves nothing.
	first := !sized && (!forwards || l.route.to == nil)
	if first && !b.reserveAnswer(r, b.mostAnswer(), how) {
		c.ended()
		return
	}
	if l.Key != protocol.KeyProduce && len(r.Body) > largeBody { // Produce takes places for what it decompresses
		if !c.takePlace() {
			return
		}
	}
	req, cost, err := l.decode(b, r)
	if errors.Is(err, errHandedOver) {
		return
	}
	long := tooLong(err)
	if err != nil && long == nil {
		c.place.end()
		r.Abort(err)
		return
	}
	if c.quota = b.tenant(r); c.quota != nil {
		if end := timed(c.quota); end != nil {
			defer end()
		}
	}
	if long != nil {
		l.refused(c, req, long.Code)
		return
	}
	if forwards && l.forwarded(&c, req) {
		return
	}
	if !first && !sized {
		c.place.mayWait() // others have the memory, and wait for a place
		if !b.reserveAnswer(r, b.mostAnswer(), how) {
			c.ended()
			return
		}
	}
	if l.enabled != nil && !l.enabled(b.image()) {
		l.refused(c, req, kerr.UnsupportedVersion)
		return
	}
	if m := b.rights(r); !m.everything() && !l.asks.inside {
		add, goes := l.authorize(c, m, req)
		if !goes {
			return
		}
		c.add = add
	}
	c.changed = recordChanges(c, req, l.changes)
	if l.overloaded != nil {
		n := int64(cost)
		if l.copyBody != nil {
			n += int64(len(r.Body))
		}
		if c.charge = c.take(n, l.copyBody == nil); c.charge == nil {
			l.refused(c, req, l.overloaded)
			return
		}
	}
	if l.copyBody != nil {
		c.charge.releaseOnClose(r)
		l.copyBody(req)
		r.ReleaseBody()
	}
	if sized && l.answerBytes != nil {
		n := l.answerBytes(b, req)
		if !b.reserveAnswer(r, n, how) {
			c.ended()
			return
		}
		if c.place == nil && n > largeAnswer && !l.handle.elsewhere && !c.takePlace() {
			return
		}
	}
	if w := l.handle.waits; w != nil {
		r.WaitsAt(w(b, req))
	}
	l.handle.run(c, req)
	if l.handle.elsewhere {
		c.place.mayWait()
	}
	if bufpool.Invariants && !r.SaysWhere() {
		panic(fmt.Sprintf("broker: the handler of %s left a request unanswered and said nowhere what it waits for", kmsg.NameForKey(l.Key)))
	}
	if l.copyBody != nil {
		c.place.end() // from here on it may wait for other members
	}
}

// building returns what a request may wait for while it has the memory of its answer. forwards: it
// may be passed to other brokers.
func (l *apiDef[R]) building(forwards bool) network.Building {
	switch {
	case forwards && l.route.join != nil:
		return network.Gathering
	case l.handle.waits != nil:
		return network.Waiting
	}
	return network.AtOnce
}

// forwarded handles a request to a listener with one address for all brokers. It returns true if
// the request is answered, aborted, or passed on; otherwise this broker serves it.
func (l *apiDef[R]) forwarded(c *call, req R) (done bool) {
	if l.route.by == byNone {
		c.r.Abort(errors.New("a listener with one address for all brokers does not offer this API"))
		return true
	}
	if l.route.to != nil && l.passes(*c, req) {
		return true
	}
	if l.route.join != nil {
		var goes bool
		if c.add, goes = l.joined(*c, req); !goes {
			return true
		}
	}
	return false
}

// takePlace waits for a place. It returns false if the client is gone, and the request was aborted.
func (c *call) takePlace() (there bool) {
	if c.place, there = c.b.takePlace(c.r); !there {
		c.ended()
	}
	return there
}

// ended aborts a request whose client is gone.
func (c *call) ended() {
	c.charge.release()
	c.place.end()
	c.r.Abort(errEnded)
}

// tooLong returns the error of a request with a name that is too long, nil for others.
func tooLong(err error) *protocol.NameError {
	if err == nil {
		return nil
	}
	var long *protocol.NameError
	errors.As(err, &long)
	return long
}

// refused answers a request that is refused as a whole.
func (l *apiDef[R]) refused(c call, req R, code *kerr.Error) {
	c.r.Code = code.Code
	c.respond(l.refuse(c.r, req, code))
}

// decode reads a request with kmsg.
func decode[R any](b *Handler, r *network.Request) (req R, cost int, err error) {
	decoded, cost, err := b.table.DecodeCost(r.Key, r.Version, r.Body)
	req, _ = decoded.(R) // with an error it may be nil
	return req, cost, err
}

// call is a request that must be answered exactly once, on any goroutine: with respond, or with the
// methods of Request (Produce and Fetch, which have no charge).
type call struct {
	b      *Handler
	r      *network.Request
	quota  *quota.Tenant // of the client; nil: it has none
	charge *charge       // nil if nothing is charged
	place  *place        // nil if none is needed
	// add adds the answers of the parts that were refused; nil if there are none.
	add func(kmsg.Response)
	// changed records what an answer has changed; nil: nothing that is recorded here.
	changed func(kmsg.Response)
}

// respond answers.
func (c call) respond(resp kmsg.Response) {
	if c.changed != nil {
		c.changed(resp)
	}
	if c.add != nil {
		c.add(resp)
	}
	if delay := c.quota.Wait(limitOf(kmsg.Key(c.r.Key))); delay > 0 {
		c.r.Throttle(delay)
		if throttled, ok := resp.(kmsg.SetThrottleResponse); ok {
			throttled.SetThrottle(throttleMillis(delay))
		}
	}
	c.charge.release()
	c.r.Respond(resp)
	c.place.end()
}

// throttleMillis converts a delay for an answer. A delay is never shown as none.
func throttleMillis(d time.Duration) int32 {
	return int32((d + time.Millisecond - 1).Milliseconds())
}

// charge is the memory that one waiting request has taken from Handler.parked or Handler.wide.
// nil holds nothing.
type charge struct {
	budget *bufpool.Budget
	n      atomic.Int64
	stop   func() bool // of Request.OnClose
}

// take charges n bytes to Handler.parked, at most half of the free ones: most requests end soon,
// and the request of a group's leader may be large. A large request that is answered soon may take
// them from Handler.wide instead. take returns nil if the request must be refused.
func (c *call) take(n int64, soon bool) *charge {
	budget := c.b.parked
	if !budget.TryShare(n, 2) {
		if budget = c.b.wide; !soon || n <= c.b.opt.ParkedBytes/wideShare || !c.acquireWide(n) {
			return nil
		}
	}
	h := &charge{budget: budget}
	h.n.Store(n)
	return h
}

const (
	// wideShare: a request that needs more than 1/wideShare of Options.ParkedBytes is wide. On a
	// broker with little memory that may be more than is ever free.
	wideShare = 8
	// wideMost bounds a wide request, as a multiple of Options.ParkedBytes.
	wideMost = 4
)

// acquireWide takes n bytes from Handler.wide and reports whether it did. A request larger than the
// whole budget is admitted if it is alone. acquireWide does not wait: a waiting request would hold
// its decoded form, which no budget counts.
func (c *call) acquireWide(n int64) bool {
	return c.r.MayBlock() && n <= wideMost*c.b.opt.ParkedBytes && c.b.wide.TryAcquire(n)
}

// releaseOnClose also releases the charge when the client is gone: a group keeps its members for a
// while, and counts their memory itself.
func (h *charge) releaseOnClose(r *network.Request) { h.stop = r.OnClose(h.releaseBytes) }

// release releases the charge.
func (h *charge) release() {
	if h == nil {
		return
	}
	if h.stop != nil {
		h.stop()
	}
	h.releaseBytes()
}

func (h *charge) releaseBytes() { h.budget.Release(h.n.Swap(0)) }

// entries are the APIs by key.
type entries []*api

func newEntries() entries {
	var list entries
	for _, a := range apis() {
		for len(list) <= int(a.Key) {
			list = append(list, nil)
		}
		list[a.Key] = &a
	}
	return list
}

// Table returns the versions of the APIs that have a handler. The arrays of a decoded request may
// take as many bytes as its API allows, but at most most; 0 is no bound.
func Table(most int64) (*protocol.Table, error) {
	var lines []protocol.API
	byKey := newEntries()
	for _, a := range apis() {
		if most > 0 {
			a.MaxCost = int(min(int64(cmp.Or(a.MaxCost, protocol.MaxCost)), most))
		}
		lines = append(lines, a.API)
	}
	return protocol.NewTable(func(key int16) kmsg.Request { return byKey[key].fresh() }, lines...)
}

// Handle is network.Handler.
func (b *Handler) Handle(r *network.Request) {
	if r.Key < 0 || int(r.Key) >= len(b.entries) || b.entries[r.Key] == nil {
		r.Abort(fmt.Errorf("API %d has no handler", r.Key))
		return
	}
	if r.Key != protocol.KeyApiVersions && b.forwards(r) && !b.opt.Lease() {
		r.Reset(errNoLease)
		return
	}
	b.entries[r.Key].handle(b, r)
}
