package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/pause"
)

// Intervals of a Monitor, and limits of waiting for it.
const (
	// quickEvery bounds how long a fault stays unreported, unless only slow facts show it.
	quickEvery = 2 * time.Second
	// slowEvery is the interval of facts whose source may wait for a disk.
	slowEvery = time.Minute
	// patience bounds how long Report waits for the checks.
	patience = time.Second
	// recent is the age of findings from which Recent runs the checks.
	recent = time.Second
	// staleAfter is the age of the last findings above which the checks count as hung. It is more
	// than the delay on a busy machine.
	staleAfter = 5 * time.Second
	// slowStaleAfter is how late slow facts may be.
	slowStaleAfter = 30 * time.Second
	// mostPause is how long a request waits at most for its checks to start. Otherwise checks on
	// request pause for pause.IdleShare, however many requests there are.
	mostPause = 400 * time.Millisecond
	// behindPause is the pause before checks that lacked an expected change run again.
	behindPause = 50 * time.Millisecond
)

// Source adds the state of a component to the facts. A Monitor calls it every few seconds and on
// requests, from one goroutine. It must not wait for a disk.
type Source func(*Facts)

// SlowSource adds facts whose source may wait for a disk or for other goroutines. A Monitor calls
// it once a minute, from a goroutine of its own.
type SlowSource func(*Slow)

// Options configure a Monitor.
type Options struct {
	Broker  int32 // node.id
	Version string
	// Member reports that there may be other brokers: the broker's own findings have its number.
	Member bool
	Checks []Check
	// Sources and Slow are the sources from the start; Add and AddSlow add more.
	Sources []Source
	Slow    []SlowSource
	// SlowEvery is the interval of slow sources; 0 means a minute.
	SlowEvery time.Duration
	// Ready is called when the broker becomes ready or stops being ready.
	Ready func(bool)
	// Log receives a line for each finding that appears, changes its severity or is resolved.
	Log *zap.Logger
}

// Monitor reports a broker's health. Its goroutines, which Start starts and Stop ends, gather the
// facts and run the checks. It is safe for concurrent use.
//
// A broker that is not ready has not failed: while it recovers or drains it is healthy and must not
// be killed, so a liveness probe must not use the report.
type Monitor struct {
	o      Options
	asks   chan chan struct{} // unbuffered: channels of callers, with capacity 1, that the next checks answer
	speak  chan chan struct{} // the same of Speak: the checks run at once
	woken  chan struct{}      // capacity 1: Expect was called
	quit   chan struct{}      // closed by Stop
	done   sync.WaitGroup
	ended  chan struct{} // closed when done is zero
	once   sync.Once
	slow   atomic.Pointer[Slow]
	aware  chan struct{} // closed when there are slow facts
	speaks atomic.Bool

	mu       sync.Mutex
	phase    string // empty while clients are served
	waits    Awaited
	since    time.Time
	progress map[string]string // progress of the phase, by part
	moves    uint64            // grows with every change of phase or progress
	sources  []Source
	slowly   []SlowSource
	found    found
	expected int64     // the revision of the metadata that the checks must have; of Expect
	slowAt   time.Time // of the slow facts
	ready    bool      // the last argument of Options.Ready
	others   func() []health.Heard

	// Used by the quick goroutine only.
	ledger ledger
	active map[int32]time.Time // since when the metadata show other brokers as active
	rested time.Time           // end of the last checks
	took   time.Duration       // their duration
}

// found is the result of the last checks.
type found struct {
	at       time.Time
	findings []health.Finding
	examined []health.Examined
	// brokers are the other brokers in the metadata; nil if it is not known.
	brokers []int32
	// apart is the cause if other brokers refuse this one; empty if they do not.
	apart string
	// revision is that of the metadata in the facts, 0 for none.
	revision int64
	places   []string // as in the report
}

// Start returns the Monitor of a broker that is starting. The checks run at once and then every few
// seconds; findings are logged only after Speak.
func Start(o Options) *Monitor {
	now := time.Now()
	m := &Monitor{
		o:      o,
		asks:   make(chan chan struct{}),
		speak:  make(chan chan struct{}),
		woken:  make(chan struct{}, 1),
		quit:   make(chan struct{}),
		ended:  make(chan struct{}),
		aware:  make(chan struct{}),
		phase:  "starting",
		since:  now,
		found:  found{at: now},
		slowAt: now,
		others: func() []health.Heard { return nil },
		ledger: newLedger(&o),
		active: map[int32]time.Time{},
	}
	m.slow.Store(&Slow{})
	m.sources, m.slowly = slices.Clone(o.Sources), slices.Clone(o.Slow)
	m.done.Go(m.gatherSlow)
	m.done.Go(m.run)
	m.done.Go(m.watch)
	go func() { m.done.Wait(); close(m.ended) }()
	return m
}

