package storage

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// A truncation or the creation of a log commits a recovery point with the last assigned LSN, even
// if that LSN's frame never reaches a disk because of a power loss or a failed fdatasync. The LSN
// is never assigned again: a frame with it would count as superseded, and an acknowledged record
// would be lost.
func TestLostLSNsAreNeverReassigned(t *testing.T) {
	if wrong := lostLSNs(t, broken{}); wrong != "" {
		t.Error(wrong)
	}
}

func lostLSNs(t *testing.T, b broken) (wrong string) {
	t.Helper()
	commits := map[string]func(d *Dir, l *Log) error{
		"truncation": func(_ *Dir, l *Log) error { return l.Truncate(2) },
		"birth": func(d *Dir, _ *Log) error {
			_, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{2}}, Topic: "u", Config: testConfig("sync")}})
			return err
		},
	}
	for name, commit := range commits {
		for _, failing := range []bool{false, true} {
			disk := crashfs.New(1)
			errs := errfs.New(disk)
			reopened := make(chan struct{}, 9)
			d := mustOpen(t, errs, "sync", func(o *Options) { o.broken = b; o.reopened = func(*Dir) { reopened <- struct{}{} } })
			logs := makeLogs(t, d, 2, "sync")
			put(t, logs[0], 3, 100)
			hold, let := gated(t)
			rule := inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) { <-hold }})
			if failing {
				rule.Err, rule.Drop = syscall.EIO, errfs.DropCached
			}
			held := errs.Add(rule)
			send(logs[1], testBatch(t, 100, nil)) // has its LSN, and is on no disk
			eventually(t, "the datasync began", func() bool { return held.Hits() > 0 })
			must(t, commit(d, logs[0]))
			image := disk.PowerLossImage(crashfs.DropUnsynced, 1)
			let()
			if failing {
				eventually(t, "the directory reopened", func() bool { return held.Hits() > 0 && len(reopened) > 0 })
			} else {
				d = mustOpen(t, image, "sync", func(o *Options) { o.broken = b })
				disk = image
			}
			want := map[ID]int64{}
			all := slices.Clone(d.Logs())
			slices.SortFunc(all, func(a, b *Log) int { return strings.Compare(b.String(), a.String()) })
			if name == "truncation" {
				slices.Reverse(all)
			}
			for _, l := range all { // the first one would get the lost LSN
				put(t, l, 1, 100)
				want[l.id] = l.Ends().Durable
			}
			for _, l := range mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 2), "sync").Logs() {
				if e := l.Ends(); l.Offline() != nil || e.LogEnd != want[l.id] {
					wrong += fmt.Sprintf("%s, failing %v: %s was acknowledged up to %d, now %+v, %v\n", name, failing, l,
						want[l.id], e, l.Offline())
				}
			}
		}
	}
	return wrong
}
