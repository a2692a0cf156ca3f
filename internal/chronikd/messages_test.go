package chronikd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/names"
	"github.com/chronik-io/chronik/internal/vfs"
)

// mistake is a wrong command line, or one that finds a fault.
type mistake struct {
	args string // of chronikd, separated by spaces; names in capitals are replaced by addresses
	env  string // a variable; may be empty
	file string // the content of c.yaml, for --config c.yaml
	// disk describes the fault on the disk, and harm causes it. The working directory holds d, the
	// data of a broker that has stopped.
	disk string
	harm func() error
	fs   func(vfs.FS) vfs.FS // a disk that fails
}

// Every error that a user can cause with flags, files, variables or directories states in one line
// what happened, where, and what to do. testdata/errors.golden has the texts for review.
func TestMessages(t *testing.T) {
	names.None(t)
	path, err := filepath.Abs("testdata/errors.golden")
	must.OK(t, err)
	t.Chdir(t.TempDir())
	base := used(t, "base")
	used(t, "other")
	places := somewhere(t)
	var all strings.Builder
	for _, m := range slices.Concat(misspelt(), misset(), misfiled(), misplaced(), mismade(), unheard()) {
		for _, name := range []string{"d", "e", "j", "f"} {
			must.OK(t, os.RemoveAll(name))
		}
		must.OK(t, os.CopyFS("d", base))
		title := m.title()
		all.WriteString(title)
		if m.harm != nil {
			if err := m.harm(); err != nil {
				t.Fatalf("%s: %v", m.disk, err)
			}
		}
		code, errs := m.run(t, places)
		for _, line := range strings.Split(strings.TrimSuffix(errs, "\n"), "\n") {
			if code == exit.OK || !strings.HasPrefix(line, "chronikd: ") {
				t.Errorf("%scode %d, error %q", title, code, line)
			}
		}
		for name, place := range places {
			errs = strings.ReplaceAll(errs, place, name)
		}
		fmt.Fprintf(&all, "%s[%d]\n\n", passing(errs), code)
	}
	golden.File(t, path, all.String(), "go test ./internal/chronikd -run Messages")
}

// title returns the command as a person would type it.
func (m *mistake) title() string {
	var b strings.Builder
	if m.file != "" {
		b.WriteString("# c.yaml: " + strings.ReplaceAll(strings.TrimSuffix(m.file, "\n"), "\n", "\n#         ") + "\n")
	}
	if m.disk != "" {
		b.WriteString("# " + m.disk + "\n")
	}
	b.WriteString("$ ")
	if m.env != "" {
		b.WriteString(m.env + " ")
	}
	b.WriteString(strings.Join(append([]string{"chronikd"}, strings.Fields(m.args)...), " "))
	if m.file != "" {
		b.WriteString(" --config c.yaml")
	}
	return b.String() + "\n"
}

// run runs the command line in this process. It ends a broker that starts nevertheless, which the
// test detects by the exit code.
func (m *mistake) run(t *testing.T, places map[string]string) (code int, errs string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var o, e bytes.Buffer
	args := strings.Fields(m.args)
	for i := range args {
		for name, place := range places {
			args[i] = strings.ReplaceAll(args[i], name, place)
		}
		args[i] = strings.ReplaceAll(args[i], "EMPTY", "")
	}
	if m.file != "" {
		args = append(args, "--config", "c.yaml")
		must.OK(t, os.WriteFile("c.yaml", []byte(m.file), 0o600))
	}
	p := Process{Args: args, Out: &o, Err: readyEnds{&e, cancel}, Version: "test", FS: vfs.OS(),
		Environ: []string{"CHRONIK_DATA_DIR=d", "CHRONIK_LOG_FORMAT=json"}}
	if !strings.HasPrefix(m.args, "config check") { // a broker may start
		p.Environ = append(p.Environ, "CHRONIK_LISTEN=127.0.0.1:0", "CHRONIK_ADMIN_LISTEN=127.0.0.1:0")
	}
	if m.env != "" {
		p.Environ = append(p.Environ, m.env)
	}
	if m.fs != nil {
		p.FS = m.fs(p.FS)
	}
	code = Main(ctx, p)
	for line := range strings.Lines(e.String()) {
		if !strings.HasPrefix(line, "{") { // a line of the log
			errs += line
		}
	}
	return code, errs
}

