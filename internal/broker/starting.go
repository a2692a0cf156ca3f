package broker

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/view"
)

// startPatience bounds how long a request waits for the start of its broker. Clients wait at least
// 10 s for an answer.
const startPatience = 8 * time.Second

var errStarting = errors.New("the broker is starting and serves no clients yet")

// Starting is the handler of a member of a cluster, whose listener is open for the other members
// before it can serve clients.
//
// It does not end connections as long as it can avoid that. Clients take a connection that ends
// before its first answer for one to a port with TLS or SASL: they report that to their users, and
// franz-go fails all records that wait for metadata. ApiVersions is answered at once with the
// features that this broker's metadata had last, as by any broker that lags behind. A node without
// metadata answers when it has some: a client that receives no features begins its transactions
// with the protocol before KIP-890, whatever the cluster has.
//
// A Produce fails with NOT_LEADER_OR_FOLLOWER, at which a producer asks for the new leader;
// Metadata waits until this broker knows the present state of the cluster, and everything else
// until it has started. What has waited for startPatience is reset: clients retry that elsewhere.
// So is a Fetch at once, for its consumer continues at the new leader.
type Starting struct {
	table  *protocol.Table
	self   int32
	known  func() *metadata.Image
	phase  func() string
	shows  stage // describes the cluster
	serves stage // serves everything
}

// stage is a part of the start. Requests wait until it has a broker.
type stage struct {
	broker  atomic.Pointer[Handler]
	reached chan struct{} // closed after broker is set
}

// reach sets the broker, also in place of another one.
func (s *stage) reach(b *Handler) {
	if s.broker.Swap(b) == nil {
		close(s.reached)
	}
}

// NewStarting returns a handler of the broker self that knows the table of APIs. known returns an
// image with at least the cluster's record as this node has it, nil before it has one, and phase
// what the start waits for. Neither may block.
func NewStarting(table *protocol.Table, self int32, known func() *metadata.Image, phase func() string) *Starting {
	return &Starting{table: table, self: self, known: known, phase: phase,
		shows: stage{reached: make(chan struct{})}, serves: stage{reached: make(chan struct{})}}
}

// Show lets b answer requests that only describe the cluster. b needs no replicas and no groups.
// Its metadata must not be older than the start of this broker.
func (s *Starting) Show(b *Handler) { s.shows.reach(b) }

// Serve lets b answer all requests, also those that wait, and forgets the broker of Show. It must
// not be called at the same time as Show, and at most once.
func (s *Starting) Serve(b *Handler) {
	s.serves.reach(b)
	s.shows.reach(b)
}

// Handle implements network.Handler.
func (s *Starting) Handle(r *network.Request) {
	if b := s.serves.broker.Load(); b != nil {
		b.Handle(r)
		return
	}
	switch r.Key {
	case protocol.KeyApiVersions:
		s.apiVersions(r)
	case protocol.KeyProduce:
		refuseProduce(r, kerr.NotLeaderForPartition, errStarting)
	case int16(kmsg.Fetch):
		r.Reset(errStarting)
	case int16(kmsg.Metadata), int16(kmsg.DescribeCluster):
		end := time.Now().Add(startPatience)
		b, ok := s.shows.await(r, end)
		if ok && b != nil && !b.knows(r) {
			b, ok = s.serves.await(r, end)
		}
		answerOr(r, b, ok)
	default:
		b, ok := s.serves.await(r, time.Now().Add(startPatience))
		answerOr(r, b, ok)
	}
}

// answerOr passes a request that has waited to b. ok is false if the request waits elsewhere; b is
// nil if it has waited too long.
func answerOr(r *network.Request, b *Handler, ok bool) {
	switch {
	case !ok:
	case b == nil:
		r.Reset(errStarting)
	default:
		b.Handle(r)
	}
}

// await waits until the stage is reached. It returns nil at end, and when the client has gone. ok
// is false if the caller must not touch the request any more: it is handled again where it may
// wait. The requests of its connection that follow also wait.
func (s *stage) await(r *network.Request, end time.Time) (b *Handler, ok bool) {
	if b := s.broker.Load(); b != nil {
		return b, true
	}
	if !r.MayBlock() {
		r.HandOver()
		return nil, false
	}
	gone := make(chan struct{})
	stop := r.OnClose(func() { close(gone) })
	defer stop()
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-s.reached:
	case <-timer.C:
	case <-gone:
	}
	return s.broker.Load(), true
}

// knows reports whether a broker that only describes the cluster can answer a request: not if no
// broker is usable, and not if a topic may have to be created.
func (b *Handler) knows(r *network.Request) bool {
	img := b.image()
	if len(b.nodes(r, img)) == 0 {
		return false
	}
	if r.Key != int16(kmsg.Metadata) || r.Unsupported {
		return true
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = r.Version
	if err := req.ReadFrom(r.Body); err != nil {
		return true // Handle reports it
	}
	for i := range req.Topics {
		if name := req.Topics[i].Topic; name != nil && img.Topic(*name) == nil {
			return false
		}
	}
	return true
}

// apiVersions waits for features only if the answer carries them. It is never refused for their
// absence: a client whose first answer is the end of the connection gives more up than a feature.
func (s *Starting) apiVersions(r *network.Request) {
	q := kmsg.NewPtrApiVersionsRequest()
	q.Version = r.Version
	if !r.Unsupported {
		if err := q.ReadFrom(r.Body); err != nil {
			r.Abort(err)
			return
		}
	}
	img := s.known()
	asks := false
	q.UnknownTags.Each(func(tag uint32, _ []byte) { asks = asks || tag == view.PhaseTag })
	if asks {
		resp := listVersions(s.table, img, s.self, r, q)
		if a, ok := resp.(*kmsg.ApiVersionsResponse); ok {
			a.UnknownTags.Set(view.PhaseTag, []byte(s.phase()))
		}
		r.Respond(resp)
		return
	}
	if img == nil && !r.Unsupported && r.Version >= 3 {
		if _, ok := s.shows.await(r, time.Now().Add(startPatience)); !ok {
			return
		}
		img = s.known()
	}
	r.Respond(listVersions(s.table, img, s.self, r, q))
}
