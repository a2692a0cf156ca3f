package metrics

import "testing"

// Who names groups as they like, and as many, does not break or flood a scrape.
func TestLagIsBounded(t *testing.T) {
	reg := NewRegistry()
	var lags []Lag
	for i := range int32(MaxLags + 3) {
		lags = append(lags, Lag{Group: "g", Topic: "t", Partition: i, Records: 1})
	}
	lags = append(lags, Lag{Group: "\xff", Topic: "t"})
	if err := RegisterGroups(reg, func() Groups { return Groups{Lags: lags} }); err != nil {
		t.Fatal(err)
	}
	m := gather(t, reg)
	if n := len(m[nameGroupLag].GetMetric()); n != MaxLags {
		t.Errorf("%d series", n)
	}
	if got := m[nameGroupLagOmitted].GetMetric()[0].GetGauge().GetValue(); got != 4 {
		t.Errorf("%v are left out", got)
	}
}
