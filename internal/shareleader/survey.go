package shareleader

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// total has what has happened to the records of a group, as long as the group has a share partition
// in memory. It outlives each of them, so that it never falls meanwhile.
type total struct {
	partitions int // guarded by Leader.mu

	mu             sync.Mutex
	counts         window.Counts
	copied, failed int64 // dead letters, and copies that failed
}

// letters counts dead letters that were copied, and copies that failed.
func (t *total) letters(copied, failed int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.copied += copied
	t.failed += failed
}

// tally adds what the window has counted to the totals, and notes whether it is full. It is called
// before the window is dropped, and after each use.
func (p *Partition) tally() {
	if p.w == nil {
		p.seen, p.fullAt = window.Counts{}, 0
		return
	}
	if now := p.w.Counts(); now != p.seen {
		news := now.Since(p.seen)
		p.seen = now
		p.counts.Add(news)
		p.total.mu.Lock()
		p.total.counts.Add(news)
		p.total.mu.Unlock()
	}
	s := p.w.Stats()
	switch full := s.End-s.Start >= p.cfg.Locks && s.Offsets[window.Available] == 0; {
	case !full:
		p.fullAt = 0
	case p.fullAt == 0 || p.fullStart != s.Start:
		p.fullAt, p.fullStart = max(p.l.now(), 1), s.Start
	}
}

// enter counts a share partition of a group. The caller holds mu.
func (l *Leader) enter(group string) *total {
	t := l.totals[group]
	if t == nil {
		t = &total{}
		l.totals[group] = t
	}
	t.partitions++
	return t
}

// leave ends enter. The caller holds mu.
func (l *Leader) leave(group string) {
	if t := l.totals[group]; t != nil {
		if t.partitions--; t.partitions == 0 {
			delete(l.totals, group)
		}
	}
}

// Surveyed is a share partition at the time of a Survey.
type Surveyed struct {
	Key format.Key
	// Failed is why its state cannot be loaded: only members that fetch try again. Otherwise it is
	// in memory. With KAFKA_STORAGE_ERROR the state cannot be used; other errors are those of its
	// coordinator, INVALID_REQUEST if that has no state, and have lasted.
	Failed *kerr.Error
	Loaded bool
	window.Stats
	LogStart int64 // of the data partition
	High     int64 // its high watermark
	Sessions int   // that name it
	// Loading, Full and Writing are for how long it has been loading, or its loads have failed, its
	// window has been full without a move of SPSO, and a write has had no answer. 0: not at all.
	Loading, Full, Writing time.Duration
	// Unloaded is why the last try to load failed, empty if its coordinator has not answered.
	Unloaded string
	Letters  LettersView
}

// Survey has the share partitions, and by group what has happened to their records, and how many
// sessions there are.
type Survey struct {
	Partitions []Surveyed
	Totals     map[string]window.Counts
	// Letters has by group how many dead letters were copied, and how many copies failed and were
	// repeated.
	Letters  map[string][2]int64
	Sessions map[string]int
	// Loads counts states that were loaded, and Refused writes that were refused, since New.
	Loads, Refused int64
}

// Survey returns the present state of all share partitions, in any order. It takes some time for
// each.
func (l *Leader) Survey() Survey {
	now := l.now()
	l.mu.Lock()
	all := make([]*Partition, 0, len(l.parts))
	for _, p := range l.parts {
		all = append(all, p)
	}
	s := Survey{Totals: make(map[string]window.Counts, len(l.totals)), Letters: make(map[string][2]int64, len(l.totals)),
		Sessions: map[string]int{}, Loads: l.loads.Load(), Refused: l.refused.Load()}
	for k := range l.sessions.byKey {
		s.Sessions[k.group]++
	}
	for group, t := range l.totals {
		t.mu.Lock()
		s.Totals[group], s.Letters[group] = t.counts, [2]int64{t.copied, t.failed}
		t.mu.Unlock()
	}
	for k, f := range l.failed {
		if now-f.at > failedTime {
			delete(l.failed, k)
		} else if f.surveyed() {
			s.Partitions = append(s.Partitions, Surveyed{Key: k, Failed: f.why, Loading: max(now-f.since, 1),
				Unloaded: refusal(f.why).Error()})
		}
	}
	l.mu.Unlock()
	for _, p := range all {
		if x, ok := p.survey(now); ok {
			s.Partitions = append(s.Partitions, x)
		}
	}
	return s
}

// survey reports false if the share partition has ended.
func (p *Partition) survey(now time.Duration) (Surveyed, bool) {
	p.lock()
	defer p.unlock()
	x := Surveyed{Key: p.key, Loaded: p.w != nil, Sessions: p.users}
	if p.state == ended {
		return x, false
	}
	e := p.log.Ends()
	x.LogStart, x.High = e.LogStart, e.HighWatermark
	if p.w == nil {
		if x.Loading = max(now-p.loadAt, 1); p.unloaded != nil {
			x.Unloaded = p.unloaded.Error()
		}
		return x, true
	}
	if x.Stats = p.w.Stats(); p.fullAt > 0 {
		x.Full = max(now-p.fullAt, 1)
	}
	if p.write != nil {
		x.Writing = max(now-p.began, 1)
	}
	x.Letters = p.letters.view(p)
	return x, true
}

// Inspect returns a share partition whose data partition this broker leads.
func (l *Leader) Inspect(k format.Key, log Log) sharestate.Led {
	if broker, _ := log.Leader(); broker != l.opt.Self {
		return sharestate.Led{Err: kerr.NotLeaderForPartition}
	}
	e, err := log.Readable()
	if err != nil {
		return sharestate.Led{Err: kerr.KafkaStorageError}
	}
	led := sharestate.Led{LogStart: e.LogStart, High: e.HighWatermark}
	l.mu.Lock()
	p := l.parts[k]
	l.mu.Unlock()
	if p == nil {
		return led
	}
	p.lock()
	defer p.unlock()
	if p.tally(); p.w == nil {
		return led
	}
	s := p.w.Stats()
	led.Loaded, led.Start, led.End, led.Counts = true, s.Start, s.End, p.counts
	led.Acquired, led.Archiving = s.Offsets[window.Acquired], s.Offsets[window.Archiving]
	led.Available = s.Offsets[window.Available] + s.Offsets[window.Delayed]
	led.Finished = s.Offsets[window.Acknowledged] + s.Offsets[window.Archived]
	return led
}
