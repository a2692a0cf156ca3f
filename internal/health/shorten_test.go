package health

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// A text that another broker sends and that is too long is marked, and no command in it is cut.
func TestALongTextIsCutBetweenClauses(t *testing.T) {
	received := func(text string) *Finding {
		p, err := json.Marshal(&Report{Findings: []Finding{{Problem: text, Remedy: text}}})
		must.OK(t, err)
		r, err := Decode(p)
		must.OK(t, err)
		return &r.Findings[0]
	}
	command := Command("cp", "-r", "/data/it's a; b. c `d`", "/save")
	for name, x := range map[string]struct {
		begin, each, want string // want is the end of what remains
		remedy            string // the same of a remedy, if it differs
	}{
		"clauses":           {"save each: ", "run " + command + "; ", "run " + command, ""},
		"sentences":         {"", "Run " + command + ". ", "Run " + command, ""},
		"a list":            {"stop the brokers ", "12, ", "12,", "(nothing)"},
		"a long command":    {"stop it; then run `rm ", "/data/x ", "stop it", ""},
		"only a command":    {"run `rm ", "/data/x ", "run", "(nothing)"},
		"nothing that ends": {"", "ä", "", "(nothing)"},
	} {
		long := x.begin + strings.Repeat(x.each, 2*maxText/len(x.each))
		f := received(long)
		for _, text := range []string{f.Problem, f.Remedy} {
			if len(text) > maxText || !utf8.ValidString(text) || strings.Count(text, "`")%2 != 0 {
				t.Errorf("%s: %d bytes, %q", name, len(text), text[max(0, len(text)-200):])
			}
		}
		problem := strings.TrimSuffix(f.Problem, Cut)
		if problem == f.Problem || !strings.HasSuffix(problem, x.want) || x.want == "" && problem != "" {
			t.Errorf("%s: a problem ends in %q", name, f.Problem[max(0, len(f.Problem)-200):])
		}
		switch remedy := strings.TrimSuffix(f.Remedy, strings.TrimLeft(Cut, " ")); {
		case x.remedy == "" && f.Remedy != f.Problem, x.remedy != "" && remedy != "":
			t.Errorf("%s: a remedy ends in %q", name, f.Remedy[max(0, len(f.Remedy)-200):])
		}
	}
	whole := strings.Repeat("x", maxText)
	if f := received(whole); f.Problem != whole || f.Remedy != whole {
		t.Error("a text of the largest size is cut")
	}
}
