package metrics

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

// Clients that create many groups with arbitrary names neither break nor flood a scrape.
func TestLagIsBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	g, odd := view.Group{ID: "g"}, view.Group{ID: "\xff", Offsets: []view.GroupOffset{{Topic: "t"}}}
	for i := range int32(MaxLags + 3) {
		g.Add(view.GroupOffset{Topic: "t", Partition: i, End: 1}, 0)
	}
	g.Add(view.GroupOffset{Topic: "t", Partition: MaxLags + 4, End: -1}, 0) // led elsewhere
	must.OK(t, RegisterGroups(reg, true, func() view.Groups { return view.Groups{List: []view.Group{g, odd}} }))
	m := gather(t, reg)
	if n := len(m[nameGroupLag].GetMetric()); n != MaxLags {
		t.Errorf("%d series", n)
	}
	if got := m[nameGroupLagOmitted].GetMetric()[0].GetGauge().GetValue(); got != 4 {
		t.Errorf("%v are omitted", got)
	}
}

// The bytes of a scrape are bounded, whatever names clients choose.
func TestAScrapeIsBoundedInBytes(t *testing.T) {
	reg := prometheus.NewRegistry()
	var list []view.Group
	const groups = 5000
	for i := range groups {
		g := view.Group{ID: fmt.Sprintf("%05d", i) + strings.Repeat(`"`, 1019)}
		g.Add(view.GroupOffset{Topic: strings.Repeat("t", 249), End: 1}, 0)
		list = append(list, g)
	}
	must.OK(t, RegisterGroups(reg, true, func() view.Groups { return view.Groups{List: list} }))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if n := w.Body.Len(); n > 16<<20 || n < 1<<20 {
		t.Errorf("a scrape of %d bytes", n)
	}
	shown, more := shownLags(list)
	if len(shown)+more != groups || len(shown) < MaxLagNames/1300 {
		t.Errorf("%d lags, and %d more", len(shown), more)
	}
}

// Without series of each partition, the largest age of a last stable offset remains, from the
// partition that has been held for the longest time.
func TestTheLargestAgeRemains(t *testing.T) {
	reg := prometheus.NewRegistry()
	open := func() []view.Held {
		return []view.Held{{Age: 9 * time.Second}, {Age: 61 * time.Second}, {}}
	}
	must.OK(t, RegisterOpenTransactions(reg, false, open))
	m := gather(t, reg)
	if m[nameLSOAge] != nil || m[nameLSOLag] != nil || m[nameTxnOpen] != nil {
		t.Error("there are series of partitions")
	}
	if got := m[nameLSOAgeMax].GetMetric()[0].GetGauge().GetValue(); got != 61 {
		t.Errorf("the largest age is %v", got)
	}
}

// Without series of each partition, the sums remain.
func TestSumsRemainWithoutPartitions(t *testing.T) {
	reg := prometheus.NewRegistry()
	list := []view.Group{{ID: "g", Offsets: []view.GroupOffset{{Topic: "t", Lag: 5}, {Topic: "u", Lag: 7},
		{Topic: "t", Partition: 1, Lag: 6}}},
		{ID: "h", Offsets: []view.GroupOffset{{Topic: "t", Lag: 1}}}}
	must.OK(t, RegisterGroups(reg, false, func() view.Groups { return view.Groups{List: list} }))
	must.OK(t, RegisterLogs(reg, false, twoLogs))
	m := gather(t, reg)
	for _, name := range []string{nameGroupLag, nameLogSize, nameLogStart, nameLogEnd} {
		if m[name] != nil {
			t.Errorf("%s has series", name)
		}
	}
	sums := map[string]float64{}
	for _, x := range m[nameGroupTopicLag].GetMetric() {
		sums[x.GetLabel()[0].GetValue()+"/"+x.GetLabel()[1].GetValue()] = x.GetGauge().GetValue()
	}
	if want := map[string]float64{"g/t": 11, "g/u": 7, "h/t": 1}; !maps.Equal(sums, want) {
		t.Errorf("%v, want %v", sums, want)
	}
	if m[nameLogsSize].GetMetric()[0].GetGauge().GetValue() != 150 || m[namePartitions].GetMetric()[0].GetGauge().GetValue() != 2 {
		t.Errorf("%v %v", m[nameLogsSize], m[namePartitions])
	}
}

func manyLogs(yield func(*view.Log)) {
	for i := range 10_000 {
		yield(&view.Log{Exists: true, Topic: "topic-" + strconv.Itoa(i/10), Partition: int32(i % 10), Bytes: int64(i), LogEnd: int64(i)})
	}
}

// A scrape of 10,000 partitions must take less than a second.
func BenchmarkScrapeOf10000Partitions(b *testing.B) {
	reg := prometheus.NewRegistry()
	must.OK(b, RegisterLogs(reg, true, manyLogs))
	h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		b.ReportMetric(float64(w.Body.Len()), "bytes")
	}
}
