package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl"
	ctlapp "github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// fault is a fault of a broker and how a test causes it.
type fault struct {
	name string
	set  []string // settings
	// damage changes the files of a broker with the topic orders before it starts again; plant
	// changes the running broker. Either may be nil.
	damage func(t *testing.T, fsys vfs.FS)
	plant  func(t *testing.T, s *sick)
	checks []string // that must find it; none for a healthy broker
}

// sick is a broker with a fault.
type sick struct {
	*Broker
	disk *filling
	errs *errfs.FS
	logs *logged.ObservedLogs
	// prepared are the journal files that are full of zeros or entries on the disk.
	prepared *preparedFiles
}

// preparedFiles observes the files of journals.
type preparedFiles struct {
	sync.Mutex
	whole, synced map[string]bool // by path
}

// see notes a call that is about to be made.
func (p *preparedFiles) see(c errfs.Call) bool {
	p.Lock()
	defer p.Unlock()
	if c.Op == errfs.Datasync {
		p.synced[c.Path] = p.whole[c.Path]
	} else if c.Off+c.Len >= journalFile {
		p.whole[c.Path] = true
	}
	return false
}

// has reports whether the last datasync of a file's preparation has begun.
func (p *preparedFiles) has(name string) bool {
	p.Lock()
	defer p.Unlock()
	return p.synced[name]
}

// journalFile is the size of a journal file of these tests, in bytes.
const journalFile = 1 << 20

// Every fault causes one finding with the same words everywhere: /readyz, /v1/health, metrics, the
// log, chronikctl cluster health, and the page for a browser. testdata/surfaces shows
// their texts.
func TestEverySurfaceShowsTheSameFindings(t *testing.T) {
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			mem := vfs.Memory()
			if f.damage != nil {
				s := start(t, mem, f.set)
				orders(t, s.Broker)
				must.OK(t, s.Close())
				f.damage(t, mem)
			}
			s := start(t, mem, f.set)
			if f.damage == nil {
				orders(t, s.Broker)
			}
			if f.plant != nil {
				f.plant(t, s)
			}
			for _, check := range f.checks {
				eventually(t, "the check "+check+" finds it", func() bool {
					for _, x := range s.health.Report(t.Context()).Findings {
						if x.Check == check && x.Severity != health.Note {
							return true
						}
					}
					return false
				})
			}
			golden.File(t, path.Join("testdata/surfaces", f.name+".golden"), surfaces(t, s, len(f.checks) > 0),
				"go test ./internal/daemon -run TestEverySurface")
			onThePage(t, s.Broker)
			agreeing(t, s.Broker)
		})
	}
}

// start starts a broker whose disk can fill and fail.
func start(t *testing.T, mem vfs.FS, set []string) *sick {
	t.Helper()
	s := &sick{disk: &filling{FS: mem}, prepared: &preparedFiles{whole: map[string]bool{}, synced: map[string]bool{}}}
	s.disk.free.Store(1 << 39)
	s.errs = errfs.New(s.disk)
	s.errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync, Path: "*.journal", When: s.prepared.see})
	cfg, err := resolve.Load(
		config.Input{
			Set:   set,
			Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "127.0.0.1:0"},
		},
	)
	must.OK(t, err)
	core, logs := logged.New(zap.InfoLevel)
	s.logs = logs
	s.Broker, err = Start(t.Context(), Options{Config: cfg, FS: s.errs, Log: zap.New(core), Level: zap.NewAtomicLevel(), Version: "test",
		JournalFileSize: journalFile, JournalBytes: 16 << 20, slowChecks: 50 * time.Millisecond})
	must.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// orders creates the topic orders with two partitions, each with 50 records in several segments.
func orders(t *testing.T, b *Broker) {
	t.Helper()
	c := client(t, b)
	size, wide := "1048576", strings.Repeat("x", 40_000)
	if _, err := kadm.NewClient(c).CreateTopic(t.Context(), 2, 1, map[string]*string{"segment.bytes": &size}, "orders"); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		must.OK(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: int32(i % 2),
			Value: []byte(wide)}).FirstErr())
	}
}

func client(t *testing.T, b *Broker) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	must.OK(t, err)
	t.Cleanup(c.Close)
	return c
}

