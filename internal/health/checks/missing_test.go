package checks

import (
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/view"
)

func TestFilesThatWereRemoved(t *testing.T) {
	gone := "1 file was removed or cut while the broker uses it: /f"
	examine(t, "missing_files", []patient{
		{"nothing is missing", Facts{Partitions: []view.Log{{Topic: "t"}}}, nil},
		{"the only copy, alone", Facts{Partitions: []view.Log{{Topic: "t", Missing: gone}}},
			[]string{"bad partition t-0: " + gone}},
		{"another replica has all", Facts{Partitions: []view.Log{{Topic: "t", Missing: gone, Replicated: true, Elsewhere: true}}},
			[]string{"warn partition t-0: " + gone}},
	})
	alone := Facts{Partitions: []view.Log{{Topic: "t", Missing: gone}}}
	several := Facts{Cluster: &view.Cluster{Brokers: make([]view.Broker, 2)}, Partitions: alone.Partitions}
	for what, c := range map[string]struct {
		facts Facts
		want  string
		stops bool
	}{
		"alone":       {alone, "let the broker run until its records are elsewhere: `chronikctl consume t -p 0 -o json`", false},
		"with others": {several, "let the broker run until its records are elsewhere: `chronikctl topic move t:0 BROKER`", false},
		"whole somewhere else": {
			Facts{Partitions: []view.Log{{Topic: "t", Missing: gone, Elsewhere: true}}}, "find out who removes files", false,
		},
	} {
		n := &notes{}
		checkMissing(&c.facts, n)
		if len(n.findings) != len(c.facts.Partitions) {
			t.Fatalf("%s: %+v", what, n.findings)
		}
		if x := n.findings[0]; !strings.HasPrefix(x.Remedy, c.want) || x.Stops != c.stops {
			t.Errorf("%s: %+v", what, n.findings)
		}
	}
}
