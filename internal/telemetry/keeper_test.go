package telemetry

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/durability"
)

// timed is a Keeper with a clock of its own.
type timed struct {
	*Keeper
	time time.Time
	r    *configdef.Registry
}

func newKeeper(t rapid.TB, sets ...map[string]string) *timed {
	t.Helper()
	profiles, err := durability.NewSet()
	must.OK(t, err)
	k := &timed{time: time.Unix(1000, 0), r: configdef.New(configdef.Options{Profiles: profiles})}
	k.Keeper = New(func() time.Time { return k.time })
	k.set(t, sets...)
	return k
}

// set replaces all subscriptions.
func (k *timed) set(t rapid.TB, sets ...map[string]string) {
	t.Helper()
	var subs []configdef.Subscription
	for _, set := range sets {
		must.OK(t, k.r.CheckSubscription(set))
		s, err := k.r.ResolveSubscription(set)
		must.OK(t, err)
		subs = append(subs, s)
	}
	k.subscribe(subs)
}

func clientAt(n int, address string) Client {
	return Client{Instance: [16]byte{byte(n), byte(n >> 8), 1}, ID: fmt.Sprint("c", n), Software: "apache-kafka-java", Version: "4.3.0",
		Address: netip.MustParseAddrPort(address + ":40000"), User: "User:u"}
}

// number is a NumberDataPoint.
func number(v float64, attributes ...string) []byte {
	b := protowire.AppendFixed64(protowire.AppendTag(nil, pointDouble, protowire.Fixed64Type), math.Float64bits(v))
	for i := 0; i < len(attributes); i += 2 {
		value := message(nil, valueString, []byte(attributes[i+1]))
		b = message(b, pointAttributes, message(message(nil, pairKey, []byte(attributes[i])), pairValue, value))
	}
	return b
}

func message(dst []byte, num protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, num, protowire.BytesType), body)
}

func gauge(name string, points ...[]byte) []byte {
	var list []byte
	for _, p := range points {
		list = message(list, pointsOf, p)
	}
	return message(message(nil, metricGauge, list), metricName, []byte(name)) // the name last, as no one sends it
}

func sum(name string, temporality uint64, monotonic bool, points ...[]byte) []byte {
	var list []byte
	for _, p := range points {
		list = message(list, pointsOf, p)
	}
	list = protowire.AppendVarint(protowire.AppendTag(list, sumTemporality, protowire.VarintType), temporality)
	list = protowire.AppendVarint(protowire.AppendTag(list, sumMonotonic, protowire.VarintType), protowire.EncodeBool(monotonic))
	return message(message(nil, metricName, []byte(name)), metricSum, list)
}

func metricsData(metrics ...[]byte) []byte {
	var scope []byte
	for _, m := range metrics {
		scope = message(scope, scopeMetrics, m)
	}
	return message(nil, dataResources, message(nil, resourceScopes, scope))
}

// push asks if need be and pushes.
func (k *timed) push(t rapid.TB, c Client, data []byte) {
	t.Helper()
	_, s, err := k.Ask(c)
	if err != nil && !errors.Is(err, ErrTooEarly) {
		t.Fatal(err)
	}
	must.OK(t, k.Push(c, s.ID, false, func() ([]byte, error) { return data, nil }))
}

func TestSubscriptionsAreMerged(t *testing.T) {
	k := newKeeper(t,
		map[string]string{"metrics": "org.b,org.a", "interval.ms": "60000"},
		map[string]string{"metrics": "org.c", "interval.ms": "10000", "match": "client_software_name=apache-.*,client_id=c[12]"},
		map[string]string{"metrics": "*", "match": "client_source_address=10.0.0.9"})
	for _, c := range []struct {
		of       Client
		metrics  string
		interval time.Duration
	}{
		{clientAt(1, "10.0.0.1"), "org.a org.b org.c", 10 * time.Second},
		{clientAt(3, "10.0.0.1"), "org.a org.b", time.Minute},
		{clientAt(12, "10.0.0.1"), "org.a org.b", time.Minute}, // the whole client.id must match
		{clientAt(1, "10.0.0.9"), "*", 10 * time.Second},
	} {
		_, s, err := k.Ask(c.of)
		if err != nil || strings.Join(s.Metrics, " ") != c.metrics || s.Interval != c.interval {
			t.Errorf("%+v: %+v, %v", c.of, s, err)
		}
	}
	if _, s, _ := newKeeper(t, map[string]string{"match": "client_id=x"}).Ask(clientAt(1, "10.0.0.1")); len(s.Metrics) > 0 ||
		s.Interval != configdef.DefaultPushInterval {
		t.Errorf("%+v", s)
	}
	if n := k.View().Clients; n != 3 { // one of them came from another address
		t.Errorf("%d clients", n)
	}
}

