package view

import (
	"strings"

	"github.com/chronik-io/chronik/internal/text"
)

// Topic is a topic with the sums of its partitions that have a replica on the broker.
type Topic struct {
	Name, ID   string
	Internal   bool
	Partitions int // of the whole cluster
	Replicas   int // on this broker
	// Records is the number of offsets up to the high watermarks, Bytes the size of the segments.
	// Ends is the sum of the log end offsets: its growth gives the rate of records.
	Records, Bytes, Ends int64
	Profile              string
	Weak                 bool // the profile acknowledges records that are only written
	Cleanup              string
	// Offline, Closed and Damaged count the partitions with a problem: those that can be neither
	// written nor read, those that cannot be written, and the others with records that cannot be
	// read. Uncovered are those of them for which no other replica stands in.
	Offline, Closed, Damaged, Uncovered int
}

// Add adds a partition to the sums.
func (t *Topic) Add(l *Log) {
	t.Replicas++
	t.Records += l.HighWatermark - l.LogStart
	t.Bytes += l.Bytes
	t.Ends += l.LogEnd
	switch {
	case l.Offline:
		t.Offline++
	case l.Error != "":
		t.Closed++
	case l.Damaged != "":
		t.Damaged++
	default:
		return
	}
	if !l.Covered() {
		t.Uncovered++
	}
}

// Problem returns how many partitions have which problem, empty if none has one.
func (t *Topic) Problem() string {
	var all []string
	for _, p := range []struct {
		n    int
		what string
	}{{t.Offline, "offline"}, {t.Closed, "accepting no records"}, {t.Damaged, "damaged"}} {
		if p.n > 0 {
			all = append(all, text.Count(p.n, "partition")+" "+p.what)
		}
	}
	return strings.Join(all, ", ")
}

// Covered reports whether other replicas stand in for all partitions with a problem.
func (t *Topic) Covered() bool { return t.Uncovered == 0 }
