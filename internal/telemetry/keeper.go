package telemetry

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// Errors of requests.
var (
	// ErrTooEarly: the client asks or pushes before its interval is over.
	ErrTooEarly = errors.New("before the end of the push interval")
	// ErrSubscription: the client's subscription has another id.
	ErrSubscription = errors.New("the subscription has changed")
	// ErrCodec: the client compresses with an unknown codec.
	ErrCodec = errors.New("unknown compression of metrics")
	// ErrEnded: the client has said that its last push was its last.
	ErrEnded = errors.New("the client instance has ended")
)

// Client is who asks or pushes.
type Client struct {
	Instance          [16]byte
	ID                string // client.id
	Software, Version string
	Address           netip.AddrPort
	User              string
}

// pusher is who shares the bounds.
type pusher struct {
	user string
	from netip.Prefix // origin.Of its address
}

func (c *Client) pusher() pusher { return pusher{c.User, origin.Of(c.Address.Addr())} }

// selects reports whether a subscription selects a client.
func (c *Client) selects(s *configdef.Subscription) bool {
	for _, m := range s.Match {
		if !m.Matches(c.fact(m.Fact)) {
			return false
		}
	}
	return true
}

// fact returns what a selector compares.
func (c *Client) fact(f configdef.ClientFact) string {
	switch f {
	case configdef.ClientInstanceID:
		return formatInstance(c.Instance)
	case configdef.ClientID:
		return c.ID
	case configdef.ClientSoftwareName:
		return c.Software
	case configdef.ClientSoftwareVersion:
		return c.Version
	case configdef.ClientSourceAddress:
		return c.Address.Addr().String()
	case configdef.ClientSourcePort:
		return strconv.Itoa(int(c.Address.Port()))
	}
	return ""
}

// formatInstance returns an instance id as Kafka's tools write it.
func formatInstance(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// Subscription is what a client is asked to push.
type Subscription struct {
	ID       int32
	Metrics  []string // names or prefixes, sorted; "*" for all; none: nothing
	Interval time.Duration
}

// wants reports whether a metric belongs to the subscription: as in Kafka, an entry selects the
// metrics whose names begin with it.
func (s *Subscription) wants(name string) bool {
	return slices.ContainsFunc(s.Metrics, func(m string) bool { return m == configdef.AllMetrics || strings.HasPrefix(name, m) })
}

// Keeper keeps the subscriptions and what clients pushed. Its methods may be called concurrently.
type Keeper struct {
	now func() time.Time

	mu       sync.Mutex
	subs     []configdef.Subscription // never modified, only replaced
	clients  map[[16]byte]*client
	byExpiry expiries // the same clients
	pushers  map[pusher]*amounts
	held     amounts
	omitted  int64
}

// client is a client instance that a subscription selects. Guarded by Keeper.mu.
type client struct {
	of       Client
	name     string // its client.id, as far as it is shown
	at       int    // in Keeper.byExpiry
	expires  time.Time
	asked    time.Time // zero: never
	pushed   time.Time
	told     int32 // the id of the subscription that it was last told, or pushed for
	again    bool  // it may ask at once, because its last push was refused with what it has to learn
	ended    bool
	pushes   int                           // that were stored
	refusals int                           // of room for series of the last push; see room
	series   map[view.ClientSeries]*stored // by all but Value
	held     amounts
	share    *amounts // of its pusher
}

// stored is the value of a series.
type stored struct {
	value float64 // of deltas the sum
	delta bool
	push  int // the last push that had it, by client.pushes
}

// New returns a Keeper without subscriptions. now is the clock.
func New(now func() time.Time) *Keeper {
	return &Keeper{now: now, clients: map[[16]byte]*client{}, pushers: map[pusher]*amounts{}}
}

// Follow takes the subscriptions of new metadata. It is a metadata.Subscriber. What they no longer
// select stays until the client asks or pushes again, or expires. A subscription that can't be
// resolved, which another version has permitted, asks no client.
func (k *Keeper) Follow(r *configdef.Registry, log *zap.Logger) metadata.Subscriber {
	return func(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
		if !d.Subscriptions {
			return nil
		}
		var subs []configdef.Subscription
		for name := range next.Subscriptions() {
			set, _ := next.Subscription(name)
			s, err := r.ResolveSubscription(set)
			if err != nil {
				log.Warn("an invalid subscription to metrics of clients is ignored; set or delete it", zap.String("subscription", name),
					zap.Error(err))
				continue
			}
			subs = append(subs, s)
		}
		k.subscribe(subs)
		return nil
	}
}

func (k *Keeper) subscribe(subs []configdef.Subscription) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.subs = subs
}

