package brokers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/shareload"
	"github.com/chronik-io/chronik/internal/testing/simtcp"
)

// clientIP is the address of the machine on which all clients run.
const clientIP = "10.0.0.100"

func ip(id int32) string { return fmt.Sprintf("10.0.0.%d", id) }

// kind is what histories differ in apart from their faults.
type kind struct {
	profile string   // the durability profile of all topics; "" for sync
	unclean bool     // topics allow unclean elections
	strict  bool     // clients repeat only what they repeat by default
	brokers int32    // their number; 0 for three, 1 for a broker without seeds
	dirs    int      // log directories of each broker; 0 for one
	voters  int32    // how many of them, the first ones, are seeds and have a vote; 0 for three
	witness bool     // the last of three only votes
	apart   bool     // brokers advertise addresses of their own, which are no seeds
	long    bool     // names of topics, of a group and of transactional ids have the largest valid length
	tiered  bool     // old records of some topics are only in an object store
	busy    bool     // clients send twice as often
	more    []string // further settings of all brokers
}

// called returns a name, as long as it may be if names are long.
func (k kind) called(name string, longest int) string {
	if !k.long {
		return name
	}
	return name + strings.Repeat("x", longest-len(name))
}

// moving returns the name of the topic whose replicas move.
func (k kind) moving() string { return k.called("moved", controller.MaxNameLength) }

// readers returns the group of the members that consume and commit.
func (k kind) readers() string { return k.called("readers", protocol.MaxName) }

// payer returns a transactional id.
func (k kind) payer(i int) string { return k.called(fmt.Sprint("payer-", i), protocol.MaxName) }

// size returns the number of brokers.
func (k kind) size() int32 { return cmp.Or(k.brokers, 3) }

// seeds returns the number of brokers that have a vote.
func (k kind) seeds() int32 { return min(cmp.Or(k.voters, 3), k.size()) }

// holders returns the number of brokers that hold logs, the first ones.
func (k kind) holders() int32 {
	if k.witness {
		return k.size() - 1
	}
	return k.size()
}

// kindOf returns the kind of a random history.
func kindOf(seed uint64) kind {
	var k kind
	switch rand.New(rand.NewPCG(seed, 8)).IntN(12) {
	case 0, 1:
		k.profile = "interval"
	case 2, 3:
		k.profile = "os"
	case 4:
		k.unclean = true
	case 5:
		k.profile, k.unclean = "interval", true
	case 6:
		k.profile, k.unclean = "os", true
	}
	switch rand.New(rand.NewPCG(seed, 9)).IntN(6) {
	case 0:
		k.brokers = 5
	case 1:
		k.voters = 1
	case 2:
		k.witness = true
	}
	k.long, k.busy = rand.New(rand.NewPCG(seed, 11)).IntN(4) == 0, true
	return k
}

// bound is how long before a loss of power the last loss of an acknowledged record can be: what is
// older was synced on all in-sync replicas.
func (k kind) bound() time.Duration {
	if k.profile == "os" {
		return 5100 * time.Millisecond
	}
	return 100 * time.Millisecond
}

// world is machines with a broker each, and one with clients.
type world struct {
	testing.TB
	kind
	seed   uint64
	random *rand.Rand // of the schedule
	net    *simtcp.Net
	began  time.Time
	store  string // the directory of the object store
	log    *zap.Logger
	nodes  map[int32]*node
	host   *simtcp.Host // of the clients
	fronts *fronts
	ending sync.WaitGroup // of processes that were killed, and of what restarts them
	// lose is called when a leader epoch began with an unclean election.
	lose func(topic string, partition, epoch int32, since time.Time)
	// clients counts clients: every second one uses the address that forwards. balanced counts its
	// connections.
	clients, balanced atomic.Int64

	elects   atomic.Bool       // an operator elects leaders of recovered metadata
	damaged  int32             // the broker whose disk may have damage that was not found yet; 0 for none
	backup   map[string][]byte // of the metadata: files by name
	moved    bool              // replicas were moved since the backup
	restored bool              // metadata was restored from a backup
	mu       sync.Mutex
	wiped    bool // a disk was replaced by an empty one
	// unpowered is when a broker last lost power; zero if none did.
	unpowered time.Time
	elected   map[uncleanElection]bool
	short     map[string]bool // logs of leaders whose disk had lost records unnoticed
	lossy     time.Time       // when a disk first lost or refused what was written; zero if none did
	text      bytes.Buffer    // what was logged
	problems  []string        // what contradicts the promises
	closed    bool            // no process starts any longer
	healing   []func()        // what ends faults of disks
}