// surfaces returns the texts of all surfaces.
func surfaces(t *testing.T, s *sick, ill bool) string {
	t.Helper()
	var out strings.Builder
	show := func(surface, text string) { fmt.Fprintf(&out, "--- %s\n%s\n", surface, strings.TrimRight(text, "\n")) }
	show("GET /readyz", body(t, s.Broker, "/readyz"))
	var report health.Report
	must.OK(t, json.Unmarshal([]byte(body(t, s.Broker, "/v1/health")), &report))
	report.Checks = []health.Examined{} // they have numbers
	text, err := json.MarshalIndent(report, "", "  ")
	must.OK(t, err)
	show("GET /v1/health", string(text))
	var lines []string
	for line := range strings.Lines(body(t, s.Broker, "/metrics")) {
		if strings.HasPrefix(line, "chronik_ready ") || strings.HasPrefix(line, "chronik_findings{") && !strings.HasSuffix(line, " 0\n") {
			lines = append(lines, line)
		}
	}
	show("GET /metrics", strings.Join(lines, ""))
	// The golden file shows the words; the test itself checks that they are the same everywhere.
	shows := func(surface, text string) {
		for _, x := range report.Findings {
			if !strings.Contains(text, x.Problem) || !strings.Contains(text, x.Subject) {
				t.Errorf("%s does not have %s", surface, x.String())
			}
		}
	}
	lines = nil
	for _, e := range s.logs.All() {
		if e.LoggerName == "health" {
			f := e.ContextMap()
			lines = append(
				lines,
				fmt.Sprintf("%s %s: %s (check %s; remedy: %s)\n", e.Level, f["subject"], e.Message, f["check"], f["remedy"]),
			)
		}
	}
	show("log", strings.Join(lines, ""))
	shows("the log", strings.Join(lines, ""))
	for _, args := range [][]string{{"cluster", "health"}} {
		var stdout, stderr bytes.Buffer
		code := ctl.Main(
			t.Context(),
			append(args, "--brokers", s.Addrs()[0], "--admin", s.AdminAddr()),
			"test",
			ctl.Streams{Out: &stdout, Err: &stderr},
		)
		findings, _, _ := strings.Cut(stdout.String(), "EXAMINED")
		findings += stderr.String()
		show(fmt.Sprintf("chronikctl %s: exit code %d", strings.Join(args, " "), code), findings)
		shows(strings.Join(args, " "), strings.Join(strings.Fields(findings), " "))
		if want := map[bool]int{false: ctlapp.ExitOK, true: ctlapp.ExitUnhealthy}[ill]; code != want {
			t.Errorf("%v ends with %d, want %d", args, code, want)
		}
	}
	described(t, s, report.Findings)
	return normal(out.String())
}

// described checks that topic describe reports an error for each partition that a finding is about.
func described(t *testing.T, s *sick, findings []health.Finding) {
	t.Helper()
	for _, f := range findings {
		partition, ok := strings.CutPrefix(f.Subject, "partition ")
		if !ok || slices.Contains(plantedChecks(), f.Check) { // no log has a planted fault
			continue
		}
		topic, index, _ := strings.Cut(partition, "-")
		var stdout, stderr bytes.Buffer
		if code := ctl.Main(t.Context(), []string{"topic", "describe", topic, "-o", "json", "--brokers", s.Addrs()[0],
			"--admin", s.AdminAddr()}, "test",
			ctl.Streams{Out: &stdout, Err: &stderr}); code != ctlapp.ExitOK {
			t.Errorf("topic describe %s ends with %d: %s", topic, code, &stderr)
		}
		var topics []struct {
			Partitions []struct {
				Partition int    `json:"partition"`
				Error     string `json:"error"`
			} `json:"partitions"`
		}
		must.OK(t, json.Unmarshal(stdout.Bytes(), &topics))
		for _, p := range topics[0].Partitions {
			if (p.Error != "") != (strconv.Itoa(p.Partition) == index) {
				t.Errorf(
					"topic describe has the error %q for partition %d of %s, a finding is about %s",
					p.Error,
					p.Partition,
					topic,
					partition,
				)
			}
		}
	}
}

// normal replaces the parts that differ from run to run.
func normal(text string) string {
	for _, x := range [][2]string{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"}, {`(127\.0\.0\.1|\[::1\]):\d+`,
			"ADDRESS"}, {`is [0-9a-f]{8}, the batch says [0-9a-f]{8}`, "is CHECKSUM, the batch says CHECKSUM"},
		{`(append to|create) segment:\s+(write|create)\s+/data/logs/orders-1/\d{20}.log:\s+operation not permitted`, "the segment FAILED"},
	} {
		text = regexp.MustCompile(x[0]).ReplaceAllString(text, x[1])
	}
	return text
}

