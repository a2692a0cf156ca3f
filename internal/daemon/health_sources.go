package daemon

import (
	"cmp"
	"errors"
	"math"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/daemon/config"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/health/host"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/topicconf"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// startHealth starts the checks of a broker that is about to start. Until it serves clients they go
// by its configuration and the machine.
func (b *Broker) startHealth(version string, ready func(bool), log *zap.Logger) error {
	conf := static(b.cfg)
	broker, err := b.configs.ResolveBroker(conf)
	if err != nil {
		return &ExitError{ExitUsage, err}
	}
	topic, err := b.configs.ResolveTopic(topicconf.Layers{Static: conf})
	if err != nil {
		return &ExitError{ExitUsage, err}
	}
	dirs := places(&broker)
	b.memory = memoryThere()
	wanted, cut := divide(b.memory, b.cfg.Produce, len(dirs), broker.Cleaning.KeyBytes)
	b.budgets = cut
	o := checks.Options{Broker: broker.NodeID, Version: version, Checks: checks.Checks(), SlowEvery: b.slowChecks, Ready: ready, Log: log}
	settings := settingsOf(b.cfg, &broker, &topic)
	o.Sources = []checks.Source{func(f *checks.Facts) {
		f.Settings = settings
		f.Memory.There, f.Memory.Budgets, f.Memory.Wanted = b.memory, cut.sum(len(dirs)), wanted.sum(len(dirs))
	}}
	if b.fs == vfs.OS() { // a broker in memory depends on no machine
		m := &machine{Machine: host.New(), data: b.cfg.DataDir, dirs: dirs, maxConnections: int(broker.MaxConnections)}
		o.Slow = []checks.SlowSource{m.slow}
		o.Sources = append(o.Sources, m.quick)
	}
	b.health = checks.Start(o)
	return metrics.RegisterFindings(b.reg, findingsOf(b.health, o.Checks))
}

// findingsOf shows to metrics how many findings there are.
func findingsOf(m *checks.Monitor, all []checks.Check) func() []metrics.Findings {
	return func() []metrics.Findings {
		type key struct {
			check    string
			severity health.Severity
		}
		n := map[key]int{}
		for _, f := range m.Last().Findings {
			n[key{f.Check, f.Severity}]++
		}
		var found []metrics.Findings
		for _, c := range all {
			for _, s := range health.Severities() {
				found = append(found, metrics.Findings{Check: c.Name, Severity: string(s), N: n[key{c.Name, s}]})
			}
		}
		return found
	}
}

// machine is the source of what the machine says.
type machine struct {
	*host.Machine
	data           string // the data directory
	dirs           []storage.Place
	maxConnections int
	// The clock when it was read last, and when it was set last. They are the Monitor's goroutine's.
	last      time.Time
	stepped   time.Duration
	steppedAt time.Time
}

// quick is a checks.Source.
func (m *machine) quick(f *checks.Facts) {
	f.Files = m.Files()
	f.Files.MaxConnections = m.maxConnections
	used := m.Memory()
	f.Memory.Resident, f.Memory.Swapped = used.Resident, used.Swapped
	if limit, err := memlimit.FromCgroup(); err == nil {
		f.Memory.Limit = int64(min(limit, math.MaxInt64))
	}
	f.Memory.GoLimit = debug.SetMemoryLimit(-1)
	f.Clock = m.Clock()
	if !m.last.IsZero() {
		if by := checks.Stepped(m.last, f.Now, f.Now.Sub(m.last)); by != 0 {
			m.stepped, m.steppedAt = by, f.Now
		}
	}
	m.last = f.Now
	f.Clock.Stepped, f.Clock.SteppedAt = m.stepped, m.steppedAt
}

// slow finds out what the directories lie on. A file system that does not answer may hold it.
func (m *machine) slow(s *checks.Slow) {
	s.Places, s.JournalTotals = []checks.Place{m.Place(checks.RoleData, m.data)}, map[string]int64{}
	for _, d := range m.dirs {
		journal := d.Journal
		if journal == "" {
			journal = path.Join(d.Path, "journal")
		}
		s.Places = append(s.Places, m.Place(checks.RoleLogs, d.Path), m.Place(checks.RoleJournal, journal))
		if _, total, err := vfs.OS().Free(journal); err == nil {
			s.JournalTotals[journal] = int64(min(total, math.MaxInt64))
		}
	}
}

// settingsOf is what was configured. It does not change while the broker runs.
func settingsOf(cfg *config.Config, b *topicconf.Broker, t *topicconf.Topic) checks.Settings {
	s := checks.Settings{DataDir: absolute(cfg.DataDir), Warnings: cfg.Warnings, Profile: cfg.WALProfile, Admin: checks.Listener{Name: "admin", Listen: cfg.AdminListen}}
	s.Admin.Open = cfg.AdminListen != "" && !config.Loopback(cfg.AdminListen)
	for _, l := range cfg.Listeners {
		s.Listeners = append(s.Listeners, checks.Listener{Name: l.Name, Listen: l.Listen, Advertise: l.Advertise,
			Open: !config.Loopback(l.Listen), AdvertisesLoopback: l.Advertise != "" && config.Loopback(l.Advertise)})
	}
	if p, err := cfg.Durability.Lookup(cfg.WALProfile); err == nil {
		s.Synced = p.Ack == durability.Synced
		s.Lost = p.Promise(durability.Setting{Acks: -1, Replicas: 1, MinISR: 1}, durability.LeaderPowerLoss).String()
	}
	s.MinISR, s.Replicas = int64(t.MinInSyncReplicas), int64(b.DefaultReplicationFactor)
	s.RetentionBytes, s.SegmentBytes = t.RetentionBytes, int64(t.SegmentBytes)
	s.MaxMessage, s.MaxRequest = int64(t.MaxMessageBytes), int64(b.MaxRequestBytes)
	return s
}

// absolute is a path for commands that an operator runs in another working directory.
func absolute(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// presence watches the directories that the broker has open files in.
func presence(data string, dirs []*storage.Dir) *host.Presence {
	used := []host.Used{{Role: checks.RoleMetadata, Path: path.Join(data, metadataDir), Files: "*.log"}}
	for _, d := range dirs {
		used = append(used, host.Used{Role: checks.RoleLogs, Path: d.Path(), Files: storage.IdentityFile}, host.Used{Role: checks.RoleJournal, Path: d.JournalPath(), Files: "*.journal"})
	}
	return host.NewPresence(used...)
}

// dirFacts is the source of what the log directories say.
func (b *Broker) dirFacts(r *rooms) checks.Source {
	var history syncHistory
	progress := map[*storage.Dir]progressed{}
	var unopened []checks.Unopened
	for _, d := range r.storage.Failed() {
		setting, flags := placeOf(b.cfg.Broker, d)
		unopened = append(unopened, checks.Unopened{Path: d.Path, Why: d.Err.Error(), Remedy: cmp.Or(dataRemedy(setting, flags, d.Err), "repair it")})
	}
	return func(f *checks.Facts) {
		f.Unopened = unopened
		latencies := history.look(f.Now, metrics.Observed(r.measured.SyncSeconds), metrics.Observed(r.measured.GroupRecords))
		for _, d := range r.storage.Dirs() {
			space, use := d.LastSpace(), d.Usage()
			x := checks.Dir{
				Path: d.Path(), Journal: d.JournalPath(), Err: failure(d.Err()), MaxOpenFiles: use.MaxOpenFiles,
				Free: space.Free, Total: space.Total, SpaceKnown: space.Known, MinFree: space.MinFree, SpaceMessage: space.Message,
				JournalBytes: use.JournalBytes, JournalLimit: use.JournalLimit, Syncs: latencies[d.Path()],
				Probe: b.probes.of(d.JournalPath()),
			}
			pulse := d.Pulse()
			if before, known := progress[d]; !known || !pulse.Waiting || pulse.Durable != before.durable {
				progress[d] = progressed{pulse.Durable, f.Now}
			}
			x.Waiting = f.Now.Sub(progress[d].at)
			for _, l := range d.Logs() {
				x.Logs++
				conf := l.Config()
				x.Allowed = max(x.Allowed, conf.Profile.MaxWait, conf.Profile.Interval)
				if c := conf.Cleanup; c.Delete && c.RetentionTime < 0 && c.RetentionBytes >= 0 {
					x.KeptLogs++
					x.Kept += min(c.RetentionBytes, math.MaxInt64-x.Kept)
				}
			}
			f.Dirs = append(f.Dirs, x)
		}
	}
}

// progressed is when a journal was last seen to make progress, or to have nothing to do.
type progressed struct {
	durable uint64
	at      time.Time
}

func failure(err error) string {
	if err == nil {
		return ""
	}
	return reason(err)
}

// partitionFacts is a checks.Source: the partitions that cannot be used or have damaged records, and
// the topics that promise less than the default.
func (r *rooms) partitionFacts(f *checks.Facts) {
	weaker := map[string]bool{}
	for _, l := range r.storage.Logs() {
		if l.Config().Profile.Ack == durability.Written {
			weaker[l.Topic()] = true
		}
		p := checks.Partition{Topic: l.Topic(), Index: l.ID().Partition, Dir: l.Dir().Path()}
		for _, d := range l.Damages() {
			p.Damages = append(p.Damages, checks.Damage{From: d.From, Next: d.Next, Where: d.File})
		}
		if len(p.Damages) > 0 {
			f.Partitions = append(f.Partitions, p)
		}
	}
	for name := range weaker {
		f.Weaker = append(f.Weaker, name)
	}
	slices.Sort(f.Weaker)
	retried := map[metadata.TopicPartition]bool{}
	for _, x := range r.unmade() {
		retried[metadata.TopicPartition{Topic: x.TopicID, Partition: x.Partition}] = true
	}
	r.eachUnavailable(r.applier.Image(), func(t *metadata.Topic, index int32, why error) {
		p := checks.Partition{Topic: t.Name, Index: index, Offline: reason(why), Retried: retried[metadata.TopicPartition{Topic: t.ID, Partition: index}]}
		if x, err := r.replicas.Partition(t.ID, index); err == nil {
			p.Dir = x.Log().Dir().Path()
		}
		if d := (*storage.DirError)(nil); errors.As(why, &d) {
			p.Dir = d.Path
		}
		f.Partitions = append(f.Partitions, p)
	})
}

// reason is an error without what the finding says already.
func reason(err error) string {
	text := strings.TrimPrefix(err.Error(), replica.ErrOffline.Error()+": ")
	return strings.TrimPrefix(text, storage.ErrFailed.Error()+": ")
}