// Ask returns the subscription of a client, and its instance id, which is new if it has none. The
// error is ErrTooEarly. As in Kafka, a client may ask at once if its subscription has changed.
func (k *Keeper) Ask(c Client) (instance [16]byte, s Subscription, err error) {
	if c.Instance == ([16]byte{}) {
		c.Instance = newInstance()
	}
	s = k.subscription(&c)
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	e := k.entry(&c, &s, now)
	if e == nil {
		return c.Instance, s, nil
	}
	last := slices.MaxFunc([]time.Time{e.asked, e.pushed}, time.Time.Compare)
	if !last.IsZero() && now.Sub(last) < s.Interval && e.told == s.ID && !e.again {
		return c.Instance, s, ErrTooEarly
	}
	e.asked = now
	k.renew(e, &s, now)
	return c.Instance, s, nil
}

// Push stores the metrics of a client: read returns them after all that may refuse the push without
// them was checked. last: the client ends. The error is ErrTooEarly, ErrEnded, ErrSubscription,
// ErrMalformed, or that of read; after ErrCodec the client may ask at once. A push that is
// malformed from some point on is stored up to there.
func (k *Keeper) Push(c Client, subscription int32, last bool, read func() ([]byte, error)) error {
	e, s, err := k.admit(&c, subscription, last)
	if err != nil {
		return err
	}
	data, err := read()
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.clients[c.Instance] == e {
			e.again = errors.Is(err, ErrCodec)
		}
		return err
	}
	// It is decoded before the lock is taken, which small requests of others wait for.
	var points []point
	beyond := int64(0)
	malformed := decode(data, s.wants, func(p *point) {
		if len(points) < perPush {
			points = append(points, *p)
		} else {
			beyond++
		}
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.omitted += beyond
	// Otherwise another client took its room or its instance id meanwhile, or it has another
	// subscription.
	if k.clients[c.Instance] == e && e.told == s.ID {
		k.storeAll(e, points)
	}
	return malformed
}

// admit checks whether a push is due, and returns the entry of its client. Once mu is released,
// k.clients may have another entry for the instance id.
func (k *Keeper) admit(c *Client, subscription int32, last bool) (e *client, s Subscription, err error) {
	s = k.subscription(c)
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if e = k.entry(c, &s, now); e == nil {
		return nil, s, ErrSubscription
	}
	due := e.pushed.IsZero() || e.asked.After(e.pushed) || now.Sub(e.pushed) >= s.Interval || e.told != s.ID
	switch {
	case e.ended:
		return nil, s, ErrEnded
	case !due && !last:
		return nil, s, ErrTooEarly
	case subscription != s.ID:
		e.again = true
		return nil, s, ErrSubscription
	}
	e.pushed, e.ended = now, last
	k.renew(e, &s, now)
	return e, s, nil
}

// subscription returns what a client is asked for. The selectors may be many and long, so they are
// compared without the lock.
func (k *Keeper) subscription(c *Client) Subscription {
	k.mu.Lock()
	subs := k.subs
	k.mu.Unlock()
	metrics := map[string]bool{}
	s := Subscription{Interval: time.Duration(math.MaxInt64)}
	for i := range subs {
		sub := &subs[i]
		if !c.selects(sub) {
			continue
		}
		for _, m := range sub.Metrics {
			metrics[m] = true
		}
		s.Interval = min(s.Interval, sub.Interval)
	}
	if s.Metrics = slices.Sorted(maps.Keys(metrics)); metrics[configdef.AllMetrics] {
		s.Metrics = []string{configdef.AllMetrics}
	}
	if s.Interval == math.MaxInt64 {
		s.Interval = configdef.DefaultPushInterval
	}
	sum := crc32.NewIEEE()
	_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, uint64(s.Interval))) // a hash returns no error
	for _, m := range s.Metrics {
		_, _ = sum.Write(append([]byte(m), 0))
	}
	s.ID = int32(sum.Sum32())
	return s
}