func faults() []fault {
	return append(append(diskFaults(), clusterFaults()...), []fault{
		{name: "archive-missing", set: []string{"archive.url=file:///not-mounted"}, checks: []string{"snapshots"}},
		{name: "not-copied", checks: []string{"tier"}, plant: func(_ *testing.T, s *sick) {
			at := time.Now().Add(-time.Hour)
			s.health.Add(func(f *checks.Facts) {
				for i := range int32(2) {
					f.Uncopied = append(f.Uncopied, checks.TierFailure{Topic: "orders", Partition: i, Since: at,
						Error: fmt.Sprintf("put an object of orders-%d: no route to host", i)})
				}
				f.Unread = append(f.Unread, checks.TierFailure{Topic: "orders", Since: at, Error: "object 17 is missing"})
			})
		}},
		{name: "healthy"},
		{name: "profile-weak", set: []string{"wal.profile=os"}},
		{name: "topic-weak", plant: func(t *testing.T, s *sick) {
			if _, err := kadm.NewClient(client(t, s.Broker)).CreateTopic(t.Context(), 1, 1,
				map[string]*string{"chronik.durability.profile": new("os")}, "clicks"); err != nil {
				t.Error(err)
			}
		}},
		{name: "retention-short", plant: func(t *testing.T, s *sick) {
			for topic, ms := range map[string]string{"clicks": "7", "meant": "+7", "long": "60000"} {
				if _, err := kadm.NewClient(client(t, s.Broker)).CreateTopic(t.Context(), 1, 1,
					map[string]*string{"retention.ms": new(ms)}, topic); err != nil {
					t.Error(err)
				}
			}
		}},
		{name: "log-not-created", checks: []string{"partition"}, plant: notCreated(1)},
		{name: "logs-not-created", checks: []string{"partition"}, plant: notCreated(6)},
		{name: "log-refuses", checks: []string{"partition"}, plant: func(t *testing.T, s *sick) {
			s.errs.Add(errfs.Rule{Ops: errfs.Create | errfs.Write, Err: syscall.EPERM, Path: "/data/logs/orders-1/*.log"})
			c := client(t, s.Broker)
			for range 100 { // until the segment is full, or its records leave the memory
				r := kgo.SliceRecord(make([]byte, 100_000))
				r.Topic, r.Partition = "orders", 1
				c.Produce(t.Context(), r, nil)
			}
		}},
		{name: "metadata-copy-behind", checks: []string{"metadata"}, plant: func(t *testing.T, s *sick) {
			s.errs.Add(
				errfs.Rule{
					Ops:  errfs.Create | errfs.Write | errfs.Datasync,
					Err:  syscall.EIO,
					When: func(c errfs.Call) bool { return strings.HasPrefix(c.Path, copies.In("/data/logs")) },
				},
			)
			if _, err := kadm.NewClient(client(t, s.Broker)).CreateTopic(t.Context(), 1, 1, nil, "new"); err != nil {
				t.Error(err)
			}
		}},
		{name: "stuck-group", set: []string{"group.initial.rebalance.delay.ms=0"}, checks: []string{"group"}, plant: stickGroup},
		{name: "memory-short", checks: []string{"memory"}, plant: func(_ *testing.T, s *sick) {
			s.health.Add(func(f *checks.Facts) { f.Memory.Limit, f.Memory.Resident = 1<<30, 1<<30-1 })
		}},
		{name: "clock-set", checks: []string{"clock"}, plant: func(_ *testing.T, s *sick) {
			at := time.Now()
			s.health.Add(func(f *checks.Facts) { f.Clock = checks.Clock{Known: true, Stepped: time.Hour, SteppedAt: at} })
		}},
		{name: "boot-hidden", checks: []string{"boot"}, plant: func(_ *testing.T, s *sick) {
			s.health.Add(func(f *checks.Facts) { f.Boot = checks.Boot{Hidden: true} })
		}},
		{name: "many", checks: plantedChecks(), plant: plantMany},
		{name: "files-used-up", checks: []string{"files"}, plant: func(_ *testing.T, s *sick) {
			s.health.Add(func(f *checks.Facts) { f.Files = checks.Files{Limit: 1024, Open: 1020} })
		}},
	}...)
}

// notCreated makes the creation of the topic new fail.
func notCreated(partitions int32) func(t *testing.T, s *sick) {
	return func(t *testing.T, s *sick) {
		s.errs.Add(
			errfs.Rule{
				Ops:  errfs.Create | errfs.Mkdir,
				Err:  syscall.EMFILE,
				When: func(c errfs.Call) bool { return strings.Contains(c.Path, "/new-") },
			},
		)
		_, _ = kadm.NewClient(client(t, s.Broker)).CreateTopic(t.Context(), partitions, 1, nil, "new")
	}
}

