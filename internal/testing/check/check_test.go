package check

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// sound returns a history without a problem and its log.
func sound() (*History, []Record) {
	h := NewHistory()
	for _, v := range []string{"a", "b", "c", "d"} {
		h.Attempted(v)
	}
	h.Acked(0, "a")
	h.Acked(2, "c")
	h.Read(Record{0, 1, "a"})
	h.Read(Record{1, 1, "b"})
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
		"vanished: \"d\"":                 func(h *History, log []Record) []Record { h.Read(Record{3, 1, "d"}); return log },
		"phantom: \"x\"":                  func(_ *History, log []Record) []Record { return append(log, Record{3, 2, "x"}) },
		"duplicate: \"b\"":                func(_ *History, log []Record) []Record { return append(log, Record{3, 2, "b"}) },
		"order: offset 2 ":                func(_ *History, log []Record) []Record { return append(log, Record{2, 2, "c"}) },
		"order: offset 3 of epoch 1":      func(_ *History, log []Record) []Record { return append(log, Record{3, 1, "d"}) },
		"changed: offset 1":               func(h *History, log []Record) []Record { h.Read(Record{1, 1, "d"}); return log },
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

// An unclean election excuses the loss of what was acknowledged and read before it, in an earlier
// epoch, and not before a time.
func TestUncleanElectionsExcuseLosses(t *testing.T) {
	for name, x := range map[string]struct {
		epoch int32
		age   time.Duration // of what may be lost; 0 for any
		has   Record        // what the log has at offset 1; zero: "n" of epoch 3
		after func(h *History)
		want  string
	}{
		"all may be lost":     {epoch: 3},
		"what is recent may":  {epoch: 3, age: time.Minute},
		"what is old may not": {epoch: 3, age: time.Millisecond, want: `lost: "c" was acknowledged at offset 2`},
		"later acks are kept": {epoch: 3, after: func(h *History) { h.Attempted("x"); h.Acked(1, "x") }, want: `lost: "x"`},
		"reads of later epochs": {epoch: 3, after: func(h *History) { h.Attempted("x"); h.Read(Record{5, 3, "x"}) },
			want: `vanished: "x"`},
		"a change within an epoch": {epoch: 3, after: func(h *History) { h.Read(Record{1, 1, "d"}); h.Read(Record{1, 1, "b"}) },
			want: "changed: offset 1"},
		"a leader that was cut off": {epoch: 3, after: func(h *History) { h.Read(Record{1, 0, "d"}); h.Read(Record{1, 1, "b"}) }},
		"a leader that knows of the election": {epoch: 3, after: func(h *History) {
			h.Read(Record{1, 0, "d"})
			h.Agreed()
			h.Read(Record{1, 1, "b"})
		}, want: "changed: offset 1"},
		"what the log has, read after a leader that was cut off": {epoch: 3, has: Record{1, 1, "d"}, after: func(h *History) {
			h.Read(Record{1, 2, "c"})
			time.Sleep(time.Second)
			h.Agreed()
			time.Sleep(time.Second)
			h.Read(Record{1, 1, "d"})
		}},
		"what the log has, read after one that knows": {epoch: 3, has: Record{1, 1, "d"}, after: func(h *History) {
			h.Agreed()
			h.Read(Record{1, 2, "c"})
			h.Read(Record{1, 1, "d"})
		}, want: "changed: offset 1"},
		"an earlier epoch": {epoch: 1, want: `vanished: "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, log := sound()
				time.Sleep(time.Second)
				since := time.Time{}
				if x.age > 0 {
					since = time.Now().Add(-x.age)
				}
				h.Unclean(x.epoch, since)
				time.Sleep(time.Second)
				if x.after != nil {
					x.after(h)
				}
				h.Attempted("n")
				if x.has == (Record{}) {
					x.has = Record{1, 3, "n"}
				}
				got := strings.Join(h.Problems([]Record{log[0], x.has}), "\n")
				if (x.want == "") != (got == "") || !strings.Contains(got, x.want) {
					t.Errorf("want %q, got %q", x.want, got)
				}
			})
		})
	}
}

// What a leader served while it was cut off may be missing at the end, where the elected log has a
// record of an earlier epoch; what one served after all knew of the election may not.
func TestReadsOfALeaderThatWasCutOff(t *testing.T) {
	for name, agreedFirst := range map[string]bool{"until it knows of the election": false, "afterwards": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, log := sound()
				h.Attempted("d")
				h.Attempted("n")
				h.Unclean(4, time.Time{})
				read := func() { h.Read(Record{3, 3, "d"}) }
				steps := []func(){read, h.Agreed}
				if agreedFirst {
					slices.Reverse(steps)
				}
				for _, step := range steps {
					time.Sleep(time.Second)
					step()
				}
				got := strings.Join(h.Problems(append(log, Record{3, 2, "n"})), "\n")
				if strings.Contains(got, "vanished") != agreedFirst {
					t.Errorf("%q", got)
				}
			})
		})
	}
}

func TestARegisterThatMayHaveLostWrites(t *testing.T) {
	var r Register
	for n := range int64(3) {
		r.Begin()
		r.Acked(n + 1)
	}
	r.Lose()
	for n := range int64(4) {
		if got := r.Read(n); got != "" {
			t.Error(got)
		}
	}
	r.Acked(r.Begin())
	for n := range int64(4) {
		if r.Read(n) == "" {
			t.Errorf("%d may be read after a later write", n)
		}
	}
}

// What was deleted, or has a later record of its key in a compacted log, may be missing, and
// nothing else. A deletion that was acknowledged stays.
func TestRemovedRecords(t *testing.T) {
	for want, change := range map[string]func(h *History, log []Record) []Record{
		"":                      func(_ *History, log []Record) []Record { return log[1:] },
		"returned: \"a\"":       func(_ *History, log []Record) []Record { return log },
		"vanished: \"b\"":       func(_ *History, log []Record) []Record { return log[2:] },
		"lost: \"a\"":           func(_ *History, log []Record) []Record { return append([]Record{{0, 1, "b"}}, log[1:]...) },
		"out of range: a fetch": func(h *History, log []Record) []Record { h.OutOfRange(2, h.Known()); return log[1:] },
	} {
		h, log := sound()
		if h.Known() != 3 || h.MayStart(1) {
			t.Errorf("known below %d", h.Known())
		}
		h.Deleting(1)()
		h.OutOfRange(0, 3) // it is deleted
		h.OutOfRange(4, 3) // there may be no record
		if !h.MayStart(1) || h.MayStart(2) {
			t.Error("where may the log start?")
		}
		got := h.Problems(change(h, log))
		if want == "" && len(got) > 0 || want != "" && !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	for want, log := range map[string][]Record{
		"":             {{3, 2, "a3"}, {2, 2, "b2"}},
		"lost: \"b2\"": {{3, 2, "a3"}},
	} {
		h := NewHistory()
		h.Compacts(func(value string) string { return value[:1] })
		for i, v := range []string{"a0", "b1", "b2", "a3"} {
			h.Attempted(v)
			h.Acked(int64(i), v)
		}
		slices.Reverse(log)
		got := strings.Join(h.Problems(log), "\n")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}
