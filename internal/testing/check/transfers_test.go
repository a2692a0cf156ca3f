package check

import (
	"strings"
	"testing"
)

// moved returns a history of a committed, an aborted and an open transaction, and a reader of the
// first one.
func moved() (*Transfers, *View) {
	h := NewTransfers()
	h.Begin(Transfer{"p", 1}, 5, -5)
	h.Committed(Transfer{"p", 1})
	h.Begin(Transfer{"p", 2}, 7, -7)
	h.Aborted(Transfer{"p", 2})
	h.Begin(Transfer{"p", 3}, 1, 2, -3)
	v := h.View()
	v.Read(Position{"a", 0}, Piece{Transfer{"p", 1}, 0, 5})
	v.Read(Position{"b", 0}, Piece{Transfer{"p", 1}, 1, -5})
	return h, v
}

func TestProblemsOfTransfers(t *testing.T) {
	third := func(i int, amount int64) Piece { return Piece{Transfer{"p", 3}, i, amount} }
	for want, change := range map[string]func(h *Transfers, v *View){
		"": func(*Transfers, *View) {},
		"shown: 1 records of p/2": func(_ *Transfers, v *View) {
			v.Read(Position{"a", 2}, Piece{Transfer{"p", 2}, 0, 7})
			v.Read(Position{"a", 3}, third(0, 1))
			v.Read(Position{"a", 4}, third(1, 2))
			v.Read(Position{"a", 5}, third(2, -3))
		},
		"doubled: {p/1 0 5}": func(_ *Transfers, v *View) { v.Read(Position{"a", 1}, Piece{Transfer{"p", 1}, 0, 5}) },
		"phantom: {a 1} has {q/1 0 0}": func(_ *Transfers, v *View) {
			v.Read(Position{"a", 1}, Piece{Transfer{"q", 1}, 0, 0})
		},
		"phantom: {a 1} has {p/3 3 0}": func(_ *Transfers, v *View) { v.Read(Position{"a", 1}, third(3, 0)) },
		"phantom: {a 1} has {p/3 0 9}": func(_ *Transfers, v *View) { v.Read(Position{"a", 1}, third(0, 9)) },
		"order: {a 0} was read after offset 1": func(_ *Transfers, v *View) {
			v.Read(Position{"a", 1}, third(0, 1))
			v.Read(Position{"a", 0}, Piece{Transfer{"p", 1}, 0, 5})
		},
		"order: {a 2} has {p/3 0 1}, after {p/3 1 2}": func(_ *Transfers, v *View) {
			v.Read(Position{"a", 1}, third(1, 2))
			v.Read(Position{"a", 2}, third(0, 1))
			v.Read(Position{"b", 1}, third(2, -3))
		},
		"order: {a 3} has {p/3 2 -3}, after {p/4 0 0}": func(h *Transfers, v *View) {
			h.Begin(Transfer{"p", 4}, 0)
			v.Read(Position{"b", 1}, third(0, 1))
			v.Read(Position{"b", 2}, third(1, 2))
			v.Read(Position{"a", 2}, Piece{Transfer{"p", 4}, 0, 0})
			v.Read(Position{"a", 3}, third(2, -3))
		},
		"changed: {a 0} has {p/3 0 1}": func(h *Transfers, v *View) {
			other := h.View()
			other.Read(Position{"a", 0}, third(0, 1))
			v.wrong = other.wrong
		},
		"zombie: the commit of p/2":   func(h *Transfers, _ *View) { h.Committed(Transfer{"p", 2}) },
		"torn: 1 of 3 records of p/3": func(_ *Transfers, v *View) { v.Read(Position{"a", 1}, third(0, 1)) },
		"lost: p/4": func(h *Transfers, _ *View) {
			h.Begin(Transfer{"p", 4}, 1, -1)
			h.Committed(Transfer{"p", 4})
		},
		"bad test: transaction p/4": func(h *Transfers, _ *View) { h.Begin(Transfer{"p", 4}, 1) },
	} {
		h, v := moved()
		change(h, v)
		got := v.Problems(true)
		if want == "" && len(got) > 0 || want != "" && !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("expected %q, got %q", want, got)
		}
	}
}

// The sum is judged at every boundary, also if a later record would make it right again.
func TestSumOfTransfersAtABoundary(t *testing.T) {
	h, v := moved()
	v.Read(Position{"a", 1}, Piece{Transfer{"p", 1}, 0, 5}) // a copy: no transaction is half seen
	v.Read(Position{"a", 2}, Piece{Transfer{"p", 3}, 0, 1})
	v.Read(Position{"a", 3}, Piece{Transfer{"p", 3}, 1, 2})
	v.Read(Position{"a", 4}, Piece{Transfer{"p", 3}, 2, -3})
	if got := strings.Join(v.Problems(false), "\n"); !strings.Contains(got, "sum: it is 5 when no transaction is half seen, at {a 4}") {
		t.Errorf("got %q", got)
	}
	if committed, aborted, unknown := h.Counts(); committed != 1 || aborted != 1 || unknown != 1 {
		t.Errorf("%d committed, %d aborted, %d unknown", committed, aborted, unknown)
	}
}

// A reader that is still reading has seen parts of transactions, which is no problem yet.
func TestUnfinishedViewIsNotTorn(t *testing.T) {
	h, v := moved()
	h.Begin(Transfer{"p", 4}, 1, -1)
	h.Committed(Transfer{"p", 4})
	v.Read(Position{"a", 1}, Piece{Transfer{"p", 3}, 0, 1})
	if got := v.Problems(false); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

func TestOnce(t *testing.T) {
	written := map[string]bool{"a": true, "b": true, "c": true}
	acknowledged := []string{"a", "b"}
	for want, got := range map[string][]string{
		"":                               {"b", "a"},
		" ":                              {"a", "c", "b"},
		`lost: "b"`:                      {"a"},
		`doubled: "a" is there 2 times`:  {"a", "b", "a"},
		`doubled: "c" is there 2 times`:  {"a", "b", "c", "c"},
		`phantom: "x" was never written`: {"a", "b", "x"},
	} {
		if problems := strings.Join(Once(written, acknowledged, got), "\n"); problems != strings.TrimSpace(want) {
			t.Errorf("%v: %q, expected %q", got, problems, want)
		}
	}
}