// unplanted are the checks that no fault is planted for, with the reason.
var unplanted = map[string]string{
	health.CheckServing: "a Monitor's own: its tests",
	"responding":        "a Monitor's own: its tests",
	"exposed":           "finds notes only, which change no surface but the list of checks",
	"access":            "finds notes only",
	"advertise":         "finds notes only",
	"profile":           "finds notes only: profile-weak and topic-weak",
	"shared_disk":       "finds notes only",
	"version":           "finds notes only",
}

// Every check has a fault, or a reason why none is planted.
func TestEveryCheckHasAFault(t *testing.T) {
	planted := map[string]bool{}
	for _, f := range faults() {
		for _, check := range f.checks {
			planted[check] = true
		}
	}
	known := map[string]bool{}
	for _, c := range checks.Checks() {
		known[c.Name] = true
		if planted[c.Name] == (unplanted[c.Name] != "") {
			t.Errorf("the check %s: planted %v, reason %q; add it to faults, clusterFaults or unplanted", c.Name,
				planted[c.Name], unplanted[c.Name])
		}
	}
	for name := range unplanted {
		if !known[name] {
			t.Errorf("there is no check %s", name)
		}
	}
}

func plantedChecks() []string {
	return []string{"removed", "transaction", "file_system", "mount", "sync", "journal", "retention", "certificate", "tokens",
		"audit", "settings", "refused", "missing_files"}
}

// plantMany plants a fault for each of plantedChecks, as facts: other tests check where these come
// from.
func plantMany(_ *testing.T, s *sick) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	slow := view.Latency{Count: 1000, Median: time.Second, P99: time.Second, Over: "since the start", Records: 100}
	full := view.Dir{Path: "/planted", Journal: "/planted/journal", Space: view.SpaceOK, Free: 9 << 40, Total: 10 << 40, Syncs: slow,
		JournalBytes: 9 << 20, JournalLimit: 10 << 20, KeptLogs: 1, Kept: 11 << 40}
	s.health.Add(func(f *checks.Facts) {
		f.Lost = []checks.Lost{{Role: checks.RoleJournal, Path: "/planted/journal", Why: "it was removed"}}
		f.Coordinators = []checks.Coordinator{{Topic: "__transaction_state", Since: at, Failed: true}}
		f.MountedDirs = []checks.MountedDir{
			{Role: checks.RoleLogs, Path: "/a", Mount: checks.Mount{Point: "/a", Type: "ext2", Device: "8:1"}},
			{Role: checks.RoleLogs, Path: "/b", Mount: checks.Mount{Point: "/b", Type: "ext4", Device: "8:2",
				Options: []string{"nobarrier"}}},
		}
		f.Dirs = append(f.Dirs, full)
		f.Certificates = []view.Certificate{{Listener: "planted", Kind: "server", File: "/c.pem", Expires: at}}
		f.TokenKeys = checks.TokenKeys{Source: "/keys", Error: "no such file"}
		f.Audit = view.Audit{Sink: "/audit", Failed: "no space", Dropped: 3}
		f.Settings.RetentionBytes, f.Settings.SegmentBytes = 1, 2
		f.Refused = []view.Refused{{Kind: view.RefusedQuota, Cause: "producer_byte_rate", Rule: "user=<default>", Detail: "100",
			Who: view.Client{User: "bob", ClientID: "app"}, Count: 3, Longest: 2 * time.Minute, Since: at}}
		f.Partitions = append(f.Partitions, view.Log{Topic: "planted",
			Missing: "1 file was removed or cut while the broker uses it: /f.log"})
	})
}

