package main

import (
	"strings"
	"testing"
)

// feed passes lines of members to a world: "NAME: LINE". A line without a member is an acknowledged
// record: "ack TOPIC PARTITION OFFSET VALUE".
func feed(t *testing.T, w *world, lines ...string) {
	t.Helper()
	for _, l := range lines {
		name, said, ok := strings.Cut(l, ": ")
		if !ok {
			ev, err := parseEvent("R" + strings.TrimPrefix(l, "ack"))
			if err != nil {
				t.Fatal(err)
			}
			w.acked(ev.places[0], ev.offset, ev.value)
			continue
		}
		ev, err := parseEvent(said)
		if err != nil {
			t.Fatal(err)
		}
		w.handle(name, ev)
	}
}

func TestAGroupThatDidWell(t *testing.T) {
	w := newWorld()
	feed(t, w, "ack t 0 0 a", "ack t 0 1 b", "a: A t:0", "a: R t 0 0 a", "a: C t 0 1", "a: R t 0 1 b", "a: L t:0",
		"b: A t:0", "b: R t 0 1 b", "b: C t 0 2", "b: E whatever")
	w.commits(map[place]int64{{"t", 0}: 2})
	if records, reads := w.unseen(); records != 2 || reads != 3 || w.err() != nil {
		t.Errorf("%d records, %d reads, %v", records, reads, w.err())
	}
	if err := w.distributed([]place{{"t", 0}}, []string{"b"}); err != nil {
		t.Error(err)
	}
	if err := w.behind(map[place]int64{{"t", 0}: 2}); err != nil {
		t.Error(err)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	cases := map[string]struct {
		lines  []string
		before map[place]int64
		after  map[place]int64
		want   string
	}{
		"a record is left out":       {lines: []string{"a: A t:0", "a: R t 0 0 x", "a: R t 0 2 z"}, want: "reads 2 of t:0 after 0"},
		"a record comes twice":       {lines: []string{"a: A t:0", "a: R t 0 0 x", "a: R t 0 0 x"}, want: "reads 0 of t:0 after 0"},
		"no member read a record":    {lines: []string{"ack t 0 5 x"}, want: `no member read "x" at 5`},
		"another was seen there":     {lines: []string{"ack t 0 5 x", "a: R t 0 5 y"}, want: `"y" was read there`},
		"two see different records":  {lines: []string{"a: R t 0 5 x", "b: R t 0 5 y"}, want: `where "x" was before`},
		"two are acknowledged there": {lines: []string{"ack t 0 5 x", "ack t 0 5 y"}, want: "both acknowledged"},
		"it begins behind a commit":  {lines: []string{"a: C t 0 7", "b: A t:0", "b: R t 0 6 x"}, want: "begins t:0 at 6, behind 7"},
		"the commit goes back": {
			before: map[place]int64{{"t", 0}: 9},
			after:  map[place]int64{{"t", 0}: 8},
			want:   "went back from 9 to 8",
		},
		"the commit is gone": {
			before: map[place]int64{{"t", 0}: 9},
			after:  map[place]int64{},
			want:   "commit of t:0 at 9 is gone",
		},
		"a commit was not kept": {
			lines: []string{"a: C t 0 10"},
			after: map[place]int64{{"t", 0}: 9},
			want:  "the broker returned the committed offset 10 of t:0; correct is 9",
		},
		"a new reader leaves some out": {
			after: map[place]int64{{"t", 0}: 9},
			lines: []string{"resume", "a: A t:0", "a: R t 0 10 x"},
			want:  "begins t:0 at 10, but 9",
		},
		"a new reader begins too early": {
			after: map[place]int64{{"t", 0}: 9},
			lines: []string{"resume", "a: A t:0", "a: R t 0 8 x"},
			want:  "begins t:0 at 8, but 9",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if c.before != nil {
				w.commits(c.before)
			}
			lines := c.lines
			if len(lines) > 0 && lines[0] == "resume" {
				w.commits(c.after)
				w.resume()
				lines = lines[1:]
			}
			feed(t, w, lines...)
			if c.after != nil {
				w.commits(c.after)
				w.resume()
			}
			w.unseen()
			if err := w.err(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestSharedIsOneOwnerEachAndSomethingForAll(t *testing.T) {
	w := newWorld()
	all := []place{{"t", 0}, {"t", 1}}
	feed(t, w, "a: A t:0 t:1")
	for _, c := range []struct {
		line    string
		members []string
		want    string
	}{
		{"a: E", []string{"a"}, ""},
		{"a: E", []string{"a", "b"}, "b owns nothing"},
		{"b: A t:1", []string{"a", "b"}, "t:1 is owned by 2"},
		{"a: L t:1", []string{"a", "b"}, ""},
		{"a: L t:0", []string{"b"}, "t:0 is owned by 0"},
	} {
		feed(t, w, c.line)
		if err := w.distributed(all, c.members); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("after %q: %v, want %q", c.line, err, c.want)
		}
	}
	w.dead("b")
	if owned, _ := w.owned("b"); owned != "" {
		t.Errorf("the dead own %s", owned)
	}
}

func TestLinesThatAreNoEvents(t *testing.T) {
	for _, line := range []string{"", "hello", "A t", "A t:x", "R t 0 0", "R t x 0 v", "R t 0 x v", "C t 0", "C t 0 1 2", "X"} {
		if ev, err := parseEvent(line); err == nil {
			t.Errorf("%q is %v", line, ev)
		}
	}
}
