package observe

import (
	"maps"
	"slices"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Profiles returns the durability profiles with what was measured of commits.
func Profiles(all []durability.Profile, standard string, m *metrics.Storage) view.Profiles {
	x := view.Profiles{Default: standard, Groups: []view.GroupCommits{}}
	waits := metrics.Distributions(m.WaitSeconds)
	for _, p := range all {
		s := view.ProfileOf(p, standard)
		if w := waits[p.Name]; w.Count > 0 {
			s.Waits = &view.CommitWaits{Count: int64(w.Count), MeanMs: 1000 * w.Mean()}
		}
		x.List = append(x.List, s)
	}
	records, bytes := metrics.Distributions(m.GroupRecords), metrics.Distributions(m.GroupBytes)
	syncs := metrics.Distributions(m.SyncSeconds)
	for _, dir := range slices.Sorted(maps.Keys(syncs)) {
		if s := syncs[dir]; s.Count > 0 {
			x.Groups = append(x.Groups, view.GroupCommits{Dir: dir, Count: int64(s.Count), MeanRecords: records[dir].Mean(),
				MeanBytes: bytes[dir].Mean(), MeanSyncMs: 1000 * s.Mean()})
		}
	}
	return x
}
