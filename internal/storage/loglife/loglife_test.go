package loglife

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
)

const again = "go test ./internal/storage/loglife"

// edges lists the transitions of a table as "state ── event ──▶ state".
func edges[S, E ~uint8, U ~uint16](t *table[S, E, U]) []string {
	var list []string
	for _, r := range t.rows {
		for e, next := range r.next {
			if next != ignore {
				list = append(list, fmt.Sprintf("%s ── %s ──▶ %s", r.name, t.events[e], t.rows[next].name))
			}
		}
	}
	slices.Sort(list)
	return list
}

// drawn lists the transitions that a part of the package comment draws.
func drawn[S, E ~uint8, U ~uint16](t *table[S, E, U], part string) []string {
	var list []string
	states := func(name string) []string {
		name, all := strings.TrimSpace(name), []string{}
		if !strings.HasPrefix(name, "{") {
			return []string{name}
		}
		name = strings.Trim(name, "{}")
		but, any := strings.CutPrefix(name, "any but ")
		if !any {
			return strings.Split(name, ", ")
		}
		for _, r := range t.rows {
			if !slices.Contains(strings.Split(but, " and "), r.name) {
				all = append(all, r.name)
			}
		}
		return all
	}
	for line := range strings.Lines(part) {
		p := regexp.MustCompile(` ──▶ | ── `).Split(strings.TrimSpace(strings.TrimPrefix(line, "//")), -1)
		for i := 0; i+2 < len(p); i += 2 {
			for _, from := range states(p[i]) {
				list = append(list, fmt.Sprintf("%s ── %s ──▶ %s", from, p[i+1], p[i+2]))
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestTheDrawingIsTheTable(t *testing.T) {
	b, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "# A log\n")
	ofLog, ofDir, _ := strings.Cut(rest, "# A log directory\n")
	compare(t, "log", drawn(&logs, ofLog), edges(&logs))
	compare(t, "directory", drawn(&dirs, ofDir), edges(&dirs))
}

func compare(t *testing.T, of string, drawing, table []string) {
	t.Helper()
	for _, e := range drawing {
		if !slices.Contains(table, e) {
			t.Errorf("%s: drawn, and not in the table: %s", of, e)
		}
	}
	for _, e := range table {
		if !slices.Contains(drawing, e) {
			t.Errorf("%s: in the table, and not drawn: %s", of, e)
		}
	}
}

func TestTheDocumentShowsTheTable(t *testing.T) {
	golden.Part(t, "../../../docs/journal.md", "states of a log", page(&logs), again)
	golden.Part(t, "../../../docs/journal.md", "states of a directory", page(&dirs), again)
}

// page returns the table as docs/journal.md has it.
func page[S, E ~uint8, U ~uint16](t *table[S, E, U]) string {
	var b strings.Builder
	b.WriteString("| state |")
	for _, u := range t.uses {
		b.WriteString(" " + u + " |")
	}
	b.WriteString(" leaves it by |\n|---|" + strings.Repeat("---|", len(t.uses)) + "---|\n")
	for s, r := range t.rows {
		b.WriteString("| " + r.name + " |")
		for i := range t.uses {
			b.WriteString(map[bool]string{true: " yes |", false: " |"}[r.allows&(1<<i) != 0])
		}
		var leaves []string
		for _, e := range slices.Sorted(maps.Keys(r.next)) {
			if next := r.next[e]; next != ignore && next != S(s) {
				leaves = append(leaves, t.events[e]+" → "+t.rows[next].name)
			}
		}
		b.WriteString(" " + strings.Join(leaves, "; ") + " |\n")
	}
	return b.String()
}

func TestEveryStateIsReachedAndEveryEventAnswered(t *testing.T) {
	walk(t, &logs, int(Deletion)+1, AsFound)
	walk(t, &dirs, int(Stop)+1, Stops)
}

func walk[S, E ~uint8, U ~uint16](t *testing.T, x *table[S, E, U], events int, lastUse U) {
	t.Helper()
	if len(x.events) != events || 1<<(len(x.uses)-1) != lastUse {
		t.Errorf("%d names for %d events, %d for uses up to %d", len(x.events), events, len(x.uses), lastUse)
	}
	reached, found := map[S]bool{0: true}, []S{0}
	for len(found) > 0 {
		s := found[0]
		found = found[1:]
		for e := range E(events) {
			next, answer := x.on(s, e)
			if answer != Moved && next != s {
				t.Errorf("%s: %s changes the state, but it did not move", x.rows[s].name, x.events[e])
			}
			if answer == Moved && !reached[next] {
				reached[next], found = true, append(found, next)
			}
		}
	}
	heard := map[E]bool{}
	for s, r := range x.rows {
		if r.name == "" || !reached[S(s)] {
			t.Errorf("state %d, %q, is never reached", s, r.name)
		}
		for e, next := range r.next {
			heard[e] = heard[e] || next != ignore
		}
	}
	for e := range E(events) {
		if !heard[e] {
			t.Errorf("no state is left by %q", x.events[e])
		}
	}
}

// Properties on which package storage relies.
func TestWhatTheStatesPromise(t *testing.T) {
	for s := range State(len(logs.rows)) {
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
			{s.Allows(AsFound) && s.Allows(Append|Read|Whole|Flush|Repair), "is used, and checkpoints repeat what they said"},
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
	for s := range DirState(len(dirs.rows)) {
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

// leads reports whether one of some events changes the state.
func leads(s State, events ...Event) bool {
	return slices.ContainsFunc(events, func(e Event) bool {
		_, answer := s.On(e)
		return answer == Moved
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
