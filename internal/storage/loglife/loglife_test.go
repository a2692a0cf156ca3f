package loglife

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/states"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/statestest"
)

const again = "go test ./internal/storage/loglife"

func TestTheDrawingIsTheTable(t *testing.T) {
	b, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "# A log\n")
	ofLog, rest, _ := strings.Cut(rest, "# A role\n")
	ofRole, ofDir, _ := strings.Cut(rest, "# A log directory\n")
	statestest.Drawing(t, "log", logs, ofLog)
	statestest.Drawing(t, "role", roles, ofRole)
	statestest.Drawing(t, "directory", dirs, ofDir)
}

func TestTheDocumentShowsTheTable(t *testing.T) {
	golden.Part(t, "../../../docs/journal.md", "states of a log", statestest.Page(logs), again)
	golden.Part(t, "../../../docs/journal.md", "roles of a log", statestest.Page(roles), again)
	golden.Part(t, "../../../docs/journal.md", "states of a directory", statestest.Page(dirs), again)
}

func TestEveryStateIsReachedAndEveryEventAnswered(t *testing.T) {
	statestest.Reached(t, logs, int(Deletion)+1, AsFound)
	statestest.Reached(t, roles, int(Resumed)+1, Leads)
	statestest.Reached(t, dirs, int(Stop)+1, Stops)
}

// Properties on which package storage relies.
func TestWhatTheStatesPromise(t *testing.T) {
	for s := range State(len(logs.Rows)) {
		for _, rule := range []struct {
			broken bool
			what   string
		}{
			{s.Allows(Append) && !(s.Allows(Read) && s.Allows(Whole)), "takes records that it cannot serve"},
			{s.Allows(Whole) && !s.Allows(Read), "is whole and cannot be read"},
			{s.Allows(Change) && !(s.Allows(Flush) && s.Allows(Append)), "may be changed and cannot be flushed"},
			{s.Allows(Repair) && s.Allows(Append|Flush|Change), "is repaired while others write"},
			{s.Allows(Quarantine) && (s.Allows(Replay) || !s.Allows(Repair)), "may be quarantined and is not repaired, or is quarantined"},
			{s.Allows(Replay) && (s.Allows(Whole) || !s.Allows(Repair)), "is quarantined and whole, or not repaired"},
			{s.Allows(AsFound) && s.Allows(Append|Read|Whole|Flush), "is used, and checkpoints repeat what they said"},
			{s.Allows(Append) && s != Online && s != Swapping, "takes records"},
			{s != Opening && s != Deleted && !leads(s, Deletion), "cannot be deleted"},
			{s.Allows(Repair) && !leads(s, Mended, SwapDone, CutDone, Replayed), "is repaired without an end"},
		} {
			if rule.broken {
				t.Errorf("a log that is %v %s", s, rule.what)
			}
		}
	}
	for e := Opened; e <= Deletion; e++ {
		if next, _ := Deleted.On(e); next != Deleted {
			t.Errorf("%v brings a deleted log back", e)
		}
	}
	for s := range DirState(len(dirs.Rows)) {
		if s.Allows(Records) && (!s.Allows(Journal) || s.Allows(Stops)) {
			t.Errorf("a directory that is %v takes records", s)
		}
		for e := Recovered; e <= Stop; e++ {
			if next, _ := s.On(e); s.Allows(Stops) && !next.Allows(Stops) {
				t.Errorf("%v ends a stop", e)
			}
		}
	}
}

// Two replicas never assign offsets in one epoch, and only a new epoch or a resume ends a hold.
func TestWhatTheRolesPromise(t *testing.T) {
	for r := range Role(len(roles.Rows)) {
		if r.Allows(Own) && (r.Allows(Copied) || !r.Allows(Leads)) {
			t.Errorf("a log that is %v assigns offsets and copies them", r)
		}
		for e := Lead; e <= Resumed; e++ {
			next, answer := r.On(e)
			if answer == states.Refused {
				t.Errorf("a log that is %v refuses %q", r, e)
			}
			if next.Allows(Own) && !r.Allows(Own) && e != Lead && (e != Resumed || !r.Allows(Leads)) {
				t.Errorf("%q makes a log that is %v assign offsets", e, r)
			}
			if next.Allows(Leads) != r.Allows(Leads) && e != Lead && e != LeadBehind && e != Follow {
				t.Errorf("%q changes who leads", e)
			}
		}
		if next, _ := r.On(Discarded); next.Allows(Own) {
			t.Errorf("a log that is %v assigns offsets after a discard", r)
		}
	}
}

// leads reports whether one of some events changes the state.
func leads(s State, events ...Event) bool {
	return slices.ContainsFunc(events, func(e Event) bool {
		_, answer := s.On(e)
		return answer == states.Moved
	})
}

func TestNames(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"swap stuck": SwapStuck, "found damaged": FoundDamaged, "stopping, journal dead": StoppingDead, "freed": Freed,
	} {
		if got.String() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
