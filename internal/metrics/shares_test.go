package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

// Clients that create many share groups, or give them long or odd names, do not flood a scrape.
func TestShareGroupsAreBounded(t *testing.T) {
	list := []view.ShareGroup{{ID: "\xff"}}
	for i := range MaxShareGroups + 3 {
		list = append(list, view.ShareGroup{ID: fmt.Sprintf("g%05d", i), Sessions: 1})
	}
	reg := prometheus.NewRegistry()
	must.OK(t, RegisterShares(reg, func() view.Shares { return view.Shares{Groups: list} }))
	m := gather(t, reg)
	if n := len(m[nameShareMembers].GetMetric()); n != MaxShareGroups {
		t.Errorf("%d series", n)
	}
	if got := m[nameShareOmitted].GetMetric()[0].GetGauge().GetValue(); got != 4 {
		t.Errorf("%v are omitted", got)
	}
	for i := range list {
		list[i].ID = fmt.Sprintf("%05d", i) + strings.Repeat("x", 1019)
	}
	if shown, more := shownShares(list); len(shown) != MaxShareNames/1024 || len(shown)+more != len(list) {
		t.Errorf("%d groups, and %d more", len(shown), more)
	}
}

// The leaders of share partitions export the lag, whatever broker coordinates the group.
func TestTheLagOfShareGroupsIsThatOfTheLeaders(t *testing.T) {
	reg := prometheus.NewRegistry()
	must.OK(t, RegisterGroups(reg, true, func() view.Groups {
		return view.Groups{List: []view.Group{{ID: "s", Kind: "share", State: "Stable"}},
			Led: []view.Group{{ID: "s", Offsets: []view.GroupOffset{{Topic: "t", Partition: 3, Lag: 5}}}}}
	}))
	m := gather(t, reg)
	if got := m[nameGroupLag].GetMetric(); len(got) != 1 || got[0].GetGauge().GetValue() != 5 {
		t.Errorf("%v", got)
	}
	if got := m[nameGroups].GetMetric(); len(got) != 1 || got[0].GetGauge().GetValue() != 1 {
		t.Errorf("groups are counted twice: %v", got)
	}
}
