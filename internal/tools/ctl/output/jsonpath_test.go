package output

import (
	"bytes"
	"strings"
	"testing"
)

func TestPaths(t *testing.T) {
	v := []map[string]any{{"topic": "a", "id": 7, "configs": map[string]any{"retention.ms": "1"}, "isr": []int{1, 2}}, {"topic": "b"}}
	for path, want := range map[string]string{
		"{[*].topic}":                   "a b",
		"[0].topic":                     "a",
		"$[-1].topic":                   "b",
		"{[0].configs['retention.ms']}": "1",
		"{[0].isr}":                     "[1,2]",
		"{[*].isr[1]}":                  "2",
		"{[*].id}":                      "7",
		`first={[0].topic}{"\n"}last={[1].topic}`: "first=a\nlast=b",
		"{.topic}":        `error: jsonpath=.topic: "topic" is looked for in a list; write [*].topic for all of its elements`,
		"{[2].topic}":     "error: jsonpath=[2].topic: [2] is not in a list of 2",
		"{[*].topic[0]}":  "error: jsonpath=[*].topic[0]: [0] is of a list, and this is none",
		"{[1].id}":        "error: jsonpath=[1].id: there is no field id; the fields are topic",
		"{range [*]}x":    `error: "range [*]" is no path of names, [N] and [*], such as {[*].topic}; -o json and jq can do more`,
		"{[?(@.id==7)]}":  `error: "[?(@.id==7)]" is no path of names, [N] and [*], such as {[*].topic}; -o json and jq can do more`,
		"{[0].topic}{[1]": `error: "{[0].topic}{[1]" has a brace without its other one`,
	} {
		var b bytes.Buffer
		f := Format(Path + path)
		err := f.Check()
		if err == nil {
			err = Print(&b, f, v, table())
		}
		got := strings.TrimSuffix(b.String(), "\n")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s: %s\nwant %s", path, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	var b bytes.Buffer
	list := &Table{Columns: []string{"CURRENT", "NAME"}, Rows: [][]string{{"*", "a"}, {"", "a"}, {"", "b\x1b"}}}
	if err := Print(&b, Name, nil, list); err != nil || b.String() != "a\nb\\x1b\n" {
		t.Errorf("%q %v", b.String(), err)
	}
	if err := Print(&b, Name, nil, list, list); err == nil {
		t.Error("two tables are printed as names")
	}
}
