package daemon

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/durability"
)

// generated compares the part of a document between its markers with want.
func generated(t *testing.T, path, part, want string) {
	t.Helper()
	golden.Part(t, path, part, want, "go test ./internal/daemon -run Docs")
}

func TestDocsListEveryProfile(t *testing.T) {
	var b strings.Builder
	b.WriteString("| profile | counts when | synced by | longest wait | most records | most bytes | for |\n|---|---|---|---|---|---|---|\n")
	for _, p := range durability.Builtin() {
		wait, records, bytes := "–", "–", "–"
		if p.Sync == durability.SyncGroup {
			wait, records, bytes = "none", fmt.Sprint(p.MaxRecords), fmt.Sprintf("%d MB", p.MaxBytes/1_000_000)
			if p.MaxWait > 0 {
				wait = p.MaxWait.String()
			}
		}
		syncs := map[durability.Sync]string{durability.SyncGroup: "the journal, before the acknowledgement",
			durability.SyncInterval: "the journal, beginning within " +
				p.Interval.String(), durability.SyncOS: "the journal, with others or beginning within 5s"}[p.Sync]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", p.Name, p.Ack, syncs, wait, records, bytes, p.Doc)
	}
	generated(t, "../../docs/durability.md", "profiles", b.String())

	b.Reset()
	b.WriteString("| profile | `acks` | " + strings.Join(failures(), " | ") + " |\n|---|---|---|---|\n")
	for _, p := range durability.Builtin() {
		for _, acks := range []int16{0, 1, -1} {
			row := make([]string, 0, len(failures()))
			for _, f := range []durability.Failure{durability.ProcessCrash, durability.LeaderPowerLoss} {
				row = append(row, p.Promise(durability.Setting{Acks: acks, Replicas: 1, MinISR: 1}, f).String())
			}
			name := map[int16]string{0: "0", 1: "1", -1: "all"}[acks]
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Name, name, strings.Join(row, " | "))
		}
	}
	generated(t, "../../docs/durability.md", "promises", b.String())

	b.Reset()
	b.WriteString(
		"| produce profile | waiting in the broker | of one connection | requests in flight | deferred bytes of a log directory | for |\n|---|---|---|---|---|---|\n",
	)
	for _, p := range configdef.ProduceProfiles() {
		fmt.Fprintf(
			&b,
			"| `%s` | %d MiB | %d MiB | %d | %d MiB | %s |\n",
			p.Name,
			p.ProduceBytes>>20,
			p.ConnectionBytes>>20,
			p.ConnectionRequests,
			p.DeferredBytes>>20,
			p.Doc,
		)
	}
	generated(t, "../../docs/durability.md", "produce profiles", b.String())
}

func failures() []string {
	return []string{"if the process is killed", "if the power fails"}
}

// The loader accepts the example of a profile in the documentation.
func TestDocsShowAProfileThatWorks(t *testing.T) {
	b, err := os.ReadFile("../../docs/durability.md")
	must.OK(t, err)
	_, rest, _ := strings.Cut(string(b), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("there is no example")
	}
	cfg, err := resolve.Load(config.Input{File: "f", ReadFile: func(string) ([]byte, error) { return []byte(example), nil }})
	must.OK(t, err)
	if p, err := cfg.Durability.Lookup("patient"); err != nil || p.MaxWait != 20*time.Millisecond {
		t.Errorf("%+v, %v", p, err)
	}
}