// diskFaults returns the faults of disks and of the files on them.
func diskFaults() []fault {
	write := func(t *testing.T, s *sick) {
		c := client(t, s.Broker)
		c.Produce(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("v")}, func(*kgo.Record, error) {})
	}
	fail := func(spare string, partitions int32) func(t *testing.T, s *sick) {
		return func(t *testing.T, s *sick) {
			// Otherwise the first write that fails may be one of the zeros that prepare this file.
			eventually(t, "the journal's next file is prepared", func() bool { return s.prepared.has(spare) })
			s.errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync | errfs.Create | errfs.Allocate, Path: "/one/journal/*",
				Err: syscall.EIO})
			c := client(t, s.Broker)
			for p := range partitions {
				c.Produce(t.Context(), &kgo.Record{Topic: "orders", Partition: p, Value: []byte("v")}, func(*kgo.Record, error) {})
			}
		}
	}
	return []fault{
		{name: "space-low", checks: []string{"space"}, plant: func(t *testing.T, s *sick) { s.disk.leave(t, s.Broker, 80<<20) }},
		{name: "space-nearly-low", checks: []string{"space"}, plant: func(t *testing.T, s *sick) { s.disk.leave(t, s.Broker, 9<<30) }},
		{name: "dir-failed", set: []string{"log.dirs=/one"}, checks: []string{"log_dir"},
			plant: fail("/one/journal/00000000000000000005.journal", 1)}, // one entry in one write
		{name: "one-dir-of-two-failed", set: []string{"log.dirs=/one,/two"}, checks: []string{"log_dir"},
			plant: fail("/one/journal/00000000000000000003.journal", 2)}, // one of them is in /one
		{
			name:   "dir-not-opened",
			set:    []string{"log.dirs=/one,/two"},
			checks: []string{"log_dir"},
			damage: func(t *testing.T, fsys vfs.FS) { truncate(t, fsys, "/two/chronik.dir", 3) },
		},
		{name: "disk-stuck", checks: []string{"stuck_disk"}, plant: func(t *testing.T, s *sick) {
			free := make(chan struct{})
			s.errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/data/logs/journal/*", Before: func(errfs.Call) { <-free }})
			write(t, s)
			t.Cleanup(func() { close(free) })
		}},
		{
			name:   "segment-short",
			checks: []string{"partition"},
			damage: func(t *testing.T, fsys vfs.FS) { truncate(t, fsys, segment(t, fsys, "orders-0", ".log"), 1000) },
		},
		{
			name:   "segment-missing",
			checks: []string{"partition"},
			damage: func(t *testing.T, fsys vfs.FS) { removed(t, fsys, segment(t, fsys, "orders-0", ".log")) },
		},
		{
			name:   "partition-missing",
			checks: []string{"partition"},
			damage: func(t *testing.T, fsys vfs.FS) { removed(t, fsys, "/data/logs/orders-0") },
		},
		{name: "index-missing", damage: func(t *testing.T, fsys vfs.FS) { removed(t, fsys, segment(t, fsys, "orders-0", ".index")) }},
		{
			name:   "batch-damaged",
			checks: []string{"damage"},
			damage: func(t *testing.T, fsys vfs.FS) { flip(t, fsys, segment(t, fsys, "orders-0", ".log"), 50_000) },
			plant: func(t *testing.T, s *sick) {
				c, err := kgo.NewClient(
					kgo.SeedBrokers(s.Addrs()...),
					kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(0)}}),
				)
				must.OK(t, err)
				defer c.Close()
				eventually(t, "a read finds the damage", func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					c.PollFetches(ctx)
					for _, l := range s.components.storage.Logs() {
						if l.Damaged() != nil {
							return true
						}
					}
					return false
				})
			},
		},
	}
}

// segment returns the oldest file of a partition with the given suffix.
func segment(t *testing.T, fsys vfs.FS, partition, suffix string) string {
	t.Helper()
	dir := path.Join("/data/logs", partition)
	all, err := fsys.List(dir)
	must.OK(t, err)
	for _, x := range all {
		if strings.HasSuffix(x.Name, suffix) {
			return path.Join(dir, x.Name)
		}
	}
	t.Fatalf("%s has no file %s: %v", dir, suffix, all)
	return ""
}

func removed(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	must.OK(t, fsys.RemoveAll(name))
}

func truncate(t *testing.T, fsys vfs.FS, name string, size int64) {
	t.Helper()
	changed(t, fsys, name, func(f vfs.File) error { return f.Truncate(size) })
}

func flip(t *testing.T, fsys vfs.FS, name string, at int64) {
	t.Helper()
	changed(t, fsys, name, func(f vfs.File) error {
		b := []byte{0}
		if _, err := f.ReadAt(b, at); err != nil {
			return err
		}
		b[0] ^= 0xff
		_, err := f.WriteAt(b, at)
		return err
	})
}

func changed(t *testing.T, fsys vfs.FS, name string, fn func(vfs.File) error) {
	t.Helper()
	f, err := fsys.Open(name)
	must.OK(t, err)
	must.OK(t, fn(f))
	must.OK(t, f.Close())
}

// stickGroup creates the group g, whose only member joins and then does nothing.
func stickGroup(t *testing.T, s *sick) {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = "g", 300_000, 300_000, "consumer"
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	c := client(t, s.Broker)
	for {
		answer, err := r.RequestWith(t.Context(), c)
		if err != nil || answer.MemberID == "" {
			t.Fatal(answer, err)
		}
		if answer.ErrorCode == 0 {
			return
		}
		r.MemberID = answer.MemberID // the first response only assigns an id
	}
}
