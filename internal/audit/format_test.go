package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/chronik-io/chronik/internal/testing/golden"
)

// Exact text of a line with all its fields, so that no change of the format goes unnoticed.
func TestFormatIsFixed(t *testing.T) {
	l := &Log{opt: Options{Node: 1}}
	client := Client{Who: "User:bob", Host: "10.0.0.1", Listener: "default", Mechanism: "SCRAM-SHA-256", ID: "id", API: "AlterConfigs",
		Version: 2, Correlation: 3}
	got := l.encode(line{Event: Event{Kind: Change, Client: client, Operation: "ALTER", Resource: "Topic:LITERAL:orders",
		Rule: func() string { return "rule" }, Why: "why", Old: json.RawMessage(`{"a":"1"}`), New: json.RawMessage(`{"a":"2"}`)},
		at: time.UnixMilli(1_700_000_000_001), n: 4})
	golden.File(t, "testdata/line.json", string(got), "go test ./internal/audit -run FormatIsFixed")
}

// Whatever a client sends as a text, a line is one line of printable JSON, and a reader finds in it
// what was written.
func FuzzLine(f *testing.F) {
	f.Add("User:bob", "id", "\u202e\x00\n\"}", `{"a":"\ud800"}`)
	f.Add("\xff", strings.Repeat("ä", maxText), "\U000e0001", "{")
	f.Fuzz(func(t *testing.T, who, id, why, old string) {
		l := &Log{opt: Options{Node: 1}}
		got := l.encode(line{Event: Event{Kind: Change, Client: Client{Who: who, ID: id, API: "AlterConfigs"}, Why: why,
			Old: json.RawMessage(old)}, at: time.UnixMilli(1), n: 4})
		text, ok := bytes.CutSuffix(got, []byte("\n"))
		if !ok || bytes.ContainsFunc(text, hidden) {
			t.Fatalf("%q is not one printable line", got)
		}
		var back lineJSON
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if back.N != 4 || utf8.ValidString(who) && back.Who != who {
			t.Errorf("%s, written for %q", text, who)
		}
		if json.Valid([]byte(old)) && utf8.ValidString(id) && back.Client != id {
			t.Errorf("%s, written for the client %q", text, id)
		}
	})
}