// node is a machine.
type node struct {
	id   int32
	host *simtcp.Host

	mu      sync.Mutex
	disk    *crashfs.FS
	boots   byte // losses of power so far
	starts  int
	old     snapshot       // of its disk
	process *process       // nil while none runs
	broken  bool           // its disk fails writes; a broker that has seen that restarts to use it again
	arm     func(*process) // adds faults to the next process before it starts; nil for none
}

// process is a broker from its start to its end.
type process struct {
	fs     *errfs.FS
	low    atomic.Bool        // see machine
	cancel context.CancelFunc // of its start
	over   chan struct{}      // closed when its start has ended
	broker *daemon.Broker     // after over; nil if the start failed
	gone   chan struct{}      // closed when it was killed or stopped
	name   string             // of this process among all
	stops  bool               // stop ends it, however its start ends; node.mu protects it
}

// machine is the file system of a machine that boots with every loss of power.
type machine struct {
	*errfs.FS
	boot [16]byte
	low  *atomic.Bool // it has little free space
}

// Free implements vfs.FS.
func (m machine) Free(dir string) (available, total uint64, err error) {
	available, total, err = m.FS.Free(dir)
	if m.low.Load() {
		available = min(available, 1<<20)
	}
	return available, total, err
}

// BootID identifies the run of the machine's kernel.
func (m machine) BootID() [16]byte { return m.boot }

// newWorld starts the brokers.
func newWorld(t testing.TB, seed uint64, k kind) *world {
	w := &world{TB: t, kind: k, seed: seed, random: rand.New(rand.NewPCG(seed, 7)), net: simtcp.New(seed, time.Millisecond),
		began: time.Now(),
		nodes: map[int32]*node{}, fronts: newFronts(), elected: map[uncleanElection]bool{}, short: map[string]bool{},
		lose: func(string, int32, int32, time.Time) {}}
	w.host = w.net.Host(clientIP)
	if k.tiered {
		w.store = t.TempDir()
	}
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "m", NameKey: "n", LevelKey: "l",
		EncodeLevel: zapcore.CapitalLevelEncoder})
	w.log = zap.New(zapcore.NewCore(encoder, w, zap.InfoLevel))
	t.Cleanup(w.close)
	for id := int32(1); id <= k.size(); id++ {
		w.nodes[id] = &node{id: id, disk: crashfs.New(seed<<4 + uint64(id))}
		w.start(id)
	}
	return w
}

// Write is the sink of all logs.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	fmt.Fprintf(&w.text, "%8.3f ", time.Since(w.began).Seconds())
	w.text.Write(p)
	w.mu.Unlock()
	if bytes.Contains(p, []byte("unclean leader election: ")) {
		w.electedUncleanly(p)
	}
	if bytes.Contains(p, []byte("the log lacks records that another replica has")) {
		w.ledShort(p)
	}
	return len(p), nil
}

// logged returns how much was logged so far.
func (w *world) logged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Len()
}

// since returns what was logged after logged returned a number.
func (w *world) since(begun int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text.Bytes()[begun:])
}

