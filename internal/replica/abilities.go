package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
)

const (
	// hungAfter is how long a directory may make no progress before it counts as hung.
	hungAfter = 2 * time.Second
	// steadyAfter is how long a directory must have had no fault before it counts as able again: as
	// long as a session. Otherwise each error of a disk that fails now and then would move
	// leaderships to it and away.
	steadyAfter = 3 * time.Second
)

// abilities knows which log directories of this broker can take records. Heartbeats say it, and the
// controller chooses leaders and places replicas by it. Nothing else decides that a broker leaves
// what it leads because of a disk.
//
//	       an error, no progress for 2 s, or low space
//	able ─────────────────────────────────────────────▶ unable
//	     ◀─────────────────────────────────────────────
//	               none of them for 3 s
type abilities struct {
	mu     sync.Mutex
	looked time.Duration // when the directories were examined last
	since  time.Duration // from when on they were examined often enough
	dirs   map[*storage.Dir]*ability
	some   atomic.Bool // some directory is unable
}

// ability is the known state of one directory.
type ability struct {
	why metadata.DirFault
	at  time.Duration // when it had that fault last
}

// examine checks the directories. One that is examined too rarely does not count as hung: this
// process had no time to write either.
func (s *abilities) examine(m *Manager, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now-s.looked > hungAfter/2 {
		s.since = now
	}
	s.looked = now
	unmade, some := m.unmade(), false
	for _, d := range m.Dirs() {
		a := s.dirs[d]
		if a == nil {
			if s.dirs == nil {
				s.dirs = map[*storage.Dir]*ability{}
			}
			a = &ability{}
			s.dirs[d] = a
		}
		err := d.Err()
		before := a.why
		hung := unmade[d] || m.opt.Storage.Hung(d) != nil || min(d.Stalled(), now-s.since) >= hungAfter
		a.note(faultOf(err, hung, d.LastSpace()), now)
		some = some || a.why != 0
		switch a.why {
		case before:
		case 0:
			m.opt.Logger.Info("log directory takes records again: this broker can lead its partitions", zap.String("dir", d.Path()))
		default:
			m.opt.Logger.Error("log directory takes no records: replicas in sync elsewhere lead its partitions, if there are any; "+
				"see chronikctl cluster health",
				zap.String("dir", d.Path()),
				zap.Stringer("because", a.why), zap.Error(err))
		}
	}
	s.some.Store(some)
}

// faultOf returns the fault that a directory itself knows of.
func faultOf(err error, hung bool, space storage.Space) metadata.DirFault {
	switch {
	case err != nil:
		return metadata.DirFailed
	case hung:
		return metadata.DirHung
	case space.Message != "":
		return metadata.DirLow
	}
	return 0
}

// note records the state of a directory.
func (a *ability) note(why metadata.DirFault, now time.Duration) {
	switch {
	case why != 0:
		a.why, a.at = why, now
	case now-a.at >= steadyAfter:
		a.why = 0
	}
}

// unable reports whether a heartbeat may have said that a directory can't take records.
func (s *abilities) unable(d *storage.Dir) bool {
	if !s.some.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.dirs[d]
	return a != nil && a.why != 0
}

// Unable returns the log directories that cannot take records, and why. It does not block.
func (m *Manager) Unable() (list []metadata.UnableDir) {
	s := &m.abilities
	s.examine(m, m.env.now())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range m.Dirs() {
		if a := s.dirs[d]; a.why != 0 {
			list = append(list, metadata.UnableDir{ID: d.ID(), Why: a.why})
		}
	}
	return list
}
