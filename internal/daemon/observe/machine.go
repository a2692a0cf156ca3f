// Package observe turns what the components of a broker report into the facts of its health and into
// metrics.
//
// Each of its sources reads one component and changes nothing: log directories, partitions, groups,
// connections, and the machine. The daemon registers them with the health monitor and with the
// metrics when it has opened the component.
package observe

import (
	"math"
	"path"
	"runtime/debug"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/health/host"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Findings shows to metrics how many findings there are.
func Findings(m *checks.Monitor, all []checks.Check) func() []metrics.Findings {
	return func() []metrics.Findings {
		type key struct {
			check    string
			severity health.Severity
		}
		n := map[key]int{}
		for _, f := range m.Last().Findings {
			n[key{f.Check, f.Severity}]++
		}
		var found []metrics.Findings
		for _, c := range all {
			for _, s := range health.Severities() {
				found = append(found, metrics.Findings{Check: c.Name, Severity: string(s), N: n[key{c.Name, s}]})
			}
		}
		return found
	}
}

// Machine is the source of what the machine reports.
type Machine struct {
	machine        *host.Machine
	data           string // the data directory
	dirs           []storage.Place
	maxConnections int
	// The clock when it was read last, and when it was set last. They are the Monitor's goroutine's.
	last      time.Time
	stepped   time.Duration
	steppedAt time.Time
}

// NewMachine reads this machine, for a broker with these directories.
func NewMachine(data string, dirs []storage.Place, maxConnections int) *Machine {
	return &Machine{machine: host.New(), data: data, dirs: dirs, maxConnections: maxConnections}
}

// Quick is a checks.Source.
func (m *Machine) Quick(f *checks.Facts) {
	f.Files = m.machine.Files()
	f.Files.MaxConnections = m.maxConnections
	used := m.machine.Memory()
	f.Memory.Resident, f.Memory.Swapped = used.Resident, used.Swapped
	if limit, err := memlimit.FromCgroup(); err == nil {
		f.Memory.Limit = int64(min(limit, math.MaxInt64))
	}
	f.Memory.GoLimit = debug.SetMemoryLimit(-1)
	f.Clock = m.machine.Clock()
	if !m.last.IsZero() {
		if by := checks.Stepped(m.last, f.Now, f.Now.Sub(m.last)); by != 0 {
			m.stepped, m.steppedAt = by, f.Now
		}
	}
	m.last = f.Now
	f.Clock.Stepped, f.Clock.SteppedAt = m.stepped, m.steppedAt
}

// Slow is a checks.SlowSource: it finds out what the directories lie on. A file system that does not answer may hold it.
func (m *Machine) Slow(s *checks.Slow) {
	s.Places, s.JournalTotals = []checks.Place{m.machine.Place(checks.RoleData, m.data)}, map[string]int64{}
	for _, d := range m.dirs {
		journal := d.Journal
		if journal == "" {
			journal = path.Join(d.Path, "journal")
		}
		s.Places = append(s.Places, m.machine.Place(checks.RoleLogs, d.Path), m.machine.Place(checks.RoleJournal, journal))
		if _, total, err := vfs.OS().Free(journal); err == nil {
			s.JournalTotals[journal] = int64(min(total, math.MaxInt64))
		}
	}
}