// entry returns the entry of a client, a new one if there is none. It is nil if no subscription
// selects the client, of which then nothing stays. Caller holds mu.
func (k *Keeper) entry(c *Client, s *Subscription, now time.Time) *client {
	k.expire(now)
	e := k.clients[c.Instance]
	own, selected := e != nil && e.of.pusher() == c.pusher(), len(s.Metrics) > 0
	if own && selected {
		return e
	}
	if e != nil && (own || selected) { // a client that learns an instance id must not push in another's name
		k.drop(e)
	}
	if !selected {
		return nil
	}
	return k.add(c)
}

// renew notes that a client knows its subscription, and lets it live for three intervals from now.
// What a former subscription selected goes. Caller holds mu.
func (k *Keeper) renew(e *client, s *Subscription, now time.Time) {
	if e.told != s.ID {
		for key := range e.series {
			if !s.wants(key.Metric) {
				k.remove(e, key)
			}
		}
	}
	e.told, e.again = s.ID, false
	e.expires = now.Add(3 * s.Interval)
	heap.Fix(&k.byExpiry, e.at)
}

// storeAll stores the values of a push. Series that the last pushes did not have go first, so that
// the new ones find their room. Caller holds mu.
func (k *Keeper) storeAll(e *client, points []point) {
	e.pushes++
	e.refusals = 0
	for i := range points {
		if l := e.series[points[i].rest]; l != nil {
			l.push = e.pushes
		}
	}
	k.sweep(e, false)
	for i := range points {
		k.store(e, &points[i])
	}
}

// store stores one value. A gauge that is no number has no value now, as Java's clients push it for
// an average of nothing. Caller holds mu.
func (k *Keeper) store(e *client, p *point) {
	if !p.delta && !p.total && math.IsNaN(p.value) {
		k.remove(e, p.rest)
		return
	}
	if p.delta && (math.IsNaN(p.value) || math.IsInf(p.value, 0) || p.total && p.value < 0) {
		k.omitted++ // the sum would be of no use from then on
		return
	}
	l := e.series[p.rest]
	switch {
	case l != nil:
	case k.room(e, p.rest):
		l = &stored{push: e.pushes}
		e.series[p.rest] = l
	default:
		k.omitted++
		return
	}
	if p.delta {
		p.value += l.value
	}
	l.value, l.delta = p.value, p.delta
}

// View returns what is kept, sorted.
func (k *Keeper) View() view.ClientMetrics {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expire(k.now())
	v := view.ClientMetrics{Clients: len(k.clients), Omitted: k.omitted, Series: make([]view.ClientSeries, 0, k.held[series])}
	for _, e := range k.clients {
		for s, l := range e.series {
			s.ClientID, s.Instance, s.Value = e.name, formatInstance(e.of.Instance), l.value
			v.Series = append(v.Series, s)
		}
	}
	sorts.Sort(v.Series, func(a, b view.ClientSeries) int {
		return cmp.Or(cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.ClientID, b.ClientID), cmp.Compare(a.Instance, b.Instance),
			cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Attributes, b.Attributes))
	})
	return v
}

// newInstance returns a random id of version 4 (RFC 9562).
func newInstance() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}
