// Package observe turns the state of the broker's components into health facts and metrics.
//
// Each source reads one component and changes nothing: log directories, partitions, groups,
// connections, and the machine. The daemon registers a source with the health monitor and the
// metrics when it has opened the component. The package does not decide what is a fault, nor how it
// is shown: internal/health/checks and the admin port do.
package observe

import (
	"math"
	"runtime/debug"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/health/host"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Findings returns the source of the metrics that count findings.
func Findings(m *checks.Monitor, all []checks.Check) func() []metrics.Findings {
	return func() []metrics.Findings {
		type key struct {
			check    string
			severity health.Severity
		}
		n := map[key]int{}
		for _, f := range m.Own().Findings {
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

// Reports returns the source of the metrics about the reports of all brokers of a cluster.
func Reports(m *checks.Monitor) func() []metrics.Reported {
	return func() []metrics.Reported {
		r := m.Last()
		count := func(broker int32) (n []metrics.Findings) {
			for _, s := range health.Severities() {
				x := metrics.Findings{Severity: string(s)}
				for i := range r.Findings {
					if f := &r.Findings[i]; f.Broker == broker && f.Severity == s {
						x.N++
					}
				}
				n = append(n, x)
			}
			return n
		}
		list := []metrics.Reported{{Broker: r.Broker, N: count(r.Broker)}}
		for _, o := range r.Brokers {
			if o.At.IsZero() {
				continue
			}
			x := metrics.Reported{Broker: o.Broker, Age: max(r.At.Sub(o.At), time.Millisecond)}
			if o.Current {
				x.N = count(o.Broker)
			}
			list = append(list, x)
		}
		return list
	}
}

// Machine is the source of facts about the machine.
type Machine struct {
	machine        *host.Machine
	data           string // the data directory
	dirs           []storage.Location
	archive        string // the directory of snapshots; empty: none
	maxConnections func() int
	// The last reading of the clock, and its last step. Only the Monitor's goroutine uses them.
	last      time.Time
	stepped   time.Duration
	steppedAt time.Time
}

// NewMachine returns the source for a broker with these directories on this machine. archive is
// archive.url, which may be empty. maxConnections returns how many connections the broker accepts.
func NewMachine(data string, dirs []storage.Location, archive string, maxConnections func() int) *Machine {
	m := &Machine{machine: host.New(), data: data, dirs: dirs, maxConnections: maxConnections}
	if at, err := configdef.ParseArchiveURL(archive); err == nil {
		m.archive = at.Dir
	}
	return m
}

// Quick is a checks.Source.
func (m *Machine) Quick(f *checks.Facts) {
	f.Files = m.machine.Files()
	f.Files.MaxConnections = m.maxConnections()
	used := m.machine.Memory()
	f.Memory.Resident, f.Memory.Swapped = used.Resident, used.Swapped
	if limit, err := memlimit.FromCgroup(); err == nil {
		f.Memory.Limit = int64(min(limit, math.MaxInt64))
	}
	f.Memory.GoLimit = debug.SetMemoryLimit(-1)
	f.Clock = m.machine.Clock()
	known := vfs.BootID() != [16]byte{}
	f.Boot = checks.Boot{Known: known, Hidden: !known}
	if !m.last.IsZero() {
		if by := checks.Stepped(m.last, f.Now, f.Now.Sub(m.last)); by != 0 {
			m.stepped, m.steppedAt = by, f.Now
		}
	}
	m.last = f.Now
	f.Clock.Stepped, f.Clock.SteppedAt = m.stepped, m.steppedAt
	f.MountedDirs = m.machine.Remounted(f.MountedDirs) // read-only after a disk error, which an idle broker would not see
}

// Slow is a checks.SlowSource: it finds the file systems of the directories. It blocks while a file
// system does not respond.
func (m *Machine) Slow(s *checks.Slow) {
	s.MountedDirs = []checks.MountedDir{m.machine.MountedDir(checks.RoleData, m.data)}
	if m.archive != "" {
		s.Archive = m.machine.MountedDir(checks.RoleArchive, m.archive)
	}
	s.JournalTotals = map[string]int64{}
	for _, d := range m.dirs {
		journal := d.JournalPath()
		s.MountedDirs = append(s.MountedDirs,
			m.machine.MountedDir(checks.RoleLogs, d.Path), m.machine.MountedDir(checks.RoleJournal, journal))
		if _, total, err := vfs.OS().Free(journal); err == nil {
			s.JournalTotals[journal] = int64(min(total, math.MaxInt64))
		}
	}
}
