// Package diskguard decides from what file systems report whether a log directory may take
// records, and how much of a disk its journal may have.
//
// It is pure: it reads no disk and no clock. The guard of package storage measures, asks
// Judge, and acts on the result.
//
// A measurement is true only for the moment, so that the level alone does not keep a disk from
// filling up: a fast disk takes hundreds of MiB between two measurements, and on a busy machine
// or with a slow file system a measurement is late. Allowance bounds what may be appended until
// the next one, and Owed counts what will be written without another record.
package diskguard

import (
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/text"
)

// Auto is the threshold that follows from the size of the file system.
const Auto = -1

// The bounds of an automatic threshold: 5 % of the file system within them, and
// never more than a quarter of it, so that a small one can be used at all.
const (
	autoLow  = 256 << 20
	autoHigh = 10 << 30
)

// stride is how many bytes may be appended at least before the next measurement is due.
const stride = 1 << 20

// Level says who may write to a log directory.
type Level uint8

const (
	// OK means that everybody may.
	OK Level = iota
	// Low means below the threshold. Records of clients are refused and no
	// partitions are made for them; internal topics go on.
	Low
	// Critical means below half of the threshold. All records are refused.
	Critical
)

// String is "ok", "low" or "critical".
func (l Level) String() string { return [...]string{"ok", "low", "critical"}[l] }

// Reading is what the file systems of a log directory and its journal report, in bytes.
type Reading struct {
	Free, Total, JournalFree int64
	// Apart is true if the journal is on another file system than the logs.
	Apart bool
	// Owed will be written to the logs' file system without another record.
	Owed int64
	// Growth is how much the journal may still grow.
	Growth int64
}

// Space is what was found when a directory was last looked at.
type Space struct {
	Level Level
	// Known is false where the file system did not say, or nobody asked it.
	Known bool
	// Free and Total are bytes of the file system that the logs are on, JournalFree
	// of the one that the journal is on.
	Free, Total, JournalFree int64
	// Owed are bytes of Free that will be taken without another record: of what is
	// in memory and not yet in segments, and of the journal's files that are being made.
	Owed int64
	// MinFree is the threshold in bytes, 0 where the guard is off.
	MinFree int64
	// Message says with the numbers why records are refused, and what helps; empty
	// while Level is OK.
	Message string
}

// Judge returns what a reading means for a directory and its journal, whose paths the message
// names. minFree is the configured threshold, before the level so far.
func (r *Reading) Judge(minFree int64, before Level, dir, journal string) Space {
	s := Space{Known: true, Free: r.Free, Total: r.Total, JournalFree: r.JournalFree, MinFree: Threshold(minFree, r.Total)}
	if s.MinFree == 0 {
		return s
	}
	s.Owed = r.Owed
	if s.Level = levelOf(s.Free-s.Owed, s.MinFree, before); s.Level != OK {
		s.Message = message("log directory "+dir, s.Free, s.Owed, s.MinFree, s.Level)
	}
	// A journal on a disk of its own may fill it: what counts is what it may still
	// grow by.
	if need := min(s.MinFree, r.Growth); r.Apart && need > 0 {
		if l := levelOf(s.JournalFree, need, before); l > s.Level {
			s.Level, s.Message = l, message("journal directory "+journal, s.JournalFree, 0, need, l)
		}
	}
	return s
}

// Allowance returns after how many appended bytes the next measurement is due, and how many
// may be appended until it is made. It is due after a quarter of what is free above the
// threshold. A record can take its bytes twice, in the journal and in a segment, so that half
// of it may be all of it.
func (s *Space) Allowance() (due, most int64) {
	if s.MinFree == 0 {
		return math.MaxInt64, math.MaxInt64
	}
	margin := s.Free - s.Owed - s.MinFree
	return max(margin/4, stride), max(margin/2, 2*stride)
}

// Threshold returns the threshold in force on a file system of total bytes.
func Threshold(set, total int64) int64 {
	if set >= 0 {
		return set
	}
	return min(max(min(total/20, autoHigh), autoLow), total/4)
}

// levelOf returns what free bytes mean after a level. A level that was left because of a
// threshold is reached again at a tenth more.
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

func message(what string, free, owed, need int64, level Level) string {
	has := text.Bytes(free) + " free"
	if owed > 0 && free >= need {
		has += ", " + text.Bytes(owed) + " of it spoken for by what is in memory and by the journal's next file"
	}
	refused := fmt.Sprintf("clients' records are refused until %s are free; internal topics go on", text.Bytes(need+need/10))
	if level == Critical {
		refused = fmt.Sprintf("all records are refused: clients' until %s are free, those of internal topics until %s are",
			text.Bytes(need+need/10), text.Bytes(need/2+need/20))
	}
	return fmt.Sprintf("%s has %s, the threshold is %s (chronik.disk.min.free.bytes): %s; "+
		"delete records or topics, lower retention, or enlarge the disk", what, has, text.Bytes(need), refused)
}

// JournalSizes are the size of a journal file and the bound of all of them, in bytes.
type JournalSizes struct{ File, All int64 }

const (
	journalFileMax, journalFileMin = 64 << 20, 2 << 20
	journalMax, journalMin         = 1 << 30, 16 << 20
)

// LargeDisk are the sizes on a disk that does not report its size.
var LargeDisk = JournalSizes{File: journalFileMax, All: journalMax}

// SizesFor returns the sizes on a file system of total bytes: an eighth of one that the logs
// are on too, half of the journal's own. On a small disk a journal of the usual size would
// leave no room for logs. A small journal is swept more often.
func SizesFor(total int64, apart bool) JournalSizes {
	all := total / 8
	if apart {
		all = total / 2
	}
	all = min(max(all, journalMin), journalMax)
	return JournalSizes{File: min(max(all/8, journalFileMin), journalFileMax), All: all}
}
