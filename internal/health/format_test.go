package health

import (
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// The exact text of a report, which other brokers and chronikctl read: no change of the format goes
// unnoticed.
func TestFormatIsFixed(t *testing.T) {
	at := present()
	r := Report{Broker: 3, Version: "v", At: at, Ready: true, Phase: "starting", Progress: []string{"logs: 1 of 2"},
		Findings: []Finding{{Broker: 3, Check: "space", Severity: Bad, Subject: "disk of /a", Problem: "p", Works: "w", Remedy: "r",
			Since: at, NotReady: true, Follows: "c",
			About: &About{Brokers: []int32{2}, Dir: "/a", Partitions: []string{"t-0"}, Group: "g"}}},
		Omitted: 1, Checks: []Examined{{Name: "space", Doc: "d", Saw: []string{"s"}}},
		Brokers: []Other{{Broker: 2, Version: "v", At: at, Current: true, Ready: true, Phase: "p", Omitted: 2}},
		Load:    &Load{Connections: 1, Requests: 2, BytesIn: 3, BytesOut: 4, Syncs: 5, SyncSeconds: 6, CPUSeconds: 7, MemoryBytes: 8}}
	text, err := r.Encode(MaxBytes)
	must.OK(t, err)
	golden.File(t, "testdata/report.json", string(text), "go test ./internal/health -run FormatIsFixed")
}

// What is read of another broker is bounded, has known severities, and can be written again.
func FuzzDecode(f *testing.F) {
	own, err := reportOf(3, "-/brokers/broker 2", "o/space/disk of /a").Encode(MaxBytes)
	must.OK(f, err)
	f.Add(own)
	f.Add([]byte(`{"findings":[{"severity":"dire"}],"omitted":-1}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := Decode(p)
		if err != nil {
			return
		}
		for i := range r.Findings {
			if !r.Findings[i].Severity.Known() {
				t.Errorf("severity %q", r.Findings[i].Severity)
			}
		}
		own := Report{Broker: 1}
		own.Add([]Heard{{Broker: 3, At: present(), Report: r}}, present())
		if again, err := r.Encode(MaxBytes); err != nil || len(again) > MaxBytes {
			t.Errorf("%d bytes, %v", len(again), err)
		}
	})
}
