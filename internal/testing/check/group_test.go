package check

import (
	"strings"
	"testing"
)

func TestGroup(t *testing.T) {
	log := []Record{{0, 1, "a"}, {1, 1, "b"}, {3, 1, "c"}}
	for name, x := range map[string]struct {
		do     func(g *Group)
		stored int64
		want   string
	}{
		"sound":                     {func(*Group) {}, 4, ""},
		"the last commit may count": {func(g *Group) { g.Committing(2, 5) }, 5, ""},
		"a late one":                {func(g *Group) { g.Committing(1, 2); g.Begun(2, 4) }, 2, ""},
		"an earlier generation":     {func(g *Group) { g.Committing(1, 4)() }, 4, "fenced: a commit of generation 1"},
		"both at once":              {func(g *Group) { acked := g.Committing(2, 4); g.Committing(3, 4)(); acked() }, 4, ""},
		"consumed twice":            {func(g *Group) { g.Begun(1, 1); g.Consumed(1) }, 4, ""},
		"an older commit":           {func(g *Group) { g.Begun(1, 4) }, 4, "went back: the offset was 1, and 4 was committed before"},
		"commits may be lost":       {func(g *Group) { g.Lose(); g.Begun(1, 4) }, 1, ""},
		"an unknown offset":         {func(g *Group) { g.Begun(7, 0) }, 4, "skipped: the offset was 7"},
		"records may be lost":       {func(g *Group) { g.LoseRecords(); delete(g.consumed, 1); g.Begun(0, 4) }, 4, ""},
		"the last commit is lost":   {func(*Group) {}, 1, "went back: the offset was 1"},
		"an unknown last offset":    {func(*Group) {}, 5, "skipped: the offset was 5"},
		"a record is missed":        {func(g *Group) { delete(g.consumed, 1) }, 4, "missed: the record at offset 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var g Group
			g.Begun(0, g.Acked())
			g.Consumed(0)
			g.Committing(1, 1)()
			g.Consumed(1)
			g.Consumed(3)
			g.Committing(2, 4)()
			x.do(&g)
			got := strings.Join(g.Problems(log, x.stored), "\n")
			if (x.want == "") != (got == "") || !strings.HasPrefix(got, x.want) {
				t.Errorf("want %q, got %q", x.want, got)
			}
		})
	}
}

func TestLeaders(t *testing.T) {
	for want, tell := range map[string]func(l *Leaders){
		"":        func(l *Leaders) { l.Named("1a", "t-0", 6, -1); l.Named("1b", "t-0", 4, 3); l.Named("2a", "t-1", 5, 2) },
		"epochs":  func(l *Leaders) { l.Named("1a", "t-0", 4, 3) },
		"leaders": func(l *Leaders) { l.Named("2a", "t-0", 5, 2) },
	} {
		var l Leaders
		l.Named("1a", "t-0", 4, 3)
		l.Named("1a", "t-0", 5, 1)
		tell(&l)
		got := strings.Join(l.Problems(), "\n")
		if (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}
