package admin

import (
	"net/url"

	"github.com/chronik-io/chronik/internal/metrics"
)

// profileState is a durability profile in GET /v1/profiles.
type profileState struct {
	Name       string     `json:"name"`
	Ack        string     `json:"ack"`
	Sync       string     `json:"sync"`
	MaxWaitMs  float64    `json:"maxWaitMs"`
	MaxRecords int        `json:"maxRecords"`
	MaxBytes   int64      `json:"maxBytes"`
	IntervalMs float64    `json:"intervalMs"`
	Doc        string     `json:"doc"`
	Waits      *waitsSeen `json:"waits"`
}

// waitsSeen summarizes how long group commits waited under a profile.
type waitsSeen struct {
	Count  uint64  `json:"count"`
	MeanMs float64 `json:"meanMs"`
}

// groupsSeen summarizes the group commits of a directory, each made durable by one fdatasync.
type groupsSeen struct {
	Dir         string  `json:"dir"`
	Count       uint64  `json:"count"`
	MeanRecords float64 `json:"meanRecords"`
	MeanBytes   float64 `json:"meanBytes"`
	MeanSyncMs  float64 `json:"meanSyncMs"`
}

// profiles serves GET /v1/profiles.
func profiles(v *View, q url.Values) (any, error) {
	if err := known(q); err != nil {
		return nil, err
	}
	waits := metrics.Distributions(v.Measured.WaitSeconds)
	list := []profileState{}
	for _, p := range v.Profiles {
		s := profileState{
			Name: p.Name, Ack: p.Ack.String(), Sync: p.Sync.String(), MaxWaitMs: float64(p.MaxWait.Microseconds()) / 1000,
			MaxRecords: p.MaxRecords, MaxBytes: p.MaxBytes, IntervalMs: float64(p.Interval.Microseconds()) / 1000, Doc: p.Doc,
		}
		if w := waits[p.Name]; w.Count > 0 {
			s.Waits = &waitsSeen{w.Count, 1000 * w.Mean()}
		}
		list = append(list, s)
	}
	groups := []groupsSeen{}
	records := metrics.Distributions(v.Measured.GroupRecords)
	bytes := metrics.Distributions(v.Measured.GroupBytes)
	syncs := metrics.Distributions(v.Measured.SyncSeconds)
	for _, d := range v.Dirs() {
		if at := d.Path; syncs[at].Count > 0 {
			groups = append(groups, groupsSeen{at, syncs[at].Count, records[at].Mean(), bytes[at].Mean(), 1000 * syncs[at].Mean()})
		}
	}
	return map[string]any{"default": v.Default, "profiles": list, "groups": groups}, nil
}
