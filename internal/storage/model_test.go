package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// The model runs the real code on a file system that loses power, and knows what each log may
// contain after a crash. It reads what a log promised (its ends) from the dead process: a promise
// counts from the moment when it was visible.

// patience is how long a test waits for an event, even on a busy machine.
const patience = 2 * time.Minute

// failure is an error that the model found. A panic carries it out of callbacks and helpers.
type failure struct{ msg string }

func failf(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

// mbatch is a batch as it must be in the log.
type mbatch struct {
	base, next int64
	data       []byte
	records    []mrecord
	pid        int64
	seq        int32
	epoch      int32
}

// history is one possible content of a log after a crash.
type history struct {
	start           int64 // log start
	first           int64 // first offset of bs
	bs              []mbatch
	synced, written int64 // promised to survive a power loss, and a kill
}

func (h *history) end() int64 {
	if n := len(h.bs); n > 0 {
		return h.bs[n-1].next
	}
	return h.first
}

// cut returns the history without the batches that extend beyond end.
func (h *history) cut(end int64) history {
	c := *h
	n := 0
	for n < len(h.bs) && h.bs[n].next <= end {
		n++
	}
	c.bs = h.bs[:n:n]
	c.synced, c.written = min(c.synced, c.end()), min(c.written, c.end())
	return c
}

// promise records what the log promised, as far as this history goes, and returns its end.
func (h *history) promise(durable, written int64) int64 {
	end := h.end()
	h.synced, h.written = max(h.synced, min(durable, end)), max(h.written, min(written, end))
	return end
}

// mlog is the model's knowledge of a log.
type mlog struct {
	idle
	mu      sync.Mutex
	id      ID
	topic   string
	profile string
	l       *Log // nil while no process runs
	cur     history
	alts    []history // possible outcomes of a crash in addition to cur
	// maybe: its creation or deletion was in progress, so that a crash may restore the log or not.
	maybe bool
	// replacing: the log's end or start is being moved.
	replacing bool
	loss      *loss
	compacted bool         // a pass has begun at some time
	high      atomic.Int64 // the high watermark for compaction
	pids      int64        // active producers are pids-2 … pids
	seqs      map[int64]int32
	consumers [consumersPerLog]int64 // where they continue
	wrong     string                 // an error that a callback found
	says      func(string, ...any)
}

// OffsetsAssigned implements Sink.
func (m *mlog) OffsetsAssigned(a *Append) {}

// Reverted implements Observer. A crash may still restore records beyond end unless others have
// replaced them.
func (m *mlog) Reverted(end int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.l != nil {
		m.l.ResumeEpoch(epochOf(m.l)) // there is no other replica
		m.loss.reverted(m.l.dir)
	}
	// After a crash during the change, check knows both outcomes. A log that is being deleted has
	// no clients any more; a directory that fails meanwhile may take back all that it knows of it.
	if m.replacing || m.maybe {
		return
	}
	if end < m.cur.synced || end < m.cur.written {
		m.wrong = fmt.Sprintf("%s went back to %d, but %d was durable and %d written: %v", m.topic, end, m.cur.synced, m.cur.written, err)
	}
	m.says("%s reverts to %d from %d: %v", m.topic, end, m.cur.end(), err)
	if end >= m.cur.end() {
		return
	}
	old := m.cur
	m.cur = old.cut(end)
	if m.cur.end() != end {
		m.wrong = fmt.Sprintf("%s went back to %d, which is inside of a batch", m.topic, end)
	}
	m.alts = append(m.alts, old)
	m.forgetProducers()
}

// forgetProducers makes the model use new producer ids, since it no longer models what the log
// knows of the old ones.
func (m *mlog) forgetProducers() { m.pids += 3; m.seqs = map[int64]int32{} }

// modelConfig configures one run.
type modelConfig struct {
	steps  int
	faults bool
	broken broken
	rare   bool //nolint:unused // what broken breaks shows in few histories; builds with breakrules read it

	// noReader disables the reader: logs are only read as a whole, after starts.
	noReader bool
	// read and findTime replace Log.Read and Log.FindTime.
	read     func(l *Log, at, limit int64, max int, one bool) (Slice, error)
	findTime func(l *Log, ts, limit int64) (Timestamp, error)
	// wrap adds a file system between the code and the disk.
	wrap func(vfs.FS) vfs.FS
	say  func(string, ...any)
}

// world is one run of the model.
type world struct {
	cfg     modelConfig
	rng     *rand.Rand
	disk    *crashfs.FS
	errs    *errfs.FS
	dir     *Dir
	logs    []*mlog
	epoch   int32
	ids     byte
	counter int
	sayMu   sync.Mutex
	killed  bool // every crash since then kept the page cache
	loss    loss
	between between
	room    room
	reading *reader // runs concurrently with a step; nil if none does
}

func (w *world) say(format string, args ...any) {
	w.sayMu.Lock()
	defer w.sayMu.Unlock()
	if w.cfg.say != nil {
		w.cfg.say(format, args...)
	}
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// runModel runs one history of a log directory and returns the error that it found.
func runModel(seed uint64, cfg modelConfig) (err error) {
	w := &world{cfg: cfg, rng: newRandom(seed), disk: crashfs.New(seed), epoch: 1}
	defer func() {
		if f := recover(); f != nil {
			if x, ok := f.(failure); ok {
				err = fmt.Errorf("seed %d: %s", seed, x.msg)
			} else {
				panic(f)
			}
		}
		if w.dir != nil {
			w.disk.CrashAt(0)
			_ = w.dir.Close()
		}
	}()
	w.open(false)
	for range 1 + w.rng.IntN(3) {
		w.live()
		w.crash()
	}
	return nil
}

func (w *world) options() Options {
	profiles := modelProfiles()
	w.errs = errfs.New(w.disk)
	var fsys vfs.FS = disturbedFS{w.errs, &w.between}
	if w.cfg.wrap != nil {
		fsys = w.cfg.wrap(fsys)
	}
	w.room = w.newRoom()
	segments := w.limits()
	return Options{
		FS: fsys, Logger: w.logger(), JournalFileSize: 64 << 10, JournalBytes: w.room.journal, DeferredBytes: w.room.memory, OpenFiles: 8,
		broken: w.cfg.broken, compactBytes: int64(1 + w.rng.IntN(8<<10)),
		Config: func(topic string, id ID) Config {
			for _, m := range w.logs {
				if m.id == id {
					return Config{Profile: profiles[m.profile], Segment: segments}
				}
			}
			return Config{Profile: profiles["sync"], Segment: segments}
		},
	}
}

// logger adds the directory's log to the story.
func (w *world) logger() *zap.Logger {
	c := zap.NewDevelopmentEncoderConfig()
	c.TimeKey, c.CallerKey = "", ""
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(c), zapcore.AddSync(teller{w}), zap.WarnLevel))
}

