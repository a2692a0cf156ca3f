package limits

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// limits runs the command line.
func limits(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCommandPrintsTables(t *testing.T) {
	out, err := limits(
		t,
		"-c",
		"2",
		"-d",
		"50ms",
		"--warmup",
		"0s",
		"--dir",
		t.TempDir(),
		"--disk-duration",
		"1ms",
		"--file-size",
		"1048576",
	)
	must.OK(t, err)
	for _, want := range []string{"clients own, 2 connections", "requests/s", syncName, "4 KiB", "64 KiB", "1024 KiB", Written, Appending} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestCommandPrintsJSON(t *testing.T) {
	out, err := limits(t, "--json", "--no-echo", "--dir", t.TempDir(), "--disk-duration", "1ms", "--file-size", "1048576")
	must.OK(t, err)
	var r Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if r.Echo != nil || r.Disk == nil || len(r.Disk.Rows) != 6 || r.Disk.Rows[0].Sync.P50 <= 0 || r.Measured.IsZero() {
		t.Errorf("%+v", r)
	}
}

// A wrong setting is refused before anything is measured, also one of a disk that is not measured.
func TestCommandRefusesBeforeItMeasures(t *testing.T) {
	for _, flags := range [][2]string{
		{"--disk-rate", "NaN"}, {"--disk-rate", "1e-300"}, {"--disk-pattern", "random"}, {"--pipeline", "-1"},
	} {
		out, err := limits(t, "-d", "1ms", "--warmup", "0s", flags[0], flags[1])
		if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), flags[0]+": ") || strings.Contains(out, "requests/s") {
			t.Errorf("%v: %v, printed %q", flags, err, out)
		}
	}
}

func TestCommandNeedsSomethingToMeasure(t *testing.T) {
	if _, err := limits(t, "--no-echo"); err == nil || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("got %v", err)
	}
}
