package check

import (
	"strings"
	"testing"
)

// sound returns a history without a problem and its log.
func sound() (*History, []Record) {
	h := NewHistory()
	for _, v := range []string{"a", "b", "c", "d"} {
		h.Attempted(v)
	}
	h.Acked(0, "a")
	h.Acked(2, "c")
	h.Read(0, "a")
	h.Read(1, "b")
	h.High(1, 1)
	h.High(1, 2)
	h.High(2, 1)
	return h, []Record{{0, 1, "a"}, {1, 1, "b"}, {2, 2, "c"}}
}

func TestProblems(t *testing.T) {
	for want, change := range map[string]func(h *History, log []Record) []Record{
		"":                                func(_ *History, log []Record) []Record { return log },
		"lost: \"c\"":                     func(_ *History, log []Record) []Record { return log[:2] },
		"lost: \"d\"":                     func(h *History, log []Record) []Record { h.Acked(1, "d"); return log },
		"vanished: \"d\"":                 func(h *History, log []Record) []Record { h.Read(3, "d"); return log },
		"phantom: \"x\"":                  func(_ *History, log []Record) []Record { return append(log, Record{3, 2, "x"}) },
		"duplicate: \"b\"":                func(_ *History, log []Record) []Record { return append(log, Record{3, 2, "b"}) },
		"order: offset 2 ":                func(_ *History, log []Record) []Record { return append(log, Record{2, 2, "c"}) },
		"order: offset 3 of epoch 1":      func(_ *History, log []Record) []Record { return append(log, Record{3, 1, "d"}) },
		"changed: offset 1":               func(h *History, log []Record) []Record { h.Read(1, "d"); return log },
		"high watermark: it fell from 2 ": func(h *History, log []Record) []Record { h.High(1, 1); return log },
	} {
		h, log := sound()
		got := h.Problems(change(h, log))
		if want == "" && len(got) > 0 || want != "" && !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

func TestReplicas(t *testing.T) {
	_, a := sound()
	for name, x := range map[string]struct {
		b   []Record
		bad int
	}{
		"equal":                        {a, 0},
		"shorter":                      {a[:1], 0},
		"compacted":                    {a[1:], 0},
		"diverged at the end":          {[]Record{{0, 1, "a"}, {1, 1, "b"}, {2, 1, "x"}}, 0},
		"another value":                {[]Record{{0, 1, "a"}, {1, 1, "x"}}, 1},
		"another epoch below":          {[]Record{{0, 1, "a"}, {1, 0, "b"}, {2, 2, "c"}}, 1},
		"another value below an equal": {[]Record{{0, 1, "x"}, {1, 1, "b"}}, 1},
	} {
		if got := Replicas(a, x.b); len(got) != x.bad {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestRegister(t *testing.T) {
	var r Register
	for range 4 {
		r.Begin()
	}
	r.Acked(1)
	r.Acked(3)
	for n, want := range map[int64]bool{0: false, 1: false, 2: true, 3: true, 4: true, 5: false} {
		if got := r.Read(n); (got == "") != want {
			t.Errorf("%d: %q", n, got)
		}
	}
	if r.Last() != 3 {
		t.Errorf("%d is the last", r.Last())
	}
}

// A value that was sent loosely may be lost or repeated, and an acknowledgement without an offset
// only says that the value is stored.
func TestLooseValues(t *testing.T) {
	h, log := sound()
	h.Loose("x")
	h.Loose("y")
	h.Acked(-1, "b")
	if got := h.Problems(append(log, Record{3, 2, "x"}, Record{4, 2, "x"})); len(got) > 0 {
		t.Errorf("%q", got)
	}
	h.Attempted("z")
	h.Acked(-1, "z")
	if got := h.Problems(log); len(got) != 1 || !strings.Contains(got[0], `lost: "z"`) {
		t.Errorf("%q", got)
	}
}