type teller struct{ w *world }

// Write implements io.Writer.
func (t teller) Write(p []byte) (int, error) {
	t.w.say("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// modelProfiles are the three durability profiles, and interval with a long delay.
func modelProfiles() map[string]durability.Profile {
	return map[string]durability.Profile{
		"sync":     {Name: "sync", MaxRecords: 10000, MaxBytes: 50 << 20},
		"patient":  {Name: "patient", MaxWait: time.Millisecond, MaxRecords: 100, MaxBytes: 20 << 10},
		"os":       {Name: "os", Ack: durability.Written, Sync: durability.SyncOS},
		"interval": {Name: "interval", Ack: durability.Written, Sync: durability.SyncInterval, Interval: 2 * time.Millisecond},
	}
}

var profileNames = []string{"sync", "sync", "patient", "os", "interval"}

// live performs operations on the directory until a crash, or for a while.
func (w *world) live() {
	if w.dir == nil {
		return
	}
	if w.rng.IntN(4) > 0 {
		at := w.disk.Ops() + 1 + w.rng.IntN(20*w.cfg.steps/10+1)
		if w.rng.IntN(2) == 0 {
			w.disk.CrashDuring(at)
		} else {
			w.disk.CrashAt(at)
		}
	}
	for range w.rng.IntN(w.cfg.steps) + 1 {
		if w.disk.Crashed() || w.dir == nil {
			return
		}
		w.withReader(w.step)
		w.poll()
		w.few()
	}
}

// poll reads what the logs promise and compares it with earlier promises.
func (w *world) poll() {
	for _, m := range w.logs {
		if m.l == nil {
			continue
		}
		m.mu.Lock()
		start, durable := m.l.logStart.Load(), m.l.durable.Load()
		written := max(m.l.written.Load(), durable)
		end := m.cur.promise(durable, written)
		for i := range m.alts { // a truncation may not have got that far
			end = max(end, m.alts[i].promise(durable, written))
		}
		wrong := m.wrong
		if wrong == "" && (written > end || start > end) {
			wrong = fmt.Sprintf("%s: start %d, durable %d, written %d, but the log ends at %d", m.topic, start, durable, written,
				m.cur.end())
		}
		m.mu.Unlock()
		if wrong != "" {
			failf("%s", wrong)
		}
		if e := m.l.Ends(); e.Durable > e.Written || e.Written > e.LogEnd {
			failf("%s: ends are out of order: %+v", m.topic, e)
		}
	}
}

// healthy waits until every log accepts appends again, or for the crash.
func (w *world) healthy() {
	w.errs.Clear()
	var bad error
	for start := time.Now(); time.Since(start) < patience; time.Sleep(200 * time.Microsecond) {
		bad = nil
		for _, m := range w.logs {
			if m.l == nil {
				continue
			}
			if err := m.l.Err(); err != nil {
				bad = err
			}
		}
		if bad == nil || w.disk.Crashed() {
			return
		}
	}
	failf("the directory takes no records long after the last disk error: %v; directory: %v", bad, w.dir.Err())
}

// acked waits until everything appended to a log is acknowledged.
func (w *world) acked(m *mlog) {
	for start := time.Now(); time.Since(start) < patience; time.Sleep(100 * time.Microsecond) {
		if w.disk.Crashed() || m.l.Err() != nil || m.l.AckEnd() >= m.l.logEnd.Load() {
			return
		}
	}
	failf("%s: the log ends at %d, but only %d is acknowledged", m.topic, m.l.logEnd.Load(), m.l.AckEnd())
}

// check compares a recovered log with its possible contents, and makes the actual one certain.
func (w *world) check(m *mlog) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.l.Ends()
	if err := m.l.Offline(); err != nil {
		failf("%s is offline after a crash that damaged nothing: %v", m.topic, err)
	}
	got := w.content(m.l)
	why := ""
	for i, h := range append([]history{m.cur}, m.alts...) {
		bound := h.synced
		if w.killed && !w.loss.allows(m.l) {
			bound = max(bound, h.written)
		}
		if why2 := m.matches(&h, e, got, bound); why2 != "" {
			why += fmt.Sprintf("\n  history %d [%d, %d): %s", i, h.start, h.end(), why2)
			continue
		}
		m.cur, m.alts, m.maybe, m.replacing = h.cut(e.LogEnd), nil, false, false
		m.cur.start = e.LogStart
		m.cur.synced, m.cur.written = e.LogEnd, e.LogEnd
		m.high.Store(min(m.high.Load(), e.LogEnd))
		return
	}
	failf("%s (%s) came back as %+v:%s", m.topic, m.profile, e, why)
}

// matches returns why a log is not a prefix of a history that reaches at least to bound, "" if it
// is.
func (m *mlog) matches(h *history, e Ends, got []mbatch, bound int64) string {
	switch {
	case e.LogStart != min(h.start, e.LogEnd):
		return fmt.Sprintf("log start %d, want %d", e.LogStart, h.start)
	case e.LogEnd < bound:
		return fmt.Sprintf("the log ends at %d, but %d was promised", e.LogEnd, bound)
	case e.Durable != e.LogEnd:
		return fmt.Sprintf("what was recovered is not durable: %+v", e)
	}
	if c := h.cut(e.LogEnd); c.end() != e.LogEnd {
		return fmt.Sprintf("the log ends at %d, where no batch does", e.LogEnd)
	}
	want := h.cut(e.LogEnd).bs
	for len(want) > 0 && want[0].next <= e.LogStart {
		want = want[1:]
	}
	if m.compacted {
		return m.sameState(e.LogStart, want, got)
	}
	for i, b := range want {
		if i >= len(got) {
			return fmt.Sprintf("batch at %d is missing", b.base)
		}
		if got[i].base != b.base || !bytes.Equal(got[i].data, b.data) {
			return fmt.Sprintf("at %d stands another batch (at %d)", b.base, got[i].base)
		}
	}
	if len(got) > len(want) {
		return fmt.Sprintf("a ghost stands at %d", got[len(want)].base)
	}
	return ""
}

// content reads a whole log.
func (w *world) content(l *Log) []mbatch {
	var all []mbatch
	e := l.Ends()
	for at := e.LogStart; at < e.LogEnd; {
		s, err := l.Read(at, e.LogEnd, 1+w.rng.IntN(20000), true)
		if err != nil {
			failf("read %s at %d: %v", l, at, err)
		}
		if s.Size == 0 && w.isCompacted(l) {
			return all // no batch is left up to the end
		}
		if s.Size == 0 {
			failf("read %s at %d of %+v: nothing", l, at, e)
		}
		for _, p := range s.Parts {
			for len(p) > 0 {
				b, rest, err := record.Next(p)
				if err == nil {
					err = b.CheckCRC()
				}
				if err != nil {
					failf("read %s at %d: %v", l, at, err)
				}
				if got := l.EpochAt(max(b.BaseOffset(), e.LogStart)); got != b.LeaderEpoch() {
					failf("%s: the batch at %d is of epoch %d, the cache says %d", l, b.BaseOffset(), b.LeaderEpoch(), got)
				}
				all = append(all, mbatch{base: b.BaseOffset(), next: b.LastOffset() + 1, data: slices.Clone(b)})
				at, p = b.LastOffset()+1, rest
			}
		}
		s.Release()
	}
	return all
}
