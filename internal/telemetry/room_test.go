package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// numbers are n points with labels of their own.
func numbers(n int, label string) (points [][]byte) {
	for i := range n {
		points = append(points, number(1, "n", fmt.Sprint(label, i)))
	}
	return points
}

// later pushes after an interval of a second.
func (k *timed) later(t *testing.T, c Client, metrics ...[]byte) {
	t.Helper()
	k.time = k.time.Add(time.Second)
	k.push(t, c, metricsData(metrics...))
}

// shown lists the metrics of /metrics, with values.
func (k *timed) shown() string {
	var all []string
	for _, s := range k.View().Series {
		all = append(all, fmt.Sprint(s.Metric, s.Partition, "=", s.Value))
	}
	return strings.Join(all, " ")
}

// The lag of a partition that moved to another consumer goes after three pushes without it. Deltas
// of a counter that does not change may be absent: franz-go leaves them out.
func TestASeriesBelongsToRecentPushes(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
	c := clientAt(1, "10.0.0.1")
	lag := func(partition string) []byte { return gauge("lag", number(9, "partition", partition)) }
	sent := sum("sent", temporalityDelta, true, number(5))
	k.later(t, c, lag("0"), lag("1"), sent, sum("opened", 2, true, number(3)))
	for i, want := range []string{
		"lag0=9 lag1=9 opened=3 sent=5", "lag0=9 lag1=9 opened=3 sent=5", "lag0=9 sent=5", "lag0=9 sent=5", "lag0=9 sent=5",
	} {
		k.later(t, c, lag("0"))
		if got := k.shown(); got != want {
			t.Errorf("after %d pushes without: %s, want %s", i+1, got, want)
		}
	}
	k.later(t, c, lag("1"), sent)
	if got := k.shown(); got != "lag0=9 lag1=9 sent=10" {
		t.Error(got)
	}
}

// A client that has as many series as it may finds room for others when it no longer pushes these.
func TestNewSeriesReplaceThoseThatAreNoLongerPushed(t *testing.T) {
	for name, old := range map[string]func(...[]byte) []byte{
		"gauges": func(points ...[]byte) []byte { return gauge("old", points...) },
		"sums":   func(points ...[]byte) []byte { return sum("old", temporalityDelta, true, points...) },
	} {
		k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
		c := clientAt(1, "10.0.0.1")
		k.later(t, c, old(numbers(perClient-1, "")...), sum("sent", temporalityDelta, true, number(5)))
		for range recent {
			k.later(t, c, gauge("new", numbers(perClient-1, "")...), sum("sent", temporalityDelta, true, number(5)))
		}
		v := k.View()
		if last := v.Series[len(v.Series)-1]; len(v.Series) != perClient || v.Series[0].Metric != "new" || last.Metric != "sent" ||
			last.Value != 20 {
			t.Errorf("%s: %d series from %+v to %+v", name, len(v.Series), v.Series[0], last)
		}
		omitted := 2 * (perClient - 1) // new values of two pushes
		if name == "sums" {
			omitted += perClient - 1
		}
		if v.Omitted != int64(omitted) {
			t.Errorf("%s: %d omitted, want %d", name, v.Omitted, omitted)
		}
	}
}

// Sums that do not change keep no other client of the same user and address out.
func TestSumsThatDoNotChangeMakeRoom(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
	other := clientAt(0, "10.0.0.2")
	k.later(t, other, sum("other", temporalityDelta, true, number(5)))
	for i := range maxSeries / perClient {
		k.push(t, clientAt(i+1, "10.0.0.1"), metricsData(sum("old", temporalityDelta, true, numbers(perClient, "")...)))
	}
	for range recent {
		k.time = k.time.Add(time.Second)
		for i := range maxSeries/perClient + 1 {
			k.push(t, clientAt(i, fmt.Sprint("10.0.0.", 2-min(i, 1))), nil)
		}
	}
	k.push(t, clientAt(100, "10.0.0.1"), metricsData(gauge("new", number(1))))
	if got := k.shown(); got != "new=1 other=5" {
		t.Errorf("%.200s", got)
	}
}

