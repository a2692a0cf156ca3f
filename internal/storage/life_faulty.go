package storage

import (
	"math"

	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// Faulty returns the logs that do not accept or do not serve records, and those with a Flaw. Logs
// that are being deleted are not faulty. The time that it takes depends on the number of faulty
// logs, not of all.
func (d *Dir) Faulty() []*Log { return d.suspects.All((*Log).faulty) }

// faulty reports whether Faulty has the log.
func (l *Log) faulty() bool {
	state := l.state()
	return state != loglife.Deleted && (!state.Allows(loglife.Append) || l.Flaw() != nil)
}

// Faulty returns the logs of all directories that Dir.Faulty does.
func (m *Manager) Faulty() (logs []*Log) {
	for _, d := range m.dirs {
		logs = append(logs, d.Faulty()...)
	}
	return logs
}

// Unstable returns the logs of all directories with a FirstUnstable. The time that it takes depends
// on their number, as for Faulty.
func (m *Manager) Unstable() (logs []*Log) {
	for _, d := range m.dirs {
		logs = append(logs, d.unstable.All((*Log).isUnstable)...)
	}
	return logs
}

func (l *Log) isUnstable() bool {
	return l.unstable.first.Load() != math.MaxInt64 && l.state() != loglife.Deleted
}
