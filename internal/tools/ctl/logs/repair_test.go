package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

type assigned chan struct{}

func (a assigned) OffsetsAssigned(*storage.Append) { close(a) }

// damagedMember returns the log directory of a broker of a cluster, with a damaged batch.
func damagedMember(t *testing.T) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	dir := filepath.Join(t.TempDir(), "d")
	conf := storage.Config{Profile: durability.Profile{Name: "sync", MaxRecords: 10000, MaxBytes: 50 << 20},
		Segment: segment.Limits{Bytes: 8 << 10, Ms: 1 << 40, IndexInterval: 512, IndexBytes: 10 << 20}}
	d, err := storage.OpenDir(storage.Location{Path: dir}, storage.Options{FS: vfs.OS(), JournalFileSize: 64 << 10, JournalBytes: 4 << 20,
		Config: func(string, storage.ID) storage.Config { return conf }})
	must(err)
	_, err = d.Create([]storage.Spec{{ID: storage.ID{Topic: [16]byte{1}}, Topic: "a", Config: conf}})
	must(err)
	l := d.Logs()[0]
	for range 60 {
		b := record.NewBuilder(record.BatchOptions{})
		b.Append(1, nil, bytes.Repeat([]byte{'x'}, 300), nil)
		data, err := b.Build()
		must(err)
		l.SetLeaderEpoch(3, true)
		done := make(assigned)
		a := &storage.Append{Batches: data, LeaderEpoch: 3, Sink: done}
		l.Append(a, nil)
		<-done
		must(a.Err)
	}
	must(d.Registered(checkpoint.Owner{Cluster: [16]byte{7}}))
	must(d.Close())
	files, err := filepath.Glob(filepath.Join(dir, "*-0", "*.log"))
	must(err)
	f, err := os.OpenFile(files[0], os.O_WRONLY, 0)
	must(err)
	_, err = f.WriteAt([]byte{0xff}, 200)
	must(errors.Join(err, f.Close()))
	return dir
}

