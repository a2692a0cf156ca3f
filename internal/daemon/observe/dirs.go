package observe

import (
	"math"
	"strconv"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/diskguard"
)

// Logs is the source of the metrics of logs.
type Logs struct{ *storage.Manager }

// EachLog implements metrics.LogSource.
func (s Logs) EachLog(yield func(metrics.Log)) {
	for _, l := range s.Logs() {
		e := l.Ends()
		yield(metrics.Log{
			Topic: l.Topic(), Partition: strconv.Itoa(int(l.ID().Partition)), Size: l.Size(), Start: e.LogStart, End: e.LogEnd,
		})
	}
}

// Dirs returns the source of the metrics of log directories; unopened are those that could not be
// opened. It queries no file system, which might hang: the disk guard of a directory does so once a
// second.
func Dirs(all []*storage.Dir, unopened []checks.Unopened) func() []metrics.Dir {
	return func() []metrics.Dir {
		shown := make([]metrics.Dir, len(all), len(all)+len(unopened))
		for i, d := range all {
			x, s := d.Usage(), d.LastSpace()
			shown[i] = metrics.Dir{
				Path: d.Path(), Online: d.Err() == nil,
				JournalBytes: x.JournalBytes, JournalLimit: x.JournalLimit, DeferredBytes: x.DeferredBytes,
				CachedBytes: x.CachedBytes, OpenFiles: x.OpenFiles, FreeBytes: uint64(max(s.Free, 0)), Capacity: uint64(max(s.Total, 0)),
				JournalFree: uint64(max(s.JournalFree, 0)), FreeKnown: s.Known, MinFree: s.MinFree, LowSpace: int(s.Level),
			}
		}
		for _, d := range unopened {
			shown = append(shown, metrics.Dir{Path: d.Path, Unopened: true})
		}
		return shown
	}
}

// DirFacts returns the source of the state of the log directories; unopened are those that could
// not be opened.
func DirFacts(m *storage.Manager, unopened []checks.Unopened, measured *metrics.Storage, probes *Probes) checks.Source {
	var history syncHistory
	return func(f *checks.Facts) {
		f.Unopened = unopened
		latencies := history.add(f.Now, metrics.Distributions(measured.SyncSeconds), metrics.Distributions(measured.GroupRecords))
		for _, d := range m.Dirs() {
			space, use := d.LastSpace(), d.Usage()
			x := checks.Dir{
				Path: d.Path(), Journal: d.JournalPath(), Err: Reason(d.Err()), MaxOpenFiles: use.MaxOpenFiles,
				Free: space.Free, Total: space.Total, SpaceKnown: space.Known, MinFree: space.MinFree,
				SpaceMessage: space.Message, SpaceCritical: space.Level == diskguard.Critical,
				JournalBytes: use.JournalBytes, JournalLimit: use.JournalLimit, Syncs: latencies[d.Path()],
				Probe: probes.of(d.JournalPath()),
			}
			x.Waiting = d.Stalled()
			for _, l := range d.Logs() {
				x.Logs++
				conf := l.Config()
				if c := conf.Cleanup; c.Delete && c.RetentionTime < 0 && c.RetentionBytes >= 0 {
					x.KeptLogs++
					x.Kept += min(c.RetentionBytes, math.MaxInt64-x.Kept)
				}
			}
			f.Dirs = append(f.Dirs, x)
		}
	}
}