// readyEnds ends a broker that reports that it is ready.
type readyEnds struct {
	*bytes.Buffer
	end func()
}

func (r readyEnds) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(`"msg":"ready"`)) {
		r.end()
	}
	return r.Buffer.Write(b)
}

// used creates a data directory with a topic.
func used(t *testing.T, dir string) fs.FS {
	t.Helper()
	cfg, err := resolve.Load(
		config.Input{Flags: map[string]string{config.KeyDataDir: dir, config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: config.Off}},
	)
	must.OK(t, err)
	b, err := daemon.Start(
		t.Context(),
		daemon.Options{
			Config:          cfg,
			FS:              vfs.OS(),
			Log:             zap.NewNop(),
			Level:           zap.NewAtomicLevel(),
			JournalFileSize: 1 << 20,
			JournalBytes:    16 << 20,
		},
	)
	must.OK(t, err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	must.OK(t, err)
	defer cl.Close()
	if made, err := kadm.NewClient(cl).CreateTopics(t.Context(), 2, 1, nil, "t"); err != nil || made.Error() != nil {
		t.Fatal(err, made.Error())
	}
	must.OK(t, b.Close())
	return os.DirFS(dir)
}

// somewhere returns the addresses that command lines name.
func somewhere(t *testing.T) map[string]string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	quiet, other, unready := make(chan struct{}), http.NewServeMux(), http.NewServeMux()
	other.HandleFunc("/wait/", func(http.ResponseWriter, *http.Request) { <-quiet })
	unready.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not ready: recovering logs\nd/logs: partitions written and synced: 3 of 7", http.StatusServiceUnavailable)
	})
	o, u := httptest.NewServer(other), httptest.NewServer(unready)
	t.Cleanup(func() { close(quiet); o.Close(); u.Close() })
	// No service uses the port of FREEPORT, so a connection is refused.
	return map[string]string{"TAKEN": l.Addr().String(), "FREEPORT": "127.0.0.1:71",
		"OTHER": strings.TrimPrefix(o.URL, "http://"), "UNREADY": strings.TrimPrefix(u.URL, "http://")}
}

// passing replaces the parts that differ in each run.
func passing(text string) string {
	for pattern, word := range map[string]string{
		`\b[0-9a-f]{32}\b`: "ID", `pid \d+`: "pid N", ` on \S+:53\b`: "",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, word)
	}
	return text
}

// misspelt returns command lines that are wrong in themselves.
func misspelt() []mistake {
	var all []mistake
	for _, args := range []string{
		"--datadir x", "--zz", "-z", "--set", "--listen", "start", "confg", "config chek", "config print",
		"help nothing", "help config nothing", "completion tcsh", "version x",
		"config check x", "config print-defaults x", "health x", "health --lve", "health --live=maybe", "health --timeout soon",
		"health --timeout 0s", "health --timeout -1s",
	} {
		all = append(all, mistake{args: args})
	}
	return all
}

