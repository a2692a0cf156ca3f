package observe

import (
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// Dirs reads the log directories. It is safe for concurrent use, and queries no file system, which
// might hang: the disk guard of a directory does so once a second.
type Dirs struct {
	storage  *storage.Manager
	unopened []view.Dir
	measured *metrics.Storage
	probes   *Probes

	mu    sync.Mutex
	syncs syncHistory
}

// NewDirs returns the reader of the directories of m. remedy returns how to open one that could not
// be opened.
func NewDirs(m *storage.Manager, remedy func(*storage.DirError) string, measured *metrics.Storage, probes *Probes) *Dirs {
	s := &Dirs{storage: m, measured: measured, probes: probes}
	for _, d := range m.Failed() {
		s.unopened = append(s.unopened, view.Dir{Path: d.Path, ID: metadata.FormatID(d.ID), Journal: d.Journal,
			JournalApart: d.Location().JournalApart(), Error: d.Err.Error(), Unopened: true, Remedy: remedy(d), Space: view.SpaceUnknown})
	}
	return s
}

// List returns the directories in use, and then those that could not be opened.
func (s *Dirs) List() []view.Dir {
	syncs := metrics.Distributions(s.measured.SyncSeconds)
	records := metrics.Distributions(s.measured.GroupRecords)
	s.mu.Lock()
	defer s.mu.Unlock()
	latencies, list := s.syncs.add(time.Now(), syncs, records), []view.Dir{}
	moves := s.storage.Moves()
	for _, d := range s.storage.Dirs() {
		x := describe(d)
		for i := range moves {
			if m := &moves[i]; m.To == d {
				x.Arriving = append(x.Arriving, view.Arrival{Topic: m.Topic, Partition: m.Partition, From: m.From.Path(), Copied: m.Copied,
					Size: m.Want, Error: Reason(m.Err)})
			}
		}
		x.Syncs, x.Probe = latencies[x.Path], s.probes.of(x.Journal)
		x.SyncP50, x.SyncP99 = syncs[x.Path].Estimate(0.5), syncs[x.Path].Estimate(0.99)
		list = append(list, x)
	}
	return append(list, s.unopened...)
}

// describe returns the known state of one directory without its latencies.
func describe(d *storage.Dir) view.Dir {
	space, use := d.LastSpace(), d.Usage()
	x := view.Dir{
		Path: d.Path(), ID: metadata.FormatID(d.ID()), Journal: d.JournalPath(), JournalApart: d.Location().JournalApart(),
		Error: Reason(d.Err()), Full: vfs.Full(d.Err()),
		Space: view.SpaceUnknown, Refuses: view.Refusal(space.Level), SpaceMessage: strings.TrimSuffix(space.Message, storage.SpaceRemedy),
		Free: space.Free, Total: space.Total, MinFree: space.MinFree, JournalFree: space.JournalFree,
		JournalBytes: use.JournalBytes, JournalLimit: use.JournalLimit, Deferred: use.DeferredBytes, Cached: use.CachedBytes,
		OpenFiles: use.OpenFiles, MaxOpenFiles: use.MaxOpenFiles, Waiting: d.Stalled(),
	}
	if space.Known {
		x.Space = view.Space(space.Level.String())
	}
	x.Logs = len(d.Logs())
	x.KeptLogs, x.Kept = d.SizeLimits()
	for _, l := range d.Faulty() {
		if l.Offline() != nil {
			x.Offline++
		}
	}
	return x
}

// Facts is a checks.Source: the state of the log directories.
func (s *Dirs) Facts(f *checks.Facts) {
	all := s.List()
	used := len(all) - len(s.unopened)
	f.Dirs, f.Unopened = all[:used], all[used:]
}