// ledShort handles what a leader says of its log.
func (w *world) ledShort(line []byte) {
	var e struct{ Log string }
	if err := json.Unmarshal(line[bytes.IndexByte(line, '{'):], &e); err != nil {
		w.problem("%s: %v", line, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.short[e.Log] = true
}

// wasShort reports whether a leader of one of the coordinator's logs or of a log was short.
func (w *world) wasShort(coordinators, log string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.short {
		if name == log || strings.HasPrefix(name, coordinators) {
			return true
		}
	}
	return false
}

// uncleanElection is what the brokers log about one.
type uncleanElection struct {
	Topic, ID        string
	Partition, Epoch int32
}

// electedUncleanly handles what a broker says about an unclean election. Without it, no history may
// lose anything.
func (w *world) electedUncleanly(line []byte) {
	var e uncleanElection
	if err := json.Unmarshal(line[bytes.IndexByte(line, '{'):], &e); err != nil {
		w.problem("%s: %v", line, err)
		return
	}
	w.mu.Lock()
	lossy, known, raised := w.lossy, w.elected[e], w.raised(e)
	w.elected[e] = true
	w.mu.Unlock()
	switch {
	case known: // another broker said so, or the same one in a former process
	case w.unclean:
		w.lose(e.Topic, e.Partition, e.Epoch, time.Time{})
	case w.elects.Load() && (w.profile == "" || lossy.IsZero()): // all replicas take part, so the leader has everything
	case raised && (w.profile == "" || lossy.IsZero()):
	case w.profile == "" || lossy.IsZero():
		w.problem("an unclean election of %s-%d, although nothing permits it", e.Topic, e.Partition)
	default:
		w.lose(e.Topic, e.Partition, e.Epoch, lossy.Add(-w.bound()))
	}
}

// raised reports whether the epoch of an unclean election is that of a known one after it was
// raised: a broker that applies both at once says no other. The caller holds mu.
func (w *world) raised(e uncleanElection) bool {
	for known := range w.elected {
		from := known.Epoch
		if known.Epoch = e.Epoch; known == e && metadata.Raised(from, e.Epoch) {
			return true
		}
	}
	return false
}

// mayLose notes that a disk lost or refused what was written.
func (w *world) mayLose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lossy.IsZero() {
		w.lossy = time.Now()
	}
}

// Sync implements zapcore.WriteSyncer.
func (w *world) Sync() error { return nil }

// note logs what the simulation does.
func (w *world) note(format string, args ...any) { w.log.Info(fmt.Sprintf("==== "+format, args...)) }

// problem notes what contradicts a promise.
func (w *world) problem(format string, args ...any) {
	w.note(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

func (w *world) wrong() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.problems
}

// start starts a broker, and again whenever it ends on its own, as a supervisor does.
func (w *world) start(id int32) {
	n := w.nodes[id]
	n.mu.Lock()
	defer n.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.process != nil || w.closed {
		return
	}
	cfg, err := resolve.Load(config.Input{Set: w.settings(id), File: "listeners", ReadFile: func(string) ([]byte, error) {
		advertise := ip(id)
		if w.apart {
			advertise = front(id)
		}
		return fmt.Appendf(nil, "listeners:\n- {listen: %s:9092, advertise: %s:9092}\n"+
			"- {name: one, listen: %[1]s:%[3]s, route: forward, advertise: %[4]s}\n", ip(id), advertise, forwardPort, oneAddress), nil
	}})
	if err != nil {
		w.Fatal(err)
	}
	n.starts++
	p := &process{fs: errfs.New(n.disk), over: make(chan struct{}), gone: make(chan struct{}), name: fmt.Sprintf("%d/%d", id, n.starts)}
	if n.arm != nil {
		n.arm(p)
		n.arm = nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.process, n.host, p.cancel = p, w.net.Host(ip(id)), cancel
	o := daemon.Options{Config: cfg, FS: machine{p.fs, [16]byte{1, byte(id), n.boots}, &p.low}, Net: fronted{n.host, w.fronts},
		Log: w.log.Named(fmt.Sprint(id)), Version: "test",
		JournalFileSize: 1 << 20, JournalBytes: 8 << 20}
	w.ending.Go(func() { w.supervise(ctx, n, p, o) })
}

// rack returns the rack of a broker, in which it is alone.
func rack(id int32) string { return fmt.Sprint("rack-", id) }

// settings returns the configuration of a broker.
func (w *world) settings(id int32) []string {
	set := []string{fmt.Sprint("node.id=", id), "data.dir=/data", "admin.listen=off",
		"offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=2",
		"share.coordinator.state.topic.num.partitions=3", "group.initial.rebalance.delay.ms=0",
		"log.cleaner.backoff.ms=1000", "wal.profile=" + cmp.Or(w.profile, "sync"), "broker.rack=" + rack(id)}
	set = append(set, shareload.Settings()...)
	set = append(set, w.more...)
	if w.tiered {
		set = append(set, "archive.url=file://"+w.store, "remote.log.manager.task.interval.ms=700",
			"log.retention.check.interval.ms=900")
	}
	if w.size() > 1 {
		set = append(set, "cluster.name=c", "cluster.seeds="+strings.Join(w.addresses()[:w.seeds()], ","))
	}
	if w.dirs > 1 {
		set = append(set, "log.dirs="+logDir+","+otherLogs)
	}
	if id > w.holders() {
		set = append(set, "log.dirs=none")
	}
	if w.voters > 0 { // the default of this one follows the number of seeds
		set = append(set, "default.replication.factor=3")
	}
	return set
}

func (w *world) supervise(ctx context.Context, n *node, p *process, o daemon.Options) {
	broker, err := daemon.Start(ctx, o)
	p.broker = broker
	close(p.over)
	if err == nil {
		select {
		case err = <-broker.Failed():
		case <-p.gone:
			return
		}
	}
	n.mu.Lock()
	if n.process != p || p.stops {
		n.mu.Unlock()
		return
	}
	w.note("broker %d ends on its own: %v", n.id, err)
	n.disk = n.end(p, n.disk.Kill, n.host.Kill)
	n.mu.Unlock()
	w.finish(p)
	time.Sleep(time.Second)
	w.start(n.id)
}

// end ends the process of a node, and returns its disk. Caller holds mu.
func (n *node) end(p *process, disk func() *crashfs.FS, host func()) *crashfs.FS {
	host()
	d := disk()
	p.cancel()
	close(p.gone)
	n.process = nil
	return d
}

// finish ends the goroutines of a process that can reach nothing any longer.
func (w *world) finish(p *process) {
	<-p.over
	if p.broker != nil {
		_ = p.broker.Close() // its disk is gone
	}
}

// kill ends a broker as SIGKILL does.
func (w *world) kill(id int32) {
	n := w.nodes[id]
	w.crash(id, func() *crashfs.FS { return n.disk.Kill() }, func() { n.host.Kill() })
}

// powerLoss ends a machine. Its disk has what was synced and, by mode, more. After a disk was
// replaced it only ends the process, if the profile acknowledges more than that: nothing survives
// that all replicas lose something.
func (w *world) powerLoss(id int32, mode crashfs.Mode) {
	n := w.nodes[id]
	if w.wiped && w.profile != "" {
		w.kill(id)
		return
	}
	w.mayLose()
	w.unpowered = time.Now()
	w.crash(id, func() *crashfs.FS { n.boots++; return n.disk.PowerLoss(mode) }, func() { n.host.PowerOff() })
}

// wipe ends a broker and replaces its disk by an empty one.
func (w *world) wipe(id int32) {
	n := w.nodes[id]
	seed := w.random.Uint64()
	w.wiped = true
	w.crash(id, func() *crashfs.FS { n.disk.Kill(); return crashfs.New(seed) }, func() { n.host.Kill() })
}

func (w *world) crash(id int32, disk func() *crashfs.FS, host func()) {
	n := w.nodes[id]
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.process; p != nil {
		n.disk = n.end(p, disk, host)
		w.ending.Go(func() { w.finish(p) })
	}
}

// stop ends a broker as SIGTERM does, and returns when it has ended.
func (w *world) stop(id int32) {
	n := w.nodes[id]
	n.mu.Lock()
	p := n.process
	if p != nil {
		p.stops = true
	}
	n.mu.Unlock()
	if p == nil {
		return
	}
	p.cancel()
	<-p.over
	if p.broker != nil {
		if err := p.broker.Close(); err != nil {
			w.note("broker %d: %v", id, err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == p {
		n.disk = n.end(p, n.disk.Kill, n.host.Kill)
	}
}

// pause stops a broker for a time as SIGSTOP does: its disk and its network stand still, and
// nothing is lost. Unlike there, its clocks continue. The result ends the pause early.
func (w *world) pause(id int32, d time.Duration) (resume func()) {
	n := w.nodes[id]
	n.mu.Lock()
	p := n.process
	n.mu.Unlock()
	if p == nil {
		return func() {}
	}
	early, resume := context.WithTimeout(context.Background(), d)
	resumed := make(chan struct{})
	fault := p.fs.Add(errfs.Rule{Before: func(errfs.Call) {
		select {
		case <-resumed:
		case <-p.gone:
		}
	}})
	w.net.Freeze(ip(id), true)
	w.ending.Go(func() {
		select {
		case <-early.Done():
		case <-p.gone:
		}
		resume()
		fault.Off()
		close(resumed)
		w.net.Freeze(ip(id), false)
	})
	return resume
}

// name returns the name of the process of a broker, "" if none runs.
func (w *world) name(id int32) string {
	n := w.nodes[id]
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return ""
	}
	return n.process.name
}

// process returns the process of a broker that serves, nil if it does not.
func (w *world) process(id int32) *process {
	n := w.nodes[id]
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return nil
	}
	select {
	case <-n.process.over:
		if n.process.broker != nil {
			return n.process
		}
	default:
	}
	return nil
}

// allRun reports whether all brokers serve.
func (w *world) allRun() bool {
	for id := range w.size() {
		if w.process(id+1) == nil {
			return false
		}
	}
	return true
}

// crashAtCall cuts the power of a machine at the n-th call of its file system from now, and turns
// it on again. It calls meanwhile before it waits for that.
func (w *world) crashAtCall(id int32, n int, mode crashfs.Mode, meanwhile func()) {
	at := w.nodes[id]
	at.mu.Lock()
	disk := at.disk
	at.mu.Unlock()
	disk.CrashAt(disk.Ops() + n)
	meanwhile()
	if until(10*time.Second, disk.Crashed) != nil {
		w.note("broker %d makes no %d calls", id, n)
	}
	w.note("power loss of %d at a call", id)
	at.mu.Lock()
	if at.process == nil && !(w.wiped && w.profile != "") { // it has ended because of the failing calls, and the machine has not
		w.mayLose()
		at.boots++
		at.disk = at.disk.PowerLoss(mode)
	}
	at.mu.Unlock()
	w.powerLoss(id, mode)
	w.start(id)
}

// heal restores all that can be restored.
func (w *world) heal() {
	w.net.Heal()
	w.mu.Lock()
	ends := w.healing
	w.healing = nil
	w.mu.Unlock()
	for _, end := range ends {
		end()
	}
	for id := range w.size() {
		n := w.nodes[id+1]
		n.mu.Lock()
		if n.process != nil && n.broken {
			p := n.process
			n.disk = n.end(p, n.disk.Kill, n.host.Kill)
			w.ending.Go(func() { w.finish(p) })
		}
		n.broken = false
		n.mu.Unlock()
		w.start(id + 1)
	}
}

// close stops all brokers.
func (w *world) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	for id := range w.size() {
		w.kill(id + 1)
	}
	w.host.Kill()
	w.ending.Wait()
}

var errNever = errors.New("it never happened")

// until waits until a condition holds, at most a time.
func until(most time.Duration, holds func() bool) error {
	for end := time.Now().Add(most); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return errNever
		}
	}
	return nil
}
