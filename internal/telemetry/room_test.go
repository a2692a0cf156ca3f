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