// A broker starts although it cannot use a subscription, such as one of another version. The others
// count.
func TestAnInvalidSubscriptionIsIgnored(t *testing.T) {
	kvs := metadata.First(metadata.NewCluster(metadata.FormatID(metadata.NewID()), metadata.NewID()))
	for name, set := range map[string]map[string]string{"bad": {"metrics": "*", "match": "client_id=("}, "good": {"metrics": "org.a"}} {
		kvs = append(kvs, metadata.KV{Key: metadata.SubscriptionKey(name), Value: metadata.EncodeConfigs(set), ModRevision: 1})
	}
	img, err := metadata.Load(kvs, 1)
	if err != nil {
		t.Fatal(err)
	}
	k := newKeeper(t)
	if err := k.Follow(k.r, zap.NewNop())(t.Context(), nil, img, &metadata.Delta{Subscriptions: true}); err != nil {
		t.Fatal(err)
	}
	_, s, err := k.Ask(clientAt(1, "10.0.0.1"))
	if err != nil || strings.Join(s.Metrics, " ") != "org.a" {
		t.Errorf("%+v, %v", s, err)
	}
}

// The id follows from the contents, whatever the broker and the order of the subscriptions.
func TestASubscriptionHasTheSameIDAtEveryBroker(t *testing.T) {
	a, b := map[string]string{"metrics": "a"}, map[string]string{"metrics": "b"}
	id := func(sets ...map[string]string) int32 {
		_, s, _ := newKeeper(t, sets...).Ask(clientAt(1, "10.0.0.1"))
		return s.ID
	}
	if id(a, b) != id(b, a) || id(a) == id(b) || id(a) == id(map[string]string{"metrics": "a", "interval.ms": "100"}) {
		t.Error("ids differ from contents")
	}
}

func TestAClientGetsAnInstanceID(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "a"})
	c := clientAt(1, "10.0.0.1")
	c.Instance = [16]byte{}
	a, _, _ := k.Ask(c)
	b, _, _ := k.Ask(c)
	if a == b || a == ([16]byte{}) || a[6]>>4 != 4 {
		t.Error(a, b)
	}
	if id, _, _ := newKeeper(t).Ask(c); id == ([16]byte{}) {
		t.Error("no id without a subscription")
	}
}

// The order of requests that KIP-714 describes, and each that it refuses.
func TestWhenRequestsAreRefused(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "a", "interval.ms": "10000"})
	c := clientAt(1, "10.0.0.1")
	ask := func(want error) (s Subscription) {
		t.Helper()
		_, s, err := k.Ask(c)
		if !errors.Is(err, want) {
			t.Errorf("ask: %v, want %v", err, want)
		}
		return s
	}
	failed := errors.New("failed")
	push := func(id int32, last bool, read, want error) {
		t.Helper()
		if err := k.Push(c, id, last, func() ([]byte, error) { return nil, read }); !errors.Is(err, want) {
			t.Errorf("push: %v, want %v", err, want)
		}
	}
	id := ask(nil).ID
	ask(ErrTooEarly)
	push(id, false, nil, nil) // the first push comes at a random time
	push(id, false, nil, ErrTooEarly)
	ask(ErrTooEarly)
	k.time = k.time.Add(10 * time.Second)
	push(id+1, false, nil, ErrSubscription)
	ask(nil) // at once, because of the refusal
	ask(ErrTooEarly)
	push(id, false, failed, failed)
	ask(ErrTooEarly) // it can push again after the interval
	k.time = k.time.Add(10 * time.Second)
	push(id, false, ErrCodec, ErrCodec)
	k.time = k.time.Add(time.Millisecond)
	ask(nil) // at once: the answer has the codecs
	push(id, false, nil, nil)
	k.set(t, map[string]string{"metrics": "b", "interval.ms": "10000"})
	push(id, false, nil, ErrSubscription) // and not ErrTooEarly
	id = ask(nil).ID
	ask(ErrTooEarly)
	push(id, true, nil, nil)
	push(id, true, nil, ErrEnded)
	ask(ErrTooEarly)
	k.time = k.time.Add(10 * time.Second)
	ask(nil)
	push(id, false, nil, ErrEnded)
	k.time = k.time.Add(30 * time.Second)
	ask(nil) // it is forgotten
	k.subscribe(nil)
	push(id, false, nil, ErrSubscription)
}

