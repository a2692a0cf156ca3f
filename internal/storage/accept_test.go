package storage

import (
	"errors"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/vfs/crashfs"
)

// JOURNAL rule 15: a directory whose journal is lost refuses to start; at an
// operator's word it goes on from what its segments hold, and says of which
// partitions more may be lost.
func TestJournalLossIsAcceptedOnlyWhenAsked(t *testing.T) {
	first := "/d/journal/00000000000000000001.journal"
	for name, harm := range map[string]func(t *testing.T, fs *crashfs.FS){
		"missing": func(t *testing.T, fs *crashfs.FS) {
			if err := fs.RemoveAll("/d/journal"); err != nil {
				t.Fatal(err)
			}
		},
		"damaged": func(t *testing.T, fs *crashfs.FS) {
			change(t, fs, first, 0, make([]byte, 512))
			change(t, fs, first, 4096, make([]byte, 512))
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := crashfs.New(1)
			d := mustOpen(t, live, "sync")
			l := makeLogs(t, d, 1, "sync")[0]
			put(t, l, 3, 100)
			kept := l.Ends().Durable
			if err := l.flushAndSync(); err != nil {
				t.Fatal(err)
			}
			if err := d.checkpoint(nil); err != nil {
				t.Fatal(err)
			}
			put(t, l, 2, 100) // in the journal only

			fs := live.KillImage(1)
			harm(t, fs)
			if d, err := openDir(fs, "sync"); err == nil {
				_ = d.Close()
				t.Fatal("a directory without its journal was opened")
			} else if !errors.Is(err, ErrForeign) && !errors.Is(err, journal.ErrDamaged) {
				t.Errorf("refused with: %v", err)
			}
			for _, really := range []bool{false, true} {
				if d, err := openDir(fs, "sync"); err == nil {
					_ = d.Close()
					t.Fatal("it was only asked what would be lost, and the directory was opened")
				}
				lost, err := AcceptJournalLoss(Place{Path: "/d"}, Options{FS: fs}, really)
				if err != nil || len(lost) != 1 || lost[0] != (Accepted{Topic: "t", Kept: kept}) {
					t.Fatalf("accepted %+v, %v", lost, err)
				}
			}
			again := mustOpen(t, fs, "sync")
			if again.Clean() {
				t.Error("counts as clean: leader epochs would not be raised")
			}
			if e := again.Logs()[0].Ends(); e.LogEnd != kept {
				t.Fatalf("ends at %d, want %d", e.LogEnd, kept)
			}
			put(t, again.Logs()[0], 2, 100)
		})
	}
}

// Somebody who gives up a journal by mistake is stopped: what a kill left behind
// is in it and nowhere else.
func TestAWholeJournalIsNotGivenUp(t *testing.T) {
	live := crashfs.New(1)
	l := makeLogs(t, mustOpen(t, live, "sync"), 1, "sync")[0]
	put(t, l, 3, 100)
	end := l.Ends().Durable
	fs := live.KillImage(1)
	if _, err := AcceptJournalLoss(Place{Path: "/d"}, Options{FS: fs}, true); !errors.Is(err, ErrJournalWhole) {
		t.Fatalf("given up: %v", err)
	}
	if e := mustOpen(t, fs, "sync").Logs()[0].Ends(); e.LogEnd != end {
		t.Errorf("ends at %d, want %d", e.LogEnd, end)
	}
}

// What is no log directory stays as it is.
func TestNothingIsMadeWhereThereIsNoLogDirectory(t *testing.T) {
	fs := crashfs.New(1)
	if _, err := AcceptJournalLoss(Place{Path: "/none"}, Options{FS: fs}, true); !errors.Is(err, ErrForeign) {
		t.Errorf("accepted: %v", err)
	}
	if _, err := fs.Stat("/none"); err == nil {
		t.Error("a directory was made")
	}
}
