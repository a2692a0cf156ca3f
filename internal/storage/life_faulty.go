package storage

import (
	"math"

	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// Faulty returns the logs of the directory that do not accept or do not serve records, and those
// with a Flaw. The time that it takes depends on their number, not on that of all logs.
func (d *Dir) Faulty() []*Log {
	return d.suspects.All(func(l *Log) bool { return d.holds(l) && l.faulty() })
}

// faulty reports whether Faulty has the log of a directory.
func (l *Log) faulty() bool { return !l.is(loglife.Append) || l.Flaw() != nil }

// Faulty returns the logs of all directories that Dir.Faulty does.
func (m *Manager) Faulty() (logs []*Log) {
	for _, d := range m.dirs {
		logs = append(logs, d.Faulty()...)
	}
	return logs
}

// Unstable returns the logs of the directory with a FirstUnstable. The time that it takes depends
// on their number, as for Faulty.
func (d *Dir) Unstable() []*Log {
	return d.unstable.All(func(l *Log) bool { return d.holds(l) && l.isUnstable() })
}

func (l *Log) isUnstable() bool { return l.unstable.first.Load() != math.MaxInt64 }

// Unstable returns the logs of all directories that Dir.Unstable does.
func (m *Manager) Unstable() (logs []*Log) {
	for _, d := range m.dirs {
		logs = append(logs, d.Unstable()...)
	}
	return logs
}

// holds reports whether a log is one of the directory. Others may have been named: those that could
// not be taken over from another directory, and those whose deletion has ended.
func (d *Dir) holds(l *Log) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logs[l.id] == l
}

// nameHeld names logs that the directory has just begun to hold. Before that, they may have been
// named and forgotten.
func (d *Dir) nameHeld(logs []*Log) {
	for _, l := range logs {
		if l.Flaw() != nil {
			d.suspects.Name(l)
		}
		if l.isUnstable() {
			d.unstable.Name(l)
		}
	}
}