func TestValuesAreStored(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "org.", "interval.ms": "1000"})
	c := clientAt(1, "10.0.0.1")
	data := metricsData(
		gauge("org.lag", number(3, "topic", "t", "partition", "0", "b", "2", "a", "1"), number(4, "topic", "t", "partition", "1")),
		sum("org.sent.total", temporalityDelta, true, number(5, "node_id", "7")),
		sum("org.sent.total", temporalityDelta, true, number(-1, "node_id", "7"), number(math.NaN())), // no sums
		sum("org.open", 2, false, number(9)),
		gauge("com.other", number(1)))
	for range 2 {
		k.push(t, c, data)
		k.time = k.time.Add(time.Second)
	}
	var got []string
	v := k.View()
	for _, s := range v.Series {
		got = append(got, fmt.Sprint(s.Metric, " ", s.ClientID, " ", s.Topic, s.Partition, s.Node, " ", s.Attributes, " ", s.Total, " ",
			s.Value))
	}
	want := []string{"org.lag c1 t0 a=1,b=2 false 3", "org.lag c1 t1  false 4", "org.open c1   false 9", "org.sent.total c1 7  true 10"}
	if !slices.Equal(got, want) || v.Omitted != 4 || v.Clients != 1 || v.Series[0].Instance != "AQABAAAAAAAAAAAAAAAAAA" {
		t.Errorf("%q, %d omitted, %+v", got, v.Omitted, v.Series[0])
	}
	k.time = k.time.Add(3 * time.Second)
	if v := k.View(); len(v.Series) > 0 || v.Clients > 0 || k.held != (amounts{}) || len(k.pushers) > 0 {
		t.Errorf("%+v, %v", v, k.held)
	}
}

// Java's clients push gauges that are no numbers for averages of nothing, and a node as "node-1".
func TestAGaugeWithoutAValueHasNoSeries(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
	c := clientAt(1, "10.0.0.1")
	for _, x := range []struct {
		value float64
		want  int
	}{{math.NaN(), 0}, {3, 1}, {math.NaN(), 0}} {
		k.push(t, c, metricsData(gauge("latency.avg", number(x.value, "node_id", "node-1"))))
		k.time = k.time.Add(time.Second)
		v := k.View()
		if len(v.Series) != x.want || v.Omitted != 0 || k.held[series] != x.want || x.want == 0 && k.held[labels] != 0 {
			t.Errorf("after %v: %+v, %v", x.value, v, k.held)
		}
		if x.want == 1 && v.Series[0].Node != "1" {
			t.Errorf("node %q", v.Series[0].Node)
		}
	}
}

// An instance id is no proof: who learns it can't push in another user's name.
func TestAnInstanceBelongsToItsUser(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
	c := clientAt(1, "10.0.0.1")
	k.push(t, c, metricsData(gauge("a", number(1))))
	thief := c
	thief.User, thief.ID = "User:thief", "other"
	k.push(t, thief, metricsData(gauge("b", number(1))))
	for _, s := range k.View().Series {
		if s.Metric == "b" && s.ClientID == "c1" {
			t.Errorf("%+v", s)
		}
	}
}

// While a push is read, another user takes its instance id. The push is not stored as that user's,
// and lets it ask no earlier.
func TestAPushIsNotStoredInAnothersName(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
	for i, unread := range []error{nil, ErrCodec} {
		c := clientAt(i, "10.0.0.1")
		other := c
		other.User, other.ID = "User:other", "other"
		_, s, err := k.Ask(c)
		must.OK(t, err)
		_ = k.Push(c, s.ID, false, func() ([]byte, error) {
			if _, _, err := k.Ask(other); err != nil {
				t.Error(err)
			}
			return metricsData(gauge("a", number(1))), unread
		})
		if v := k.View(); len(v.Series) != 0 {
			t.Errorf("%+v", v.Series)
		}
		if _, _, err := k.Ask(other); !errors.Is(err, ErrTooEarly) {
			t.Errorf("the other user asks again: %v", err)
		}
	}
}