// Add registers a source of facts.
func (m *Monitor) Add(s Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources = append(m.sources, s)
}

// AddSlow registers a slow source of facts.
func (m *Monitor) AddSlow(s SlowSource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slowly = append(m.slowly, s)
}

// Join sets where the reports of the other brokers come from. others must not block.
func (m *Monitor) Join(others func() []health.Heard) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.others = others
}

// Enter sets what the broker does instead of serving clients; an empty phase means that it serves
// them.
func (m *Monitor) Enter(phase string) { m.enter(phase, nothing) }

// Awaited is what a phase waits for, so that time alone does not end it.
type Awaited int

// What phases wait for.
const (
	nothing      Awaited = iota
	OtherBrokers         // of the cluster
	ItsDisk              // one of this broker
)

// Await is Enter for a phase that waits for something.
func (m *Monitor) Await(phase string, what Awaited) { m.enter(phase, what) }

func (m *Monitor) enter(phase string, waits Awaited) {
	m.mu.Lock()
	m.phase, m.waits, m.progress, m.since = phase, waits, nil, time.Now()
	m.moves++
	m.mu.Unlock()
	m.Own() // notifies Options.Ready
}

// Progress sets how far one part of the phase is; all is 0 if the total is unknown.
func (m *Monitor) Progress(part, doing string, done, all int) {
	text := fmt.Sprintf("%s: %d", doing, done)
	if all > 0 && all != done {
		text += fmt.Sprintf(" of %d", all)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.progress == nil {
		m.progress = make(map[string]string)
	}
	m.progress[part] = text
	m.moves++
}

// Moves returns a number that grows while startup or shutdown makes progress.
func (m *Monitor) Moves() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moves
}

// Phase returns what the broker does instead of serving clients, or "" while it serves them.
func (m *Monitor) Phase() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.phase
}

// Report runs the checks and returns the result, with what the other brokers report. It waits a
// second at most; if the checks take longer, it returns what Last does.
func (m *Monitor) Report(ctx context.Context) *health.Report {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = m.await(ctx, m.asks) // without a response, the report has the last findings
	return m.Last()
}

// Expect makes the checks run soon, because brokers change in the metadata, which have a revision
// then. It does not block. It is called before clients are shown the change. Until the checks have
// it, a report has a finding about that: clients are not shown a broker that is fenced, and no
// finding is about it yet.
func (m *Monitor) Expect(revision int64) {
	m.mu.Lock()
	m.expected = max(m.expected, revision)
	m.mu.Unlock()
	select {
	case m.woken <- struct{}{}:
	default: // they will
	}
}

// behind reports whether the checks lack what Expect has announced.
func (m *Monitor) behind() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.found.revision < m.expected
}

// Speak waits for the slow facts, starts to log findings, and runs the checks. Until then nothing
// is logged, because a start that fails logs only its error. Speak returns an error if ctx ends or
// the Monitor was stopped.
func (m *Monitor) Speak(ctx context.Context) error {
	select {
	case <-m.aware:
	case <-m.ended:
	case <-ctx.Done():
		return fmt.Errorf("check the broker's health: %w", ctx.Err())
	}
	return m.await(ctx, m.speak)
}

func (m *Monitor) await(ctx context.Context, asks chan chan struct{}) error {
	answer := make(chan struct{}, 1)
	select {
	case asks <- answer:
	case <-m.quit:
		return errors.New("check the broker's health: the broker is stopping")
	case <-ctx.Done():
		return fmt.Errorf("check the broker's health: %w", ctx.Err())
	}
	select {
	case <-answer:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("check the broker's health: %w", ctx.Err())
	}
}

// Stop ends the goroutines and waits for them until ctx ends: a file system that does not respond
// may block one. A second call only waits. Afterwards reports have the phase and the last findings.
func (m *Monitor) Stop(ctx context.Context) {
	m.once.Do(func() { close(m.quit) })
	select {
	case <-m.ended:
	case <-ctx.Done():
	}
}

// Last returns the report without waiting: that of Own, and what the other brokers report.
func (m *Monitor) Last() *health.Report {
	behind := m.behind()
	r := m.Own()
	if behind {
		r.Findings = append(r.Findings, health.Finding{Broker: health.NoBroker, Check: health.CheckBrokers, Severity: health.Warn,
			Subject: "brokers", Since: r.At,
			Problem: "the state of a broker has just changed, and the checks do not have it yet",
			Remedy:  "ask again: the next report has it within a second"})
	}
	m.mu.Lock()
	others, known := m.others, m.found.brokers
	m.mu.Unlock()
	r.Add(registered(others(), known), r.At)
	return r
}