// misset returns settings that are wrong or contradict others.
func misset() []mistake {
	var all []mistake
	for _, args := range []string{
		"--listen x", "--listen :", "--listen h:99999", "--listen http://h:1", "--listen [::1", "--listen EMPTY",
		"--advertise x", "--advertise h:0", "--advertise :9092", "--advertise 0.0.0.0:9092", "--advertise http://h:9092",
		"--admin-listen no", "--admin-listen h:x",
		"--listen 127.0.0.1:9644 --admin-listen 127.0.0.1:9644", "--listen :9644 --admin-listen 127.0.0.1:9644",
		"--data-dir EMPTY", "--wal-profile fsync", "--wal-profile EMPTY", "--produce-profile max", "--log-level loud",
		"--set log.format=xml",
		"--set x", "--set =3", "--set foo=1", "--set num.partition=1", "--set numpartitions=1",
		"--set num.partitions=EMPTY", "--set num.partitions=many", "--set num.partitions=0", "--set num.partitions=99999999999",
		"--set offsets.topic.replication.factor=99999", "--set log.retention.ms=x", "--set log.retention.ms=7", "--set log.retention.ms=7w",
		"--set log.retention.hours=1.5",
		"--set log.segment.bytes=1GiBB", "--set log.segment.bytes=1", "--set log.cleaner.min.cleanable.ratio=2",
		"--set log.cleaner.io.max.bytes.per.second=fast", "--set auto.create.topics.enable=yes", "--set metrics.partitions=yes",
		"--set log.cleanup.policy=compress", "--set compression.type=zip", "--set group.consumer.assignors=sticky",
		"--set group.consumer.migration.policy=never", "--set log.message.timestamp.type=now", "--set compression.gzip.level=12",
		"--set chronik.disk.min.free.bytes=-2",
		"--set num.io.threads=8", "--set listeners=PLAINTEXT://:9092", "--set advertised.listeners=x", "--set chronik.produce.profile=x",
		"--set chronik.durability.profile=x", "--set retention.ms=1", "--set profiles=x",
		"--set node.id=-1", "--set node.id=1 --set broker.id=2",
		"--set group.min.session.timeout.ms=50000 --set group.max.session.timeout.ms=5000",
		"--set group.consumer.heartbeat.interval.ms=50000", "--set group.consumer.min.heartbeat.interval.ms=16000",
		"--set group.consumer.max.session.timeout.ms=1",
		"--set log.cleaner.min.compaction.lag.ms=2 --set log.cleaner.max.compaction.lag.ms=1",
		"--set log.dirs=a,a/b", "--set log.dirs=a,,b",
		"--set log.dirs=none", "--set log.dirs=none,a", "--set log.dirs=d", "--set journal.dirs=a,b",
		"--set log.dirs=a,b --set journal.dirs=j,j", "--set log.dirs=a --set journal.dirs=a",
		"--set node.id=-1 --set broker.id=-2 --log-level x",
	} {
		all = append(all, mistake{args: "config check " + args})
	}
	return append(all,
		mistake{env: "CHRONIK_NUM_PARTITIONS=x", args: "config check"},
		mistake{env: "CHRONIK_WAL_PROFILE=fsync", args: "config check"},
		mistake{env: "CHRONIK_LOG_RETENTION_MS=7w"},
		mistake{env: "CHRONIK_CONFIG=none.yaml", args: "config check"},
		mistake{args: "health --set num.partitions=0"},
		mistake{args: "--set num.partitions=0"},
	)
}

// misfiled returns configuration files that are wrong.
func misfiled() []mistake {
	all := []mistake{{args: "config check --config none.yaml"}, {args: "config check --config base"}}
	for _, text := range []string{
		"num.partitions: [1\n", "- a\n", "hello\n", "\tnum.partitions: 1\n", "num.partitions: 1\nnum.partitions: 2\n",
		"num.partitions: 1\n---\nnum.partitions: 2\n", "num.partitions:\n", "num.partitions: {a: 1}\n", "num.partitions: [[1]]\n",
		"num:\n  partitions: 1\n", "num.partition: 1\n", "1: 2\n", "num.partitions: many\nlog.level: loud\n", "data.dir: ''\n",
		"listen: :9092\nlisteners: [{listen: ':1'}]\n",
		"advertise: h:9092\nlisteners: [{advertise: 'h:1'}]\n", "connections.max.idle.ms: 10w\n",
		"listeners: []\n", "listeners:\n", "listeners: {listen: ':1'}\n", "listeners: [{name: a b, listen: x}]\n", "listeners: [3]\n",
		"listeners: [{listen: ':1'}, {listen: ':2'}]\n", "listeners: [{listn: ':1'}]\n", "listeners: [{listen: [a]}]\n",
		"listeners: [{listen: ':1'}, {name: default, listen: ':2'}]\n", "listeners: [{listen: ':1'}, {name: b, listen: '127.0.0.1:1'}]\n",
		"listeners: [{listen: ':1', advertise: ':1'}]\n",
		"listeners: [{listen: ':1'}, {name: b, listen: '127.0.0.1:9644'}]\nadmin.listen: 127.0.0.1:9644\n",
		"num.partitions=1\n", "profiles: [a]\n", "profiles: {a: 3}\n", "profiles: {a: {ack: x}}\n",
		"profiles: {a: {sync: x}}\n", "profiles: {a: {mx_wait: 1s}}\n",
		"profiles: {a: {ack: synced, sync: os}}\n", "profiles: {a: {ack: written, sync: group}}\n", "profiles: {A b: {}}\n",
		"profiles: {sync: {}}\n",
		"profiles: {a: {max_wait: 3h}}\n", "profiles: {a: {max_wait: 5}}\n", "profiles: {a: {max_wait: x}}\n",
		"profiles: {a: {max_bytes: 1zz}}\n",
		"profiles: {a: {max_bytes: 9999999999GiB}}\n", "profiles: {a: {max_bytes: 1}}\n", "profiles: {a: {max_records: x}}\n",
		"profiles: {a: {max_records: 0}}\n",
		"profiles: {a: {interval: 1s}}\n", "profiles: {a: {ack: written, sync: interval, interval: 1h}}\n",
		"profiles: {a: {ack: written, max_wait: 1s}}\n",
	} {
		all = append(all, mistake{args: "config check", file: text})
	}
	return all
}

