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

	"github.com/spf13/cobra"

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

// What a broker had before it copied a log again is printed for produce only where the log lacks
// it, and for a repair in any case.
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
	}{
		{[]string{"--for-produce"}, 59},
		{[]string{"--for-produce", "--replaced"}, 1},
		{[]string{"--for-repair", "--partition", "0"}, 59 + 59},
	} {
		var out bytes.Buffer
		a := app.New("test", app.Streams{In: bytes.NewReader(nil), Out: &out, Err: io.Discard, Getenv: func(string) string { return "" }})
		c := dump(a)
		c.SetArgs(append([]string{"--dir", dir, "--topic", "a"}, x.args...))
		if err := c.ExecuteContext(t.Context()); app.ExitCode(err) != app.ExitUnhealthy { // each has a batch that cannot be read
			t.Errorf("dump %q: %v", x.args, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != x.lines {
			t.Errorf("dump %q: %d records, want %d", x.args, len(lines), x.lines)
		}
		for i, line := range lines {
			if x.lines == 1 && !strings.Contains(line, fmt.Sprintf(`"offset":%d,`, i)) {
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
		args := []string{"--topic", "a", "--partition", "0", "--for-repair"}
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
	if lines, said := run(at, dir); lines != 59+59 || strings.Contains(said, "give all log directories") {
		t.Errorf("%d records, %s", lines, said)
	}
}

// A dump on another broker and a repair with its file lose nothing. Without the file, the repair
// says how to make it.
func TestARepairRestoresADumpOfAnotherBroker(t *testing.T) {
	dir, other := damagedMember(t), damagedMember(t)
	files, err := filepath.Glob(filepath.Join(other, "*-0", "*.log"))
	must.OK(t, err)
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	must.OK(t, err)
	b := []byte{0}
	_, err = f.ReadAt(b, 1000) // its damage is elsewhere
	must.OK(t, err)
	for at, x := range map[int64]byte{200: 'x', 1000: ^b[0]} {
		_, err = f.WriteAt([]byte{x}, at)
		must.OK(t, err)
	}
	must.OK(t, f.Close())
	run := func(c func(*app.App) *cobra.Command, args ...string) (out, said string) {
		var stdout, stderr bytes.Buffer
		a := app.New("test", app.Streams{In: bytes.NewReader(nil), Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" }})
		cmd := c(a)
		cmd.SetArgs(args)
		must.OK(t, cmd.ExecuteContext(t.Context()))
		return stdout.String(), stderr.String()
	}
	repair := []string{"--dir", dir, "--backup", filepath.Join(t.TempDir(), "b"), "--last-copy", "--dry-run"}
	_, said := run(repairCommand, repair...)
	command := "`chronikctl log dump --dir DIRECTORY --topic a --partition 0 --from 0 --to 1 --for-repair >> a-0.broker-ID.json`"
	if !strings.Contains(said, command) || !strings.Contains(said, "--restore a-0.broker-ID.json") {
		t.Errorf("the repair says %s", said)
	}
	saved, _ := run(dump, "--dir", other, "--topic", "a", "--partition", "0", "--from", "0", "--to", "1", "--for-repair")
	name := filepath.Join(t.TempDir(), "saved.json")
	must.OK(t, os.WriteFile(name, []byte(saved), 0o600))
	out, said := run(repairCommand, append(repair, "--restore", name)...)
	if said != "" || !strings.Contains(out, "1 batch with 1 offset restored") || !strings.Contains(out, "nothing") {
		t.Errorf("with the file, the repair says %s%s", out, said)
	}
}

// A second repair with the same command has another directory for its copies, and what a repair has
// lost is said afterwards.
func TestARepairCanBeRepeatedWordForWord(t *testing.T) {
	dir, backup := damagedMember(t), filepath.Join(t.TempDir(), "b")
	unused := filepath.Join(t.TempDir(), "saved.json")
	must.OK(t, os.WriteFile(unused, nil, 0o600))
	run := func(c func(*app.App) *cobra.Command, args ...string) (out, said string, err error) {
		var stdout, stderr bytes.Buffer
		a := app.New("test", app.Streams{In: bytes.NewReader(nil), Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" }})
		cmd := c(a)
		a.Prepare(cmd)
		cmd.SetArgs(append([]string{"--yes", "--dir", dir}, args...))
		err = cmd.ExecuteContext(t.Context())
		return stdout.String(), stderr.String(), err
	}
	for _, name := range []string{backup, backup + ".2", backup + ".3"} {
		_, said, err := run(repairCommand, "--backup", backup, "--last-copy", "--restore", unused)
		must.OK(t, err)
		if !strings.Contains(said, unused+" has nothing that belongs") || (name != backup) != strings.Contains(said, " go to "+name) {
			t.Errorf("%s: the repair says %s", name, said)
		}
		if _, err := os.Stat(filepath.Join(name, inspect.ManifestFile)); err != nil {
			t.Error(err)
		}
		out, _, err := run(verifyCommand)
		if err != nil || !strings.Contains(out, "before, 1 partition has lost records, or may have: a-0") {
			t.Errorf("verify: %v: %s", err, out)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*-0", "*.log"))
		must.OK(t, err)
		f, err := os.OpenFile(files[len(files)-1], os.O_WRONLY, 0)
		must.OK(t, err)
		_, err = f.WriteAt([]byte{byte(len(name))}, 100)
		must.OK(t, errors.Join(err, f.Close()))
	}
	must.OK(t, os.Mkdir(backup+"x", 0o700))
	must.OK(t, os.WriteFile(filepath.Join(backup+"x", "y"), nil, 0o600))
	_, _, err := run(repairCommand, "--backup", backup+"x", "--last-copy")
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("with a directory of something else: %v", err)
	}
}

// A dump of a directory that has no log of the topic fails: its output would be taken for all that
// the replica has. A log without records in the range does not.
func TestADumpWithoutTheLogFails(t *testing.T) {
	dir := damagedMember(t)
	for topic, want := range map[string]int{"a": app.ExitOK, "b": app.ExitUnhealthy} {
		for _, what := range []string{"--for-produce", "--for-repair"} {
			var out bytes.Buffer
			a := app.New("test", app.Streams{In: bytes.NewReader(nil), Out: &out, Err: io.Discard, Getenv: func(string) string { return "" }})
			c := dump(a)
			c.SetArgs([]string{"--dir", dir, "--topic", topic, "--partition", "0", "--from", "1000", what})
			c.SetOut(io.Discard)
			c.SetErr(io.Discard)
			if err := c.ExecuteContext(t.Context()); app.ExitCode(err) != want || out.Len() > 0 {
				t.Errorf("%s of %s: %v", what, topic, err)
			}
		}
	}
}