// What a subscription no longer selects goes when the client learns it.
func TestANarrowerSubscriptionRemovesSeries(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "a,b", "interval.ms": "1000"})
	c := clientAt(1, "10.0.0.1")
	both := [][]byte{gauge("a", number(1)), gauge("b", number(1)), sum("b.total", temporalityDelta, true, number(1))}
	k.later(t, c, both...)
	k.set(t, map[string]string{"metrics": "a", "interval.ms": "1000"})
	k.later(t, c, both...)
	if got := k.shown(); got != "a=1" {
		t.Error(got)
	}
	k.subscribe(nil)
	stranger := c
	stranger.User = "User:other"
	_, _, err := k.Ask(stranger)
	must.OK(t, err)
	if got := k.shown(); got != "a=1" {
		t.Error("another user ended the client:", got)
	}
	_, _, err = k.Ask(c)
	must.OK(t, err)
	if v := k.View(); len(v.Series) > 0 || v.Clients > 0 {
		t.Errorf("%+v", v)
	}
}

// A push that is read while its client learns of a narrower subscription is not stored.
func TestAPushOfAFormerSubscriptionIsNotStored(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "a,b", "interval.ms": "1000"})
	c := clientAt(1, "10.0.0.1")
	_, s, err := k.Ask(c)
	must.OK(t, err)
	must.OK(t, k.Push(c, s.ID, false, func() ([]byte, error) {
		k.set(t, map[string]string{"metrics": "a", "interval.ms": "1000"})
		_, _, err := k.Ask(c)
		return metricsData(sum("b", temporalityDelta, true, number(1))), err
	}))
	if got := k.shown(); got != "" {
		t.Error(got)
	}
}

// Who uses up one bound displaces none that hold less of it, however much of another they hold.
// What makes room is counted.
func TestWhoHoldsMostOfWhatIsShortYields(t *testing.T) {
	const honest, greedy = "10.0.0.1", "10.0.0.66"
	long := strings.Repeat("m", maxText)
	for _, x := range []struct {
		short   string
		clients int // of the honest address
		series  int // of each
		attack  func(t *testing.T, k *timed)
	}{
		{"clients", 8, 900, func(t *testing.T, k *timed) {
			for i := range maxClients {
				_, _, err := k.Ask(clientAt(1000+i, greedy))
				must.OK(t, err)
			}
		}},
		{"series", 4000, 1, func(t *testing.T, k *timed) {
			for i := range 8 {
				k.push(t, clientAt(5000+i, greedy), metricsData(gauge("a", numbers(perClient, "")...)))
			}
		}},
		{"bytes", 4, 1000, func(t *testing.T, k *timed) {
			var points [][]byte
			for i := range perClient {
				points = append(points, number(1, "topic", long, "partition", long, "node_id", fmt.Sprint(i, long), "other", long))
			}
			for i := range 4 {
				k.push(t, clientAt(5000+i, greedy), metricsData(gauge(long, points...)))
			}
		}},
	} {
		k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
		for i := range x.clients {
			k.push(t, clientAt(i, honest), metricsData(gauge("lag", numbers(x.series, "")...)))
		}
		x.attack(t, k)
		n := 0
		for _, s := range k.View().Series {
			if s.Metric == "lag" {
				n++
			}
		}
		if n != x.clients*x.series {
			t.Errorf("too many %s: %d of %d series of the honest address are left", x.short, n, x.clients*x.series)
		}
	}
}

func TestSeriesOfAClientThatYieldsAreCounted(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
	for i := range maxSeries / perClient {
		k.push(t, clientAt(i, "10.0.0.66"), metricsData(gauge("a", numbers(perClient, "")...)))
	}
	k.push(t, clientAt(100, "10.0.0.1"), metricsData(gauge("lag", number(1))))
	if v := k.View(); len(v.Series) != maxSeries-perClient+1 || v.Omitted != perClient {
		t.Errorf("%d series, %d omitted", len(v.Series), v.Omitted)
	}
}

// A client with a long interval hides none with a shorter one that has expired.
func TestEveryClientExpiresInTime(t *testing.T) {
	k := newKeeper(t, map[string]string{"metrics": "*", "interval.ms": "3600000", "match": "client_id=c1"},
		map[string]string{"metrics": "*", "interval.ms": "1000", "match": "client_id=c2"})
	k.push(t, clientAt(1, "10.0.0.1"), metricsData(gauge("a", number(1))))
	k.push(t, clientAt(2, "10.0.0.1"), metricsData(gauge("b", number(1))))
	k.time = k.time.Add(3 * time.Second)
	v := k.View()
	if v.Clients != 1 || len(v.Series) != 1 || v.Series[0].Metric != "a" || len(k.clients) != 1 {
		t.Errorf("%+v", v)
	}
}
