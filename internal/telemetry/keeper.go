package telemetry

import (
	"cmp"
	"container/list"
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

// The bounds of what is kept.
const (
	maxClients = 4096
	maxSeries  = 10_000
	maxBytes   = 3 << 20 // of the labels of all series
	perClient  = 1000    // series
	maxText    = 256     // of a name or a label's value, in bytes
	// maxAttributes bounds the attributes of a value that have no label of their own. Kafka's
	// clients send one or two.
	maxAttributes = 16
	// perPush bounds the values of one push.
	perPush = 4 * perClient
	// seriesBytes is what a series takes besides its labels.
	seriesBytes = 64
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

	mu      sync.Mutex
	subs    []configdef.Subscription // never modified, only replaced
	clients map[[16]byte]*client
	byAge   list.List      // of *client, the one that was heard of last at the back
	pushers map[pusher]int // clients and series
	series  int
	bytes   int
	omitted int64
}

// client is a client instance that a subscription selects. Guarded by Keeper.mu.
type client struct {
	of          Client
	name        string // its client.id, as far as it is shown
	age         *list.Element
	expires     time.Time
	asked       time.Time // zero: never
	pushed      time.Time
	told        int32 // the id of the subscription that it was last told, or pushed for
	again       bool  // it may ask at once, because its last push was refused with what it has to learn
	ended       bool
	series      map[view.ClientSeries]float64 // by all but Value
	seriesBytes int
}

// New returns a Keeper without subscriptions. now is the clock.
func New(now func() time.Time) *Keeper {
	return &Keeper{now: now, clients: map[[16]byte]*client{}, pushers: map[pusher]int{}}
}

// Follow takes the subscriptions of new metadata. It is a metadata.Subscriber. What clients have
// pushed stays until they push again or expire. A subscription that can't be resolved, which
// another version has permitted, asks no client.
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
	if len(s.Metrics) == 0 {
		return c.Instance, s, nil
	}
	now := k.now()
	e := k.entry(&c, now)
	last := slices.MaxFunc([]time.Time{e.asked, e.pushed}, time.Time.Compare)
	if !last.IsZero() && now.Sub(last) < s.Interval && e.told == s.ID && !e.again {
		return c.Instance, s, ErrTooEarly
	}
	e.asked, e.told, e.again = now, s.ID, false
	k.touch(e, now, s.Interval)
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
	if k.clients[c.Instance] == e { // otherwise another client took its room or its instance id meanwhile
		for i := range points {
			k.store(e, &points[i])
		}
	}
	return malformed
}

// admit checks whether a push is due, and returns the entry of its client. Once mu is released,
// k.clients may have another entry for the instance id.
func (k *Keeper) admit(c *Client, subscription int32, last bool) (e *client, s Subscription, err error) {
	s = k.subscription(c)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(s.Metrics) == 0 {
		return nil, s, ErrSubscription
	}
	now := k.now()
	e = k.entry(c, now)
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
	e.pushed, e.told, e.ended, e.again = now, s.ID, last, false
	k.touch(e, now, s.Interval)
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

// entry returns the entry of a client, a new one if there is none. Caller holds mu.
func (k *Keeper) entry(c *Client, now time.Time) *client {
	k.expire(now)
	e := k.clients[c.Instance]
	if e != nil && e.of.pusher() != c.pusher() {
		// A client that learns an instance id must not push in another's name.
		k.drop(e)
		e = nil
	}
	if e != nil {
		return e
	}
	if len(k.clients) >= maxClients {
		k.yield(nil)
	}
	e = &client{of: *c, name: text([]byte(c.ID)), series: map[view.ClientSeries]float64{}}
	e.age = k.byAge.PushBack(e)
	k.clients[c.Instance] = e
	k.pushers[c.pusher()]++
	return e
}

// touch makes a client the one that was heard of last. Caller holds mu.
func (k *Keeper) touch(e *client, now time.Time, interval time.Duration) {
	e.expires = now.Add(3 * interval)
	k.byAge.MoveToBack(e.age)
}

// expire drops clients that were silent for too long. It checks the oldest first, and stops at
// one that stays, so that a request costs little; some with a shorter interval stay longer
// therefore. Caller holds mu.
func (k *Keeper) expire(now time.Time) {
	for front := k.byAge.Front(); front != nil; front = k.byAge.Front() {
		e := front.Value.(*client)
		if now.Before(e.expires) {
			return
		}
		k.drop(e)
	}
}

// drop forgets a client. Caller holds mu.
func (k *Keeper) drop(e *client) {
	k.byAge.Remove(e.age)
	delete(k.clients, e.of.Instance)
	k.series -= len(e.series)
	k.bytes -= e.seriesBytes
	o := e.of.pusher()
	if k.pushers[o] -= len(e.series) + 1; k.pushers[o] == 0 {
		delete(k.pushers, o)
	}
}

// yield drops the oldest client of the pusher with the most clients and series, and reports whether
// it did. For a series it does so only if the pusher that wants it has fewer. Caller holds mu.
func (k *Keeper) yield(wants *client) bool {
	var largest pusher
	most := 0
	for o, n := range k.pushers {
		if n > most {
			largest, most = o, n
		}
	}
	if wants != nil && most <= k.pushers[wants.of.pusher()] {
		return false
	}
	for at := k.byAge.Front(); at != nil; at = at.Next() {
		if e := at.Value.(*client); e.of.pusher() == largest {
			k.drop(e)
			return true
		}
	}
	return false
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
	key := p.rest
	old, ok := e.series[key]
	if !ok && !k.room(e, key) {
		k.omitted++
		return
	}
	if p.delta {
		p.value += old
	}
	e.series[key] = p.value
}

// remove removes a series of a client, if it is there. Caller holds mu.
func (k *Keeper) remove(e *client, key view.ClientSeries) {
	if _, ok := e.series[key]; !ok {
		return
	}
	delete(e.series, key)
	n := key.Bytes() + seriesBytes
	k.series--
	k.bytes -= n
	e.seriesBytes -= n
	k.pushers[e.of.pusher()]--
}

// room makes room for a series, and counts it. Caller holds mu.
func (k *Keeper) room(e *client, key view.ClientSeries) bool {
	n := key.Bytes() + seriesBytes
	if len(e.series) >= perClient {
		return false
	}
	for k.series >= maxSeries || k.bytes+n > maxBytes {
		if !k.yield(e) {
			return false
		}
	}
	k.series++
	k.bytes += n
	e.seriesBytes += n
	k.pushers[e.of.pusher()]++
	return true
}

// View returns what is kept, sorted.
func (k *Keeper) View() view.ClientMetrics {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	k.expire(now)
	v := view.ClientMetrics{Clients: len(k.clients), Omitted: k.omitted, Series: make([]view.ClientSeries, 0, k.series)}
	for _, e := range k.clients {
		if !now.Before(e.expires) {
			continue
		}
		for s, value := range e.series {
			s.ClientID, s.Instance, s.Value = e.name, formatInstance(e.of.Instance), value
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
