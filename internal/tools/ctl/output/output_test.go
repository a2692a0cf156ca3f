package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func table() *Table {
	t := &Table{Title: "things", Columns: []string{"NAME", "SIZE#", "+ID", "NOTE"}}
	t.Add("a", 5, "x1", "")
	t.Add("größer", 12345, "x2", "line\nfeed\x1b[31m")
	return t
}

func TestTables(t *testing.T) {
	for f, want := range map[Format]string{
		Text: "things\nNAME     SIZE  NOTE\na           5  -\ngrößer  12345  line\\x0afeed\\x1b[31m\n",
		Wide: "things\nNAME     SIZE  ID  NOTE\na           5  x1  -\ngrößer  12345  x2  line\\x0afeed\\x1b[31m\n",
	} {
		var b bytes.Buffer
		if err := Print(&b, f, nil, table()); err != nil || b.String() != want {
			t.Errorf("%s: %v\n got %q\nwant %q", f, err, b.String(), want)
		}
	}
	var b bytes.Buffer
	_ = Print(&b, Text, nil, &Table{Columns: []string{"A"}, Empty: "none"}, &Table{Columns: []string{"A"}}, &Table{Title: "only this"})
	if b.String() != "none\n\nA\n\nonly this\n" {
		t.Errorf("%q", b.String())
	}
}

// value contains texts that YAML could misread.
type value struct {
	Zeta  string         `json:"zeta"`
	Alpha []string       `json:"alpha"`
	None  *int64         `json:"none"`
	Empty []string       `json:"empty"`
	Big   int64          `json:"big"`
	Map   map[string]any `json:"map"`
}

func TestJSONAndYAMLSayTheSame(t *testing.T) {
	v := value{Zeta: "yes", Alpha: []string{"1e3", "null", "a: b", "# no", "", "<&>", "\x00é\n", "0x10", "2026-01-02"}, Empty: []string{},
		Big: 1<<62 + 1,
		Map: map[string]any{"k": []any{map[string]any{"x": true}}}}
	var j, y bytes.Buffer
	must.OK(t, errors.Join(Print(&j, JSON, v), Print(&y, YAML, v)))
	var fromJSON, fromYAML value
	must.OK(t, json.Unmarshal(j.Bytes(), &fromJSON))
	var any map[string]any
	must.OK(t, yaml.Unmarshal(y.Bytes(), &any))
	again, err := json.Marshal(any)
	if err == nil {
		err = json.Unmarshal(again, &fromYAML)
	}
	a, _ := json.Marshal(fromJSON)
	b, _ := json.Marshal(fromYAML)
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("%v\n%s\n%s\n%s", err, a, b, y.String())
	}
	if z, al := strings.Index(y.String(), "zeta"), strings.Index(y.String(), "alpha"); z > al {
		t.Error("the order is not kept")
	}
	if strings.Contains(y.String(), "{\"") || !strings.Contains(y.String(), "empty: []") {
		t.Errorf("%s", y.String())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestABrokenPipeIsAnError(t *testing.T) {
	for _, f := range []Format{Text, JSON, YAML} {
		if err := Print(brokenPipe{}, f, 1, table()); err == nil || !strings.Contains(err.Error(), "standard output: broken pipe") {
			t.Errorf("%s: %v", f, err)
		}
	}
}