// misplaced returns directories and addresses that a broker cannot use.
func misplaced() []mistake {
	failing := func(ops errfs.Op, path string, err error) func(vfs.FS) vfs.FS {
		return func(below vfs.FS) vfs.FS {
			f := errfs.New(below)
			f.Add(errfs.Rule{Ops: ops, Path: path, Err: err})
			return f
		}
	}
	other := fmt.Errorf("%w (pid 1)", vfs.ErrLocked)
	return []mistake{
		{disk: "f is a file", harm: write("f"), args: "--data-dir f"},
		{disk: "f is a file", harm: write("f"), args: "--data-dir f/x"},
		{disk: "f is a file", harm: write("f"), args: "--set log.dirs=f"},
		{disk: "f is a file", harm: write("f"), args: "--set log.dirs=d/logs,f"},
		{disk: "f is a file", harm: write("f"), args: "--data-dir e --set journal.dirs=f"},
		{disk: "e is not this user's", fs: failing(errfs.Mkdir, "e", syscall.EACCES), args: "--data-dir e"},
		{disk: "e is on a disk that is mounted read-only", fs: failing(errfs.Mkdir, "e", syscall.EROFS), args: "--data-dir e"},
		{disk: "d belongs to another user", fs: failing(errfs.Lock, "d/.lock", syscall.EACCES)},
		{disk: "d/logs belongs to another user", fs: failing(errfs.Lock, "d/logs/.lock", syscall.EACCES)},
		{
			disk: "e has no room for a journal",
			fs:   failing(errfs.Allocate|errfs.Write, "e/logs/journal/*", syscall.ENOSPC),
			args: "--data-dir e",
		},
		{disk: "e has no room for metadata", fs: failing(errfs.Write, "e/metadata/*", syscall.ENOSPC), args: "--data-dir e"},
		{disk: "e is beyond a quota", fs: failing(errfs.Create, "*", syscall.EDQUOT), args: "--data-dir e"},
		{disk: "the limit of open files is too low", fs: failing(errfs.Open|errfs.Create, "d/logs/*", syscall.EMFILE)},
		{disk: "the disk of d does not read", fs: failing(errfs.Read, "d/metadata/*", syscall.EIO)},
		{disk: "the disk of d/logs does not read", fs: failing(errfs.Read, "d/logs/checkpoint/*", syscall.EIO)},
		{disk: "another broker has d", fs: failing(errfs.Lock, "d/.lock", other)},
		{disk: "another broker has d/logs", fs: failing(errfs.Lock, "d/logs/.lock", other)},
		{args: "--listen TAKEN"},
		{args: "--admin-listen TAKEN"},
		{args: "--listen 192.0.2.1:9092"},
		{args: "--listen no.such.host.invalid:9092"},
		{file: "listeners: [{listen: '127.0.0.1:0'}, {name: two, listen: '192.0.2.1:9092'}]\n"},
	}
}