// registered returns the reports of the registered brokers, also of those that were never heard, by
// broker. If it is not known which there are, it returns all reports.
func registered(heard []health.Heard, brokers []int32) (list []health.Heard) {
	if brokers == nil {
		return heard
	}
	for _, id := range brokers {
		h := health.Heard{Broker: id}
		if i := slices.IndexFunc(heard, func(h health.Heard) bool { return h.Broker == id }); i >= 0 {
			h = heard[i]
		}
		list = append(list, h)
	}
	return list
}

// Recent returns this broker's own report for other brokers. It runs the checks if the last ones
// are a second old, so that others know a finding as early as those who ask here. It waits as
// Report does.
func (m *Monitor) Recent(ctx context.Context) *health.Report {
	m.mu.Lock()
	old := time.Since(m.found.at) >= recent
	m.mu.Unlock()
	if old {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_ = m.await(ctx, m.asks) // without a response, the report has the last findings
	}
	return m.Own()
}

// Own returns this broker's own report without waiting: the current phase and the latest findings,
// and, if those are older than five seconds, a finding that the checks hang.
func (m *Monitor) Own() *health.Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &health.Report{Broker: m.o.Broker, Version: m.o.Version, At: time.Now().UTC(), Ready: true, Phase: m.phase, Progress: []string{},
		Findings: []health.Finding{}, Checks: m.found.examined, Brokers: []health.Other{}, Places: m.found.places}
	for _, part := range slices.Sorted(maps.Keys(m.progress)) {
		r.Progress = append(r.Progress, part+": "+m.progress[part])
	}
	if m.phase != "" {
		x := health.Finding{Check: health.CheckServing, Severity: health.Bad, Subject: health.ThisBroker, NotReady: true,
			Since:   m.since.UTC(),
			Problem: "clients are not served: " + m.phase,
			Remedy: "wait: /readyz and systemctl status show the progress; " +
				"a recovery takes as long as the disk needs to read the journal, a stop at most a minute"}
		if m.waits != nothing {
			x.Remedy = "remove the cause that it names, or that other findings of this broker name, " +
				"and start the other brokers of cluster.seeds; unless it waits in vain, it continues automatically (" + clusterPage + ")"
		}
		if m.waits == OtherBrokers {
			x.Follows = m.found.apart
		}
		r.Findings = append(r.Findings, x)
	}
	r.Findings = append(append(r.Findings, m.hangingLocked()...), m.found.findings...)
	for i := range r.Findings {
		if f := &r.Findings[i]; !m.o.Member {
			f.Broker = health.NoBroker
		} else if f.Broker != health.NoBroker {
			f.Broker = m.o.Broker
		}
	}
	health.Sort(r.Findings)
	r.Ready = !slices.ContainsFunc(r.Findings, func(f health.Finding) bool { return f.NotReady })
	if r.Ready != m.ready && m.o.Ready != nil {
		m.o.Ready(r.Ready)
	}
	m.ready = r.Ready
	return r
}

// hangingLocked returns the findings about hung checks: their last findings must not appear to be
// current. After a stop there are none. The caller must hold mu.
func (m *Monitor) hangingLocked() (all []health.Finding) {
	select {
	case <-m.quit:
		return nil
	default:
	}
	add := func(severity health.Severity, subject string, since time.Time, stops bool, problem, remedy string) {
		all = append(
			all,
			health.Finding{
				Check:    checkResponding,
				Severity: severity,
				Subject:  subject,
				Since:    since.UTC(),
				Problem:  problem,
				Remedy:   remedy,
				Stops:    stops,
			},
		)
	}
	if at := m.found.at; time.Since(at) >= staleAfter {
		add(
			health.Bad,
			health.ThisBroker,
			at,
			true,
			"the checks have not finished since "+at.UTC().Format(
				time.RFC3339,
			)+": a lock or a system call hangs; the other findings are from that time",
			"check the disks and the kernel's log; send the broker SIGQUIT, which writes the stacks of all goroutines to its log and ends the process, and restart it",
		)
	}
	if at := m.slowAt; time.Since(at) >= cmp.Or(m.o.SlowEvery, slowEvery)+slowStaleAfter {
		add(
			health.Warn,
			"file systems",
			at,
			false,
			"they have not been examined since "+at.UTC().Format(
				time.RFC3339,
			)+": one of them does not respond; the findings about them, mounts and rebalances are from that time",
			"check the mounts of the data directory, the log directories and the journals: `df` on each of them, and the kernel's log",
		)
	}
	return all
}

