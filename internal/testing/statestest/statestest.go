// Package statestest compares a table of states with its drawing in a package comment, and writes
// it as a page of docs/ shows it. It does not know what the states mean.
package statestest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/states"
)

// Drawing fails the test if the transitions of a table differ from those that text draws, as
// "state ── event ──▶ state". A list of states in braces stands for each of them, "{any but a and
// b}" for all others.
func Drawing[S, E ~uint8, U ~uint16](t testing.TB, of string, table *states.Table[S, E, U], text string) {
	t.Helper()
	drawing, rows := drawn(table, text), edges(table)
	for _, e := range drawing {
		if !slices.Contains(rows, e) {
			t.Errorf("%s: drawn, and not in the table: %s", of, e)
		}
	}
	for _, e := range rows {
		if !slices.Contains(drawing, e) {
			t.Errorf("%s: in the table, and not drawn: %s", of, e)
		}
	}
}

// edges lists the transitions of a table.
func edges[S, E ~uint8, U ~uint16](t *states.Table[S, E, U]) []string {
	var list []string
	for _, r := range t.Rows {
		for e, next := range r.Next {
			if next != states.Ignore {
				list = append(list, fmt.Sprintf("%s ── %s ──▶ %s", r.Name, t.Events[e], t.Rows[next].Name))
			}
		}
	}
	slices.Sort(list)
	return list
}

// drawn lists the transitions that a text draws.
func drawn[S, E ~uint8, U ~uint16](t *states.Table[S, E, U], text string) []string {
	var list []string
	from := func(name string) []string {
		name, all := strings.TrimSpace(name), []string{}
		if !strings.HasPrefix(name, "{") {
			return []string{name}
		}
		name = strings.Trim(name, "{}")
		but, any := strings.CutPrefix(name, "any but ")
		if !any {
			return strings.Split(name, ", ")
		}
		for _, r := range t.Rows {
			if !slices.Contains(strings.Split(but, " and "), r.Name) {
				all = append(all, r.Name)
			}
		}
		return all
	}
	for line := range strings.Lines(text) {
		p := regexp.MustCompile(` ──▶ | ── `).Split(strings.TrimSpace(strings.TrimPrefix(line, "//")), -1)
		for i := 0; i+2 < len(p); i += 2 {
			for _, s := range from(p[i]) {
				list = append(list, fmt.Sprintf("%s ── %s ──▶ %s", s, p[i+1], p[i+2]))
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Page returns a table as a table of Markdown: the uses of each state, the events that it only
// permits because another table moves on them, and the events that it is left by.
func Page[S, E ~uint8, U ~uint16](t *states.Table[S, E, U]) string {
	columns := slices.Clone(t.Uses)
	var permits []E
	for e := range E(len(t.Events)) {
		if t.Hears(e) && !t.Moves(e) {
			permits, columns = append(permits, e), append(columns, t.Events[e])
		}
	}
	var b strings.Builder
	b.WriteString("| state |")
	for _, c := range columns {
		b.WriteString(" " + c + " |")
	}
	b.WriteString(" leaves it by |\n|---|" + strings.Repeat("---|", len(columns)) + "---|\n")
	mark := map[bool]string{true: " yes |", false: " |"}
	for s, r := range t.Rows {
		b.WriteString("| " + r.Name + " |")
		for i := range t.Uses {
			b.WriteString(mark[r.Allows&(1<<i) != 0])
		}
		for _, e := range permits {
			_, answer := t.On(S(s), e)
			b.WriteString(mark[answer != states.Refused])
		}
		var leaves []string
		for _, e := range slices.Sorted(maps.Keys(r.Next)) {
			if next := r.Next[e]; next != states.Ignore && next != S(s) {
				leaves = append(leaves, t.Events[e]+" → "+t.Rows[next].Name)
			}
		}
		b.WriteString(" " + strings.Join(leaves, "; ") + " |\n")
	}
	return b.String()
}

// Reached fails the test unless every state has a name and is reached from the first one, every
// event has a name, and every event changes a state.
func Reached[S, E ~uint8, U ~uint16](t testing.TB, x *states.Table[S, E, U], events int, lastUse U) {
	t.Helper()
	if len(x.Events) != events || 1<<(len(x.Uses)-1) != lastUse {
		t.Errorf("%d names for %d events, %d for uses up to %d", len(x.Events), events, len(x.Uses), lastUse)
	}
	reached, found := map[S]bool{0: true}, []S{0}
	for len(found) > 0 {
		s := found[0]
		found = found[1:]
		for e := range E(events) {
			next, answer := x.On(s, e)
			if answer != states.Moved && next != s {
				t.Errorf("%s: %s changes the state, but it did not move", x.Rows[s].Name, x.Events[e])
			}
			if answer == states.Moved && !reached[next] {
				reached[next], found = true, append(found, next)
			}
		}
	}
	for s, r := range x.Rows {
		if r.Name == "" || !reached[S(s)] {
			t.Errorf("state %d, %q, is never reached", s, r.Name)
		}
	}
	for e := range E(events) {
		if !x.Moves(e) {
			t.Errorf("no state is left by %q", x.Events[e])
		}
	}
}