// mismade returns directories with content that a broker does not expect.
func mismade() []mistake {
	const (
		checkpoint, dirID   = "d/logs/checkpoint", "d/logs/chronik.dir"
		journals, journalID = "d/logs/journal", "d/logs/journal/chronik.journal"
	)
	return []mistake{
		{disk: "d is of the broker with node.id 1", args: "--set node.id=2"},
		{disk: "d was made by a newer version", harm: change(dirID, "chronik-directory 1 ", "chronik-directory 99 ")},
		{disk: "its journal was made by a newer version", harm: change(journalID, "chronik-journal 1 ", "chronik-journal 99 ")},
		{disk: "the checkpoint is gone", harm: remove(checkpoint)},
		{disk: "the checkpoint is damaged", harm: damageAll(checkpoint + "/*.snapshot")},
		{disk: "the checkpoint's snapshot is gone", harm: removeAll(checkpoint + "/*.snapshot")},
		{disk: "chronik.dir is gone", harm: remove(dirID)},
		{disk: "chronik.dir is damaged", harm: write(dirID)},
		{disk: "the journal is gone", harm: remove(journals)},
		{disk: "the journal's files are gone", harm: removeAll(journals + "/*.journal")},
		{disk: "chronik.journal is gone", harm: remove(journalID)},
		{disk: "chronik.journal is damaged", harm: write(journalID)},
		{disk: "the journal is another directory's", harm: swapJournals, args: "--data-dir e"},
		{disk: "e is new, and the journal is another directory's", args: "--data-dir e --set journal.dirs=d/logs/journal"},
		{disk: "the metadata is gone", harm: remove("d/metadata")},
		{disk: "e is new, and the logs are another one's", args: "--data-dir e --set log.dirs=d/logs"},
		{disk: "the metadata's snapshot is gone", harm: removeAll("d/metadata/*.snapshot")},
		{disk: "the metadata's log is gone", harm: removeAll("d/metadata/*.log")},
		{disk: "the metadata is damaged", harm: damageAll("d/metadata/*.log")},
		{disk: "e was made by Kafka", harm: foreign("meta.properties"), args: "--data-dir e --set log.dirs=e"},
		{disk: "e/logs was made by Kafka", harm: foreign("logs/meta.properties"), args: "--data-dir e"},
		{disk: "a partition lies in e/logs already", harm: foreign("logs/t-0/partition.metadata"), args: "--data-dir e"},
	}
}

// unheard returns queries that get no response from a broker, or not the expected one.
func unheard() []mistake {
	return []mistake{
		{args: "health --admin-listen FREEPORT"},
		{args: "health --live --admin-listen FREEPORT"},
		{args: "health --admin-listen off"},
		{args: "health --admin-listen no.such.host.invalid:9644"},
		{args: "health --admin-listen TAKEN --timeout 20ms"},
		{args: "health --admin-listen OTHER"},
		{args: "health --admin-listen UNREADY"},
	}
}

func write(name string) func() error {
	return func() error { return os.WriteFile(name, []byte("something else\n"), 0o600) }
}

func remove(name string) func() error { return func() error { return os.RemoveAll(name) } }

// change replaces the beginning of a file; with an empty replacement the file becomes empty.
func change(name, begin, with string) func() error {
	return func() error {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rest, ok := bytes.CutPrefix(b, []byte(begin))
		if !ok {
			return fmt.Errorf("%s begins with %.40q", name, b)
		}
		if with == "" {
			rest = nil
		}
		return os.WriteFile(name, append([]byte(with), rest...), 0o600)
	}
}

func matching(pattern string, fn func(name string) error) func() error {
	return func() error {
		found, err := filepath.Glob(pattern)
		if err == nil && len(found) == 0 {
			err = errors.New("there is none")
		}
		for _, name := range found {
			err = errors.Join(err, fn(name))
		}
		return err
	}
}

func removeAll(pattern string) func() error { return matching(pattern, os.Remove) }

// damageAll changes bytes in the middle of files.
func damageAll(pattern string) func() error {
	return matching(pattern, func(name string) error {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		copy(b[60:], "XXXX")
		return os.WriteFile(name, b, 0o600)
	})
}

// swapJournals creates e, whose journal is d's.
func swapJournals() error {
	if err := errors.Join(os.CopyFS("e", os.DirFS("other")), os.RemoveAll("e/logs/journal")); err != nil {
		return err
	}
	return os.CopyFS("e/logs/journal", os.DirFS("d/logs/journal"))
}

// foreign creates e with a file of another program.
func foreign(name string) func() error {
	return func() error {
		name := filepath.Join("e", name)
		return errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("version=1\n"), 0o600))
	}
}