// gatherSlow is the goroutine that may hang with a disk.
func (m *Monitor) gatherSlow() {
	label.Goroutine("health measure", "")
	tick := time.NewTicker(cmp.Or(m.o.SlowEvery, slowEvery))
	defer tick.Stop()
	for first := true; ; first = false {
		m.mu.Lock()
		sources := slices.Clone(m.slowly)
		m.mu.Unlock()
		s := &Slow{}
		for _, gather := range sources {
			gather(s)
		}
		m.slow.Store(s)
		m.mu.Lock()
		m.slowAt = time.Now()
		m.mu.Unlock()
		if first {
			close(m.aware)
		}
		select {
		case <-m.quit:
			return
		case <-tick.C:
		}
	}
}

// watch is the goroutine that logs when one of the other two hangs.
func (m *Monitor) watch() {
	label.Goroutine("health watch", "")
	tick := time.NewTicker(quickEvery)
	defer tick.Stop()
	l := newLedger(&m.o)
	for {
		select {
		case <-m.quit:
			return
		case now := <-tick.C:
			m.mu.Lock()
			hanging := m.hangingLocked()
			m.mu.Unlock()
			l.enter(hanging, now, m.speaks.Load())
		}
	}
}

// run is the goroutine of the checks.
func (m *Monitor) run() {
	label.Goroutine("health check", "")
	tick := time.NewTicker(quickEvery)
	defer tick.Stop()
	m.examine()
	var waiting []chan struct{} // for the next checks
	var due <-chan time.Time    // time of the next checks on request
	soon := func() {
		if due == nil {
			due = time.After(min(pause.IdleShare*m.took-time.Since(m.rested), mostPause))
		}
	}
	for {
		select {
		case <-m.quit:
			return
		case answer := <-m.asks:
			waiting = append(waiting, answer)
			soon()
			continue
		case <-m.woken:
			soon()
			continue
		case answer := <-m.speak:
			m.speaks.Store(true)
			waiting = append(waiting, answer)
		case <-due:
		case <-tick.C:
		}
		m.examine()
		for _, answer := range waiting {
			answer <- struct{}{}
		}
		if waiting, due = nil, nil; m.behind() { // the metadata were not applied yet
			due = time.After(min(max(pause.IdleShare*m.took, behindPause), mostPause))
		}
	}
}

// examine runs the checks over new facts.
func (m *Monitor) examine() {
	m.mu.Lock()
	sources, serving, others := slices.Clone(m.sources), m.phase == "", m.others
	m.mu.Unlock()
	f := &Facts{Now: time.Now(), Serving: serving, Slow: *m.slow.Load()}
	for _, s := range sources {
		s(f)
	}
	brokers := m.expect(f, others())
	findings, examined := Examine(m.o.Checks, f)
	logged := m.inOrder(f, findings)
	m.ledger.enter(logged, f.Now, m.speaks.Load())
	for i := range findings {
		findings[i].Since = logged[i].Since
	}
	m.mu.Lock()
	m.found = found{f.Now, findings, examined, brokers, f.apart(m.o.Broker), f.revision(), f.places()}
	m.mu.Unlock()
	m.Own() // notifies Options.Ready
	m.rested = time.Now()
	m.took = m.rested.Sub(f.Now)
}

// revision returns that of the metadata in the facts, 0 for none.
func (f *Facts) revision() int64 {
	if f.Cluster == nil {
		return 0
	}
	return f.Cluster.Revision
}

// inOrder returns a copy of this broker's findings with the order of remedies that stop brokers.
// Reports have them without it, because each broker orders all that it knows.
func (m *Monitor) inOrder(f *Facts, findings []health.Finding) []health.Finding {
	own := slices.Clone(findings)
	for i := range own {
		if own[i].Broker != health.NoBroker {
			own[i].Broker = m.o.Broker
		}
	}
	all := health.Report{Findings: slices.Clone(own)}
	heard := make([]health.Heard, 0, len(f.Others))
	for i := range f.Others {
		heard = append(heard, f.Others[i].Heard)
	}
	all.Add(heard, f.Now)
	health.InOrder(own, all.Findings)
	return own
}

// expect adds to the facts the reports of the other brokers, and since when each is expected. It
// returns the other brokers in the metadata, nil if those are not known.
func (m *Monitor) expect(f *Facts, heard []health.Heard) (brokers []int32) {
	if f.Cluster == nil || !m.o.Member {
		clear(m.active)
		return nil
	}
	brokers = []int32{}
	before := maps.Clone(m.active)
	clear(m.active)
	for i := range f.Cluster.Brokers {
		b := &f.Cluster.Brokers[i]
		if b.ID == f.Cluster.Self {
			continue
		}
		brokers = append(brokers, b.ID)
		// Until this broker serves, its metadata may be old, and the others not connected.
		if b.State != "active" || !f.Serving {
			continue
		}
		since, was := before[b.ID]
		if !was {
			since = f.Now
		}
		m.active[b.ID] = since
	}
	for _, h := range registered(heard, brokers) {
		f.Others = append(f.Others, Other{h, m.active[h.Broker]})
	}
	return brokers
}