// The hint of verify is not a repair that would be refused: other brokers have replicas, and the
// broker copies the log from them.
func TestVerifyDoesNotHintAtARepairThatIsRefused(t *testing.T) {
	a := app.New("test", app.Streams{In: bytes.NewReader(nil), Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
	c := verifyCommand(a)
	c.SetArgs([]string{"--dir", damagedMember(t)})
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	err := c.ExecuteContext(t.Context())
	if err == nil || app.ExitCode(err) != app.ExitUnhealthy || strings.Contains(err.Error(), "--dry-run") ||
		!strings.Contains(err.Error(), "other brokers have replicas of a-0, ") ||
		!strings.Contains(err.Error(), "; start the broker: it replaces a damaged log by a copy; ") {
		t.Errorf("verify: %v", err)
	}
}

// A dry run refuses what the repair refuses: partitions of which other brokers have replicas. It
// lists what would be done only with --last-copy.
func TestADryRunRefusesWhatTheRepairRefuses(t *testing.T) {
	dir := damagedMember(t)
	run := func(args ...string) error {
		a := app.New("test", app.Streams{In: bytes.NewReader(nil), Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
		c := repairCommand(a)
		c.SetArgs(append([]string{"--dir", dir}, args...))
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		return c.ExecuteContext(t.Context())
	}
	backup := filepath.Join(t.TempDir(), "b")
	refused := run("--backup", backup)
	if !errors.Is(refused, inspect.ErrReplicated) ||
		!strings.Contains(refused.Error(), "`chronikctl log repair --dir "+dir+" --last-copy --backup "+backup+"`") {
		t.Fatalf("the repair: %v", refused)
	}
	if dry := run("--dry-run", "--backup", backup); dry == nil || dry.Error() != refused.Error() ||
		app.ExitCode(dry) != app.ExitCode(refused) {
		t.Errorf("the repair fails with %v, a dry run with %v", refused, dry)
	}
	if dry := run("--dry-run"); dry == nil ||
		!strings.Contains(dry.Error(), "`chronikctl log repair --dir "+dir+" --last-copy --backup "+dir+".before-repair`") {
		t.Errorf("a dry run without --backup: %v", dry)
	}
	if err := run("--dry-run", "--last-copy"); err != nil {
		t.Errorf("a dry run for the last copy: %v", err)
	}
}

// What a broker had before it copied a log again is printed only where the log lacks it, alone or
// between the records of the log: each once, in order.
func TestADumpOfReplacedLogsHasWhatTheLogLacks(t *testing.T) {
	dir := damagedMember(t)
	logs, err := filepath.Glob(filepath.Join(dir, "*-0"))
	must.OK(t, err)
	former := filepath.Join(dir, "01"+strings.Repeat("00", 15)+"-0-3-replaced")
	must.OK(t, os.CopyFS(former, os.DirFS(logs[0])))
	files, err := filepath.Glob(filepath.Join(former, "*.log"))
	must.OK(t, err)
	for name, b := range map[string]byte{files[0]: 'x', files[1]: 0xff} { // it has the first record, and lacks another one
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		must.OK(t, err)
		_, err = f.WriteAt([]byte{b}, 200)
		must.OK(t, errors.Join(err, f.Close()))
	}
	for _, x := range []struct {
		args  []string
		lines int
	}{{nil, 59}, {[]string{"--replaced"}, 1}, {[]string{"--and-replaced"}, 60}} {
		var out bytes.Buffer
		a := app.New("test", app.Streams{In: bytes.NewReader(nil), Out: &out, Err: io.Discard, Getenv: func(string) string { return "" }})
		c := dump(a)
		c.SetArgs(append([]string{"--dir", dir, "--topic", "a", "--for-produce"}, x.args...))
		if err := c.ExecuteContext(t.Context()); app.ExitCode(err) != app.ExitUnhealthy { // each has a batch that cannot be read
			t.Errorf("dump %q: %v", x.args, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != x.lines {
			t.Errorf("dump %q: %d records, want %d", x.args, len(lines), x.lines)
		}
		for i, line := range lines {
			if x.args != nil && !strings.Contains(line, fmt.Sprintf(`"offset":%d,`, i)) {
				t.Errorf("dump %q: record %d is %s", x.args, i, line)
			}
		}
	}
}

// The replaced log and the new one may be in different log directories. If the one with the new log
// is not given, the topic's name is unknown, and that is said.
func TestADumpFindsAReplacedLogInAnotherDirectory(t *testing.T) {
	at, dir := damagedMember(t), damagedMember(t)
	logs, err := filepath.Glob(filepath.Join(dir, "*-0"))
	must.OK(t, err)
	must.OK(t, os.Rename(logs[0], filepath.Join(dir, "01"+strings.Repeat("00", 15)+"-0-3-replaced")))
	for _, name := range []string{"checkpoint", "checkpoint.copy"} {
		must.OK(t, os.RemoveAll(filepath.Join(dir, name)))
	}
	run := func(dirs ...string) (lines int, said string) {
		var out, errs bytes.Buffer
		a := app.New("test", app.Streams{In: bytes.NewReader(nil), Out: &out, Err: &errs, Getenv: func(string) string { return "" }})
		c := dump(a)
		args := []string{"--topic", "a", "--for-produce", "--and-replaced"}
		for _, dir := range dirs {
			args = append(args, "--dir", dir)
		}
		c.SetArgs(args)
		if err := c.ExecuteContext(t.Context()); app.ExitCode(err) != app.ExitUnhealthy {
			t.Errorf("dump of %q: %v", dirs, err)
		}
		return strings.Count(out.String(), "\n"), errs.String()
	}
	if lines, said := run(dir); lines != 0 || !strings.Contains(said, "give all log directories") {
		t.Errorf("%d records, %s", lines, said)
	}
	// What the log in at has is the same as what the other one has.
	if lines, said := run(at, dir); lines != 59 || strings.Contains(said, "give all log directories") {
		t.Errorf("%d records, %s", lines, said)
	}
}
