package top

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/testing/golden"
)

func shown(s *screen, st *state, width, height int) string {
	text := strings.Join(s.draw(st, width, height), "\n") + "\n"
	return strings.NewReplacer(reverse, "[", plain, "]").Replace(text)
}

// The golden file shows the screen in all its states.
func TestTheScreen(t *testing.T) {
	whole := screen{report: compare(busy(10), busy(14)), seeds: "127.0.0.1:9092"}
	usual := func(change func(*state)) *state {
		st := &state{view: all, every: 2 * time.Second}
		if change != nil {
			change(st)
		}
		return st
	}
	hung, failed, partly := whole, whole, whole
	hung.waits = 7300 * time.Millisecond
	failed.err = errors.New("ask for the cluster: EOF\nand more")
	partly.report = compare(busy(10), busy(14))
	partly.report.Missing = []string{"clients: no admin port"}
	trio := busy(14)
	trio.brokers = brokersOf(kadm.Metadata{
		Brokers: kadm.BrokerDetails{{NodeID: 1, Host: "a", Port: 9092}, {NodeID: 2, Host: "b", Port: 9092}},
		Topics: kadm.TopicDetails{"orders": {Partitions: kadm.PartitionDetails{
			0: {Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}},
			1: {Leader: 2, Replicas: []int32{2, 3, 1}, ISR: []int32{2}}}}}})
	cluster := screen{report: compare(busy(10), trio), seeds: "a:9092"}
	var b strings.Builder
	for _, c := range []struct {
		name          string
		s             screen
		st            *state
		width, height int
	}{
		{"all tables", whole, usual(nil), 120, 24},
		{"little room", whole, usual(nil), 60, 12},
		{"one table, sorted by another column", whole, usual(func(s *state) { s.press("c", nil); s.press("<", whole.report.grids()) }), 100,
			6},
		{"the same, reversed", whole, usual(func(s *state) {
			s.press("c", nil)
			s.press("left", whole.report.grids())
			s.press("r", nil)
		}), 100, 6},
		{"scrolled", whole, usual(func(s *state) { s.press("t", nil); s.press("j", nil); s.press("down", nil) }), 100, 4},
		{"paused", whole, usual(func(s *state) { s.press("b", nil); s.press("space", nil); s.press("-", nil) }), 120, 5},
		{"a broker that hangs", hung, usual(nil), 120, 4},
		{"a broker that is away", failed, usual(nil), 120, 4},
		{"a part is missing", partly, usual(nil), 120, 4},
		{"at the begin", screen{seeds: "a:1"}, usual(nil), 80, 24},
		{"brokers of a cluster", cluster, usual(func(s *state) { s.press("b", nil) }), 120, 6},
		{"help", whole, usual(func(s *state) { s.press("?", nil) }), 80, 24},
	} {
		b.WriteString("# " + c.name + "\n" + shown(&c.s, c.st, c.width, c.height) + "\n")
	}
	golden.File(t, "testdata/screen.golden", b.String(), "go test ./internal/tools/ctl/top -run Screen")
}

// The screen fits into a terminal of any size, and no name moves the cursor.
func TestTheScreenFits(t *testing.T) {
	s := screen{report: compare(busy(10), busy(14)), seeds: strings.Repeat("broker.example.com:9092,", 10)}
	for view := all; view < viewCount; view++ {
		for width := 1; width < 140; width += 7 {
			for height := 0; height < 40; height += 3 {
				lines := s.draw(&state{view: view, every: time.Second}, width, height)
				if len(lines) > height {
					t.Fatalf("view %d, %d × %d: %d lines", view, width, height, len(lines))
				}
				for _, l := range lines {
					l = strings.TrimSuffix(strings.TrimPrefix(l, reverse), plain)
					if n := utf8.RuneCountInString(l); n > width || strings.ContainsAny(l, "\x1b\n") {
						t.Fatalf("view %d, %d × %d: %q has %d characters", view, width, height, l, n)
					}
				}
			}
		}
	}
}

func TestKeysOfATerminal(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "q": "q", "tg": "t g", " ": "space", "\x1b[A\x1b[B": "up down", "\x1bOC\x1b[D": "right left", "\x1b": "", "\x1b[": "[",
		"\xc3\xa4": "", "\x1b[Zq": "q",
	} {
		if got := strings.Join(readKeys([]byte(in)), " "); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Each key changes the state as its help says, within bounds.
func TestKeys(t *testing.T) {
	st := state{view: all, every: 2 * time.Second}
	for range 20 {
		st.press("+", nil)
	}
	if st.every != minInterval {
		t.Errorf("every %v", st.every)
	}
	for range 20 {
		st.press("-", nil)
	}
	if st.every != maxInterval {
		t.Errorf("every %v", st.every)
	}
	g := compare(busy(10), busy(14)).grids()
	st.press(">", g)
	st.press("r", g)
	if st.column != [viewCount]int{} || st.reversed != [viewCount]bool{} {
		t.Errorf("all tables are sorted: %+v", st)
	}
	st.press("g", g)
	for range 20 {
		st.press(">", g)
	}
	if st.sortedBy(groupsView, g[groupsView]) != len(g[groupsView].columns)-1 {
		t.Errorf("%+v", st)
	}
	st.press("up", g)
	st.press("h", g)
	st.press("t", g) // it only ends the help
	if st.view != groupsView || st.help || st.first != 0 {
		t.Errorf("%+v", st)
	}
	st.press("i", g)
	st.press("?", g)
	st.press("q", g)
	if !st.internal || !st.quit {
		t.Errorf("%+v", st)
	}
}