// One origin pushes more than there is room for, and others find room all the same.
func TestAnOriginThatPushesMuchYields(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
	var points [][]byte
	for i := range 2 * perClient {
		points = append(points, number(1, "n", fmt.Sprint(i)))
	}
	much := metricsData(gauge(strings.Repeat("m", 200), points...))
	for i := range 40 {
		k.push(t, clientAt(i, "10.0.0.66"), much)
	}
	if k.held[series] > maxSeries || k.held[labels] > maxBytes || k.View().Omitted == 0 {
		t.Errorf("%v", k.held)
	}
	honest := clientAt(1000, "10.0.0.1")
	k.push(t, honest, metricsData(gauge("org.lag", number(7))))
	for i := range maxClients + 10 {
		_, _, _ = k.Ask(clientAt(2000+i, "10.0.0.66"))
	}
	v := k.View()
	if !slices.ContainsFunc(v.Series, func(s view.ClientSeries) bool { return s.Metric == "org.lag" && s.Value == 7 }) {
		t.Error("the honest client's metric is gone")
	}
	if v.Clients > maxClients {
		t.Errorf("%d clients", v.Clients)
	}
}

// Whatever clients do, the counts are those of what is kept, and within the bounds.
func TestTheCountsAreRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c := clientAt(rapid.IntRange(0, 5).Draw(t, "client"), rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2"}).Draw(t, "address"))
			k.time = k.time.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 5 * time.Second}).Draw(t, "later"))
			_, s, _ := k.Ask(c)
			_ = k.Push(c, s.ID, rapid.Bool().Draw(t, "last"), func() ([]byte, error) {
				var points [][]byte
				for range rapid.IntRange(0, 5).Draw(t, "points") {
					points = append(points, number(1, "n", fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "n"))))
				}
				return metricsData(gauge("g", points...), sum("s", temporalityDelta, true, points...)), nil
			})
		}
		var all amounts
		pushers := map[pusher]*amounts{}
		for _, e := range k.clients {
			own := amounts{clients: 1, series: len(e.series)}
			for s := range e.series {
				own[labels] += size(&s)[labels]
			}
			share := pushers[e.of.pusher()]
			if share == nil {
				share = &amounts{}
				pushers[e.of.pusher()] = share
			}
			for what := range own {
				all[what] += own[what]
				share[what] += own[what]
			}
			if own != e.held || k.byExpiry[e.at] != e || e.share != k.pushers[e.of.pusher()] {
				t.Errorf("%v of %v, at %d", own, e.held, e.at)
			}
		}
		same := maps.EqualFunc(pushers, k.pushers, func(a, b *amounts) bool { return *a == *b })
		if len(k.byExpiry) != len(k.clients) || all != k.held || !same {
			t.Errorf("%d of %d clients, %v of %v, %v of %v", len(k.byExpiry), len(k.clients), all, k.held, pushers, k.pushers)
		}
	})
}

// A push of a few megabytes may be one value with a million attributes, or a million values.
func TestWhatAPushCostsIsBounded(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
	var labels []string
	for i := range 10 * maxAttributes {
		labels = append(labels, fmt.Sprintf("%03d", i), "")
	}
	var points [][]byte
	for range 2 * perPush {
		points = append(points, number(1))
	}
	k.push(t, clientAt(1, "10.0.0.1"), metricsData(gauge("a", number(1, labels...)), sum("b", temporalityDelta, true, points...)))
	v := k.View()
	if len(v.Series) != 2 || strings.Count(v.Series[0].Attributes, "=") != maxAttributes {
		t.Errorf("%+v", v.Series)
	}
	if s := v.Series[1]; s.Value != perPush-1 || v.Omitted != perPush+1 {
		t.Errorf("%+v, %d omitted", s, v.Omitted)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(metricsData(gauge("a", number(1, "topic", "t")), sum("b", temporalityDelta, true, number(2))))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		n := 0
		err := decode(data, func(string) bool { return true }, func(p *point) {
			if n++; p.rest.Bytes() > 5*maxText || n > len(data) {
				t.Errorf("%d bytes have %d points: %+v", len(data), n, p)
			}
		})
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
	})
}
