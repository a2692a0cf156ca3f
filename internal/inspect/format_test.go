package inspect

import (
	"encoding/json"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Exact text of a backup's table of contents, so that no change of the format goes unnoticed.
func TestFormatIsFixed(t *testing.T) {
	m := Manifest{Version: manifestVersion, Made: "2026-01-02T03:04:05Z", Back: wayBack,
		Acts: []Act{{Dir: "d", Topic: "t", Partition: 1, What: "what", Files: []string{"f"}, Gone: "gone"}},
		Files: []Saved{
			{Path: "f", Bytes: 2, SHA256: "aa"}, {Path: "g", Missing: true}, {Path: "h", Directory: true},
		}}
	text, err := json.MarshalIndent(m, "", "  ")
	must.OK(t, err)
	golden.File(t, "testdata/manifest.json", string(text)+"\n", "go test ./internal/inspect -run FormatIsFixed")
}
