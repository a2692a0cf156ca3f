package daemon

import (
	"math"
	"path"
	"runtime/debug"
	"slices"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/chronik-io/chronik/internal/daemon/config"
	"github.com/chronik-io/chronik/internal/diagnose"
	"github.com/chronik-io/chronik/internal/diagnose/host"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/topicconf"
	"github.com/chronik-io/chronik/pkg/durability"
)

// facts gathers what checks go by. It is used by the watcher's goroutine alone.
type facts struct {
	b        *Broker
	conf     topicconf.Broker
	settings diagnose.Settings
	machine  *host.Machine // nil: the broker depends on none
	syncs    syncHistory
	probes   *probes
	memory   diagnose.Memory // as the budgets were made
	// The clock at the last look, and when it was set last.
	last      time.Time
	stepped   time.Duration
	steppedAt time.Time
}

func (x *facts) gather() *diagnose.Facts {
	f := &diagnose.Facts{Now: time.Now(), Standing: x.b.ready.findings(), Settings: x.settings}
	if x.machine != nil {
		x.ofMachine(f)
	}
	if x.b.ready.doingNow() == "" {
		x.ofRooms(f, x.b.rooms)
	}
	return f
}

// ofMachine adds what the machine says.
func (x *facts) ofMachine(f *diagnose.Facts) {
	conf := &x.conf
	f.Files = x.machine.Files()
	f.Files.MaxConnections = int(conf.MaxConnections)
	f.Memory = x.machine.Memory()
	if limit, err := memlimit.FromCgroup(); err == nil {
		f.Memory.Limit = int64(min(limit, math.MaxInt64))
	}
	f.Memory.GoLimit = debug.SetMemoryLimit(-1)
	all := places(conf)
	f.Memory.There, f.Memory.Budgets, f.Memory.Wanted = x.memory.There, x.memory.Budgets, x.memory.Wanted
	f.Clock = x.machine.Clock()
	if !x.last.IsZero() {
		if by := diagnose.Stepped(x.last, f.Now, f.Now.Sub(x.last)); by != 0 {
			x.stepped, x.steppedAt = by, f.Now
		}
	}
	x.last = f.Now
	f.Clock.Stepped, f.Clock.SteppedAt = x.stepped, x.steppedAt

	f.Places = append(f.Places, x.machine.Place(diagnose.RoleData, x.b.cfg.DataDir))
	for _, p := range all {
		journal := p.Journal
		if journal == "" {
			journal = path.Join(p.Path, "journal")
		}
		f.Places = append(f.Places, x.machine.Place(diagnose.RoleLogs, p.Path), x.machine.Place(diagnose.RoleJournal, journal))
	}
}

// settingsOf is what was configured. It doesn't change while the broker runs.
func settingsOf(cfg *config.Config, b *topicconf.Broker, t *topicconf.Topic) diagnose.Settings {
	s := diagnose.Settings{Warnings: cfg.Warnings, Profile: cfg.WALProfile, Admin: diagnose.Listener{Name: "admin", Listen: cfg.AdminListen}}
	s.Admin.Open = cfg.AdminListen != "" && !config.Loopback(cfg.AdminListen)
	for _, l := range cfg.Listeners {
		s.Listeners = append(s.Listeners, diagnose.Listener{Name: l.Name, Listen: l.Listen, Advertise: l.Advertise,
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

// ofRooms adds what the rooms of a broker that serves say.
func (x *facts) ofRooms(f *diagnose.Facts, r *rooms) {
	latencies := x.syncs.look(f.Now, metrics.Observed(r.measured.SyncSeconds), metrics.Observed(r.measured.GroupRecords))
	for _, d := range r.storage.Dirs() {
		space, use := d.LastSpace(), d.Usage()
		y := diagnose.Dir{
			Path: d.Path(), Journal: d.JournalPath(), MaxOpenFiles: use.MaxOpenFiles,
			Free: space.Free, Total: space.Total, SpaceKnown: space.Known, MinFree: space.MinFree,
			JournalBytes: use.JournalBytes, JournalLimit: use.JournalLimit, Syncs: latencies[d.Path()],
			Probe: x.probes.of(d.JournalPath()),
		}
		if _, total, err := x.b.fs.Free(d.JournalPath()); err == nil {
			y.JournalTotal = int64(min(total, math.MaxInt64))
		}
		for _, l := range d.Logs() {
			y.Logs++
			if c := l.Config().Cleanup; c.Delete && c.RetentionTime < 0 && c.RetentionBytes >= 0 {
				y.KeptLogs++
				y.Kept += min(c.RetentionBytes, math.MaxInt64-y.Kept)
			}
		}
		f.Dirs = append(f.Dirs, y)
	}
	x.ofTopics(f, r)
}

// ofTopics adds the partitions that cannot be used and the topics that promise
// less than the default.
func (x *facts) ofTopics(f *diagnose.Facts, r *rooms) {
	weaker := map[string]bool{}
	for _, l := range r.storage.Logs() {
		if l.Config().Profile.Ack == durability.Written {
			weaker[l.Topic()] = true
		}
	}
	for name := range weaker {
		f.Weaker = append(f.Weaker, name)
	}
	slices.Sort(f.Weaker)
	retried := map[string]bool{}
	for _, f := range r.unmade() {
		retried[f.String()] = true
	}
	r.eachUnavailable(r.applier.Image(), func(t *metadata.Topic, index int32, why error) {
		name := spot{t.Name, index}.String()
		f.Partitions = append(f.Partitions, diagnose.Broken{Partition: name, Why: why.Error(), Retried: retried[name]})
	})
}
