// Package diskguard decides, based on what file systems report, whether a log directory may accept
// records, and how much of a disk its journal may use.
//
// It is pure: it reads no disk and no clock. Package storage measures the free space, calls Judge,
// and acts on the result.
//
// A measurement only holds for a moment, so the level alone does not keep a disk from filling up. A
// fast disk takes hundreds of MiB between two measurements, and on a busy machine or a slow file
// system a measurement may be late. Allowance bounds what may be appended before the next
// measurement. Owed counts what will be written even without another record.
package diskguard

import (
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/text"
)

// Auto selects a threshold that depends on the size of the file system.
const Auto = -1

// The bounds of an automatic threshold. Within them it is 5 % of the file system, but at most a
// quarter, so that a small file system stays usable.
//
// The free space below the threshold has to hold what is written while clients' records are
// refused: those of internal topics, checkpoints, snapshots of the metadata, and what a compaction
// writes until it notices. What was accepted before counts as owed, above the threshold. None of it
// grows with the disk, so the threshold stays below what a disk of any size should have free.
const (
	autoLow  = 256 << 20
	autoHigh = 1 << 30
)

// stride is the minimum number of bytes that may be appended before the next measurement is due.
const stride = 1 << 20

// Level determines who may write to a log directory.
type Level uint8

const (
	// OK means that all records are accepted.
	OK Level = iota
	// Low means below the threshold: clients' records and new partitions are refused, internal
	// topics still accept records.
	Low
	// Critical means below half of the threshold: all records are refused.
	Critical
)

// String returns "ok", "low" or "critical".
func (l Level) String() string { return [...]string{"ok", "low", "critical"}[l] }

// Reading is what the file systems of a log directory and its journal report, in bytes.
type Reading struct {
	Free, Total, JournalFree int64
	// Apart is true if the journal is on another file system than the logs.
	Apart bool
	// Owed will be written to the logs' file system even without another record.
	Owed int64
	// Growth is how much the journal may still grow.
	Growth int64
}

// Space is the result of a directory's last measurement.
type Space struct {
	Level Level
	// Known is false if the file system reported an error or was not measured yet.
	Known bool
	// Free and Total are those of the logs' file system; JournalFree is that of the journal's.
	Free, Total, JournalFree int64
	// Owed is the part of Free that will be used even without another record, by records in memory
	// and by journal files in preparation.
	Owed int64
	// MinFree is the threshold in bytes, 0 if the guard is off.
	MinFree int64
	// Message explains with numbers why records are refused, and the remedy; empty if Level is OK.
	Message string
}

// Judge evaluates a reading of a directory and its journal, whose paths appear in the message.
// minFree is the configured threshold, before is the previous level.
func (r *Reading) Judge(minFree int64, before Level, dir, journal string) Space {
	s := Space{Known: true, Free: r.Free, Total: r.Total, JournalFree: r.JournalFree, MinFree: Threshold(minFree, r.Total)}
	if s.MinFree == 0 {
		return s
	}
	s.Owed = r.Owed
	if s.Level = levelOf(s.Free-s.Owed, s.MinFree, before); s.Level != OK {
		s.Message = message("log directory "+dir, s.Free, s.Owed, s.MinFree, s.Level)
	}
	// A journal on its own disk may fill that disk. It needs no more space than it may still grow
	// by.
	if need := min(s.MinFree, r.Growth); r.Apart && need > 0 {
		if l := levelOf(s.JournalFree, need, before); l > s.Level {
			s.Level, s.Message = l, message("journal directory "+journal, s.JournalFree, 0, need, l)
		}
	}
	return s
}

// Allowance returns how many bytes may be appended before the next measurement is due, and how many
// before it is made. A measurement is due after a quarter of the margin above the threshold. Half
// of the margin may use up all of it, because a record can be written twice, to the journal and to
// a segment.
func (s *Space) Allowance() (due, most int64) {
	if s.MinFree == 0 {
		return math.MaxInt64, math.MaxInt64
	}
	margin := s.Free - s.Owed - s.MinFree
	return max(margin/4, stride), max(margin/2, 2*stride)
}

// Threshold returns the effective threshold on a file system of total bytes.
func Threshold(set, total int64) int64 {
	if set >= 0 {
		return set
	}
	return min(max(min(total/20, autoHigh), autoLow), total/4)
}

// levelOf returns the level for free bytes. To leave a level, free space must exceed its threshold
// by a tenth.
func levelOf(free, need int64, before Level) Level {
	at := func(threshold int64, was bool) bool {
		if was {
			threshold += threshold / 10
		}
		return free < threshold
	}
	switch {
	case at(need/2, before == Critical):
		return Critical
	case at(need, before != OK):
		return Low
	default:
		return OK
	}
}

// Remedy ends the messages about a full disk. Findings have one of their own.
const Remedy = "; delete records or topics, lower retention, or enlarge the disk"

func message(what string, free, owed, need int64, level Level) string {
	has := text.Bytes(free) + " free"
	if owed > 0 && free >= need {
		has += ", " + text.Bytes(owed) + " of it reserved for records in memory and the journal's next file"
	}
	refused := fmt.Sprintf("clients' records of partitions that this broker leads are refused until %s are free; "+
		"internal topics still accept records", text.Bytes(need+(need+9)/10))
	if level == Critical {
		refused = fmt.Sprintf("all records of partitions that this broker leads are refused: clients' until %s are free, "+
			"those of internal topics until %s are",
			text.Bytes(need+(need+9)/10), text.Bytes(need/2+need/20))
	}
	return fmt.Sprintf("%s has %s, the threshold is %s (chronik.disk.min.free.bytes): %s"+Remedy, what, has, text.Bytes(need), refused)
}

// JournalSizes are the size of a journal file and the limit of all of them, in bytes.
type JournalSizes struct{ File, All int64 }

const (
	journalFileMax, journalFileMin = 64 << 20, 2 << 20
	journalMax, journalMin         = 1 << 30, 16 << 20
)

// LargeDisk returns the sizes for a disk that does not report its size.
func LargeDisk() JournalSizes { return JournalSizes{File: journalFileMax, All: journalMax} }

// SizesFor returns the sizes for a file system of total bytes: an eighth of it if it also has the
// logs, half of it otherwise. On a small disk a journal of the usual size would leave no space for
// logs. A small journal is swept more often.
func SizesFor(total int64, apart bool) JournalSizes {
	all := total / 8
	if apart {
		all = total / 2
	}
	all = min(max(all, journalMin), journalMax)
	return JournalSizes{File: min(max(all/8, journalFileMin), journalFileMax), All: all}
}
