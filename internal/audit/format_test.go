package audit

import (
	"encoding/json"
	"testing"
	"time"

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
