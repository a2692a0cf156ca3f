package storage

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// step performs one operation on the directory.
func (w *world) step() {
	if len(w.logs) == 0 || w.rng.IntN(40) == 0 && len(w.logs) < 4 {
		w.create()
		return
	}
	m := w.logs[w.rng.IntN(len(w.logs))]
	switch n := w.rng.IntN(100); {
	case n < 1:
		w.rollUp(m)
	case n < 4:
		w.compact(m)
	case n < 12 && !m.mayCompact():
		w.transact(m)
	case n < 55:
		w.append(m, 1+w.rng.IntN(5))
		w.say("append to %s, %s", m.topic, w.describe(m))
		if w.rng.IntN(3) == 0 {
			w.acked(m)
		}
	case n < 60 && !w.cfg.noReader:
		w.read()
	case n < 61:
		w.churn()
	case n < 62 && w.cfg.faults:
		w.outage(m)
	case n < 62:
		w.burst()
	case n < 66:
		_ = m.l.flush()
	case n < 69:
		_ = m.l.sync()
	case n < 73:
		_ = w.dir.checkpoint(nil)
	case n < 76:
		signal(w.dir.sweeps)
	case n < 81:
		w.configure(m)
	case n < 84:
		w.truncate(m)
	case n < 85:
		w.reset(m)
	case n < 86:
		w.setStart(m)
	case n < 87:
		w.setStarts()
	case n < 88:
		w.retention()
	case n < 90:
		w.remove(m)
	case n < 92:
		w.retry(m)
	case n < 93:
		w.restart()
	case n < 95:
		w.rot(m)
	case n < 98 && w.cfg.faults:
		w.fault()
	default:
		w.acked(m)
	}
}

// describe describes a log for the story.
func (w *world) describe(m *mlog) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("%s [%d, %d), durable %d, written %d, sequences %v", m.profile, m.cur.start, m.cur.end(), m.cur.synced,
		m.cur.written, m.seqs)
}

var modelTopics = []string{"a", "b", longTopic}

func (w *world) create() {
	w.ids++
	m := &mlog{id: ID{Topic: [16]byte{w.ids}, Partition: 3}, topic: modelTopics[w.rng.IntN(len(modelTopics))],
		maybe: true, seqs: map[int64]int32{}, pids: 3, says: w.say, loss: &w.loss}
	for _, o := range w.logs {
		if o.topic == m.topic {
			return
		}
	}
	m.profile = profileNames[w.rng.IntN(len(profileNames))]
	if w.rng.IntN(4) == 0 {
		m.cur = history{start: 7, first: 7}
	}
	w.logs = append(w.logs, m)
	w.say("create %s %s", m.topic, m.profile)
	logs, err := w.dir.Create([]Spec{{ID: m.id, Topic: m.topic,
		Config: Config{Profile: modelProfiles()[m.profile], Segment: w.limits()}, LogStart: m.cur.start}})
	if err != nil {
		w.diskError("create", err)
		w.drop(m)
		if w.disk.Crashed() {
			w.logs = append(w.logs, m)
		}
		return
	}
	m.maybe, m.l = false, logs[0]
	m.l.Observe(m)
	m.l.SetLeaderEpoch(w.epoch, true)
}

// drop forgets a log.
func (w *world) drop(m *mlog) {
	if i := slices.Index(w.logs, m); i >= 0 {
		w.logs = slices.Delete(w.logs, i, i+1)
	}
}

// diskError fails the model unless an error has a cause.
func (w *world) diskError(what string, err error) {
	if !w.disk.Crashed() && w.errs.Calls(errfs.Any) >= 0 && !w.cfg.faults {
		failf("%s: %v, but the disk did not fail", what, err)
	}
}

// append sends batches, with or without a producer.
func (w *world) append(m *mlog, n int) {
	for range n {
		o := record.BatchOptions{}
		pid := int64(-1)
		if w.rng.IntN(3) > 0 {
			m.mu.Lock()
			pid = m.pids - int64(w.rng.IntN(3))
			o.Producer = &record.Producer{ID: pid, Sequence: m.seqs[pid]}
			m.mu.Unlock()
		}
		b := record.NewBuilder(o)
		count := 1 + w.rng.IntN(3)
		size := w.rng.IntN(600)
		if w.rng.IntN(4) == 0 {
			size = w.rng.IntN(6 << 10)
		}
		for range count {
			w.counter++
			value := bytes.Repeat([]byte{byte(w.counter), byte(w.counter >> 8), byte(w.counter >> 16)}, size/3+1)
			if m.mayCompact() && w.rng.IntN(6) == 0 {
				value = nil
			}
			b.Append(w.modelTime(), w.modelKey(), value, nil)
		}
		data, err := b.Build()
		if err != nil {
			failf("build: %v", err)
		}
		w.send(m, data, pid)
	}
}

// modelTime returns the timestamp of a record, of 1970. Timestamps grow on the whole, but some are
// smaller than their predecessor's and some far ahead of their successors'.
func (w *world) modelTime() int64 {
	ts := int64(w.counter*10 + w.rng.IntN(20)*10)
	if w.rng.IntN(15) == 0 {
		ts += w.rng.Int64N(5000)
	}
	return ts
}

// modelSink records the outcome of one append in the model, in log order.
type modelSink struct {
	m    *mlog
	pid  int64
	done chan struct{}
}

// OffsetsAssigned implements Sink.
func (s *modelSink) OffsetsAssigned(a *Append) {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	defer close(s.done)
	if a.Err != nil || a.Duplicate {
		return
	}
	b := record.Batch(slices.Clone(a.Batches))
	if a.Base != m.cur.end() {
		m.wrong = fmt.Sprintf("%s: %d follows %d, offsets are not dense", m.topic, a.Base, m.cur.end())
	}
	b.SetBaseOffset(a.Base)
	b.SetLeaderEpoch(a.LeaderEpoch)
	m.alts = nil
	m.cur.bs = append(m.cur.bs[:len(m.cur.bs):len(m.cur.bs)],
		mbatch{base: a.Base, next: a.Next, data: b, records: recordsOf(b), pid: s.pid, seq: b.BaseSequence(), epoch: b.LeaderEpoch()})
	if s.pid >= 0 {
		m.seqs[s.pid] = b.LastSequence() + 1
	}
}

func (w *world) send(m *mlog, data []byte, pid int64) *Append {
	return w.sendFor(m, &Append{Batches: data}, pid)
}

// sendAppend sends an append whose batches the model does not send again.
func (w *world) sendAppend(m *mlog, a *Append) { w.sendFor(m, a, -1) }

func (w *world) sendFor(m *mlog, a *Append, pid int64) *Append {
	m.mu.Lock()
	pids := m.pids
	m.mu.Unlock()
	w.begin(m, a, pid)
	w.await(a)
	if a.Err != nil {
		w.diskError("append", a.Err)
		m.mu.Lock()
		same := pids == m.pids
		m.mu.Unlock()
		if m.l.Err() == nil && !w.cfg.faults && same && !w.disk.Crashed() {
			failf("append to %s: %v", m.topic, a.Err)
		}
	}
	return a
}

// begin appends to a log without waiting for the answer.
func (w *world) begin(m *mlog, a *Append, pid int64) {
	a.LeaderEpoch, a.Sink = w.epoch, &modelSink{m: m, pid: pid, done: make(chan struct{})}
	if len(a.Batches)%2 == 0 {
		m.l.Append(a, nil)
	} else {
		appendInBatch(m.l, a)
	}
}

// await waits until an append is answered.
func (w *world) await(a *Append) {
	s := a.Sink.(*modelSink)
	select {
	case <-s.done:
	case <-time.After(patience):
		l := s.m.l
		l.queueMu.Lock()
		state := fmt.Sprintf("queue %d, owned %v, waiters %d", len(l.queue), l.committing, l.waiters)
		l.queueMu.Unlock()
		failf("%s: an append was never answered: crashed %v, %s, deferred %d, journal %d, sweep target %d of %d, log: %v, directory: %v",
			s.m.topic, w.disk.Crashed(), state, w.dir.memory.deferred.Load(), w.dir.journal.Used(), w.dir.journal.SweepTarget(),
			w.dir.journal.Notified(), l.Err(), w.dir.Err())
	}
	if e := epochOf(s.m.l); e != a.LeaderEpoch {
		failf("%s: the model appends in epoch %d, but the log leads in epoch %d", s.m.topic, a.LeaderEpoch, e)
	}
}

// retry sends acknowledged batches again: they must be recognized.
func (w *world) retry(m *mlog) {
	m.mu.Lock()
	pids := m.pids // a log that reverts from here on forgets the batches that are sent again
	left := map[int64]int{}
	var again []mbatch
	if len(m.seqs) > 0 {
		for i := len(m.cur.bs) - 1; i >= 0; i-- {
			b := m.cur.bs[i]
			if b.pid > m.pids-3 && b.base >= m.cur.start && left[b.pid] < 5 {
				left[b.pid]++
				again = append(again, b)
			}
		}
	}
	m.mu.Unlock()
	if len(again) > 3 {
		w.rng.Shuffle(len(again), func(i, k int) { again[i], again[k] = again[k], again[i] })
		again = again[:3]
	}
	for _, b := range again {
		a := w.send(m, slices.Clone(b.data), b.pid)
		m.mu.Lock()
		same := pids == m.pids
		m.mu.Unlock()
		if same && a.Err == nil && (!a.Duplicate || a.Base != b.base || a.Next != b.next) {
			failf("%s: the batch of producer %d at %d, sequence %d, was sent again and is not known: %+v", m.topic, b.pid, b.base,
				b.seq, a.Base)
		}
		if same && a.Err != nil && m.l.Err() == nil && !w.disk.Crashed() && !w.cfg.faults {
			failf("%s: retry of producer %d, sequence %d: %v", m.topic, b.pid, b.seq, a.Err)
		}
	}
}

func (w *world) configure(m *mlog) {
	m.profile = profileNames[w.rng.IntN(len(profileNames))]
	w.say("configure %s %s", m.topic, m.profile)
	m.l.Configure(Config{Profile: modelProfiles()[m.profile], Segment: w.limits()})
}

// calm waits until no disk error is pending, since the next operation must succeed.
func (w *world) calm(m *mlog) bool {
	w.healthy()
	w.acked(m)
	return !w.disk.Crashed() && m.l.Err() == nil
}

func (w *world) truncate(m *mlog) {
	if !w.calm(m) {
		return
	}
	w.poll()
	m.mu.Lock()
	end := m.cur.start + w.rng.Int64N(m.cur.end()-m.cur.start+1)
	if w.rng.IntN(2) == 0 {
		end = max(m.cur.end()-w.rng.Int64N(6), m.cur.start)
	}
	end = max(end, min(m.high.Load(), m.cur.end())) // records below the high watermark are not truncated
	old := m.cur
	m.cur = old.cut(end)
	m.cur.start = min(m.cur.start, m.cur.end())
	m.alts, m.replacing = append(m.alts, old), true
	m.forgetProducers()
	m.mu.Unlock()
	w.say("truncate %s to %d", m.topic, end)
	w.replace(m, func() error { return m.l.Truncate(end) })
	if m.l.Err() == nil {
		w.sameTransactions(m)
	}
}

// replace moves the log's end or start. A disk error from before calm may show only now, as that of
// a datasync in the background; then the call is repeated.
func (w *world) replace(m *mlog, change func() error) {
	err := change()
	for range 3 {
		if err != nil && w.cfg.faults && !w.disk.Crashed() {
			w.healthy()
			err = change()
		}
	}
	if err != nil {
		if !w.disk.Crashed() {
			failf("%s: %v, but the disk did not fail", m.topic, err)
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alts, m.replacing = nil, false
	m.high.Store(min(m.high.Load(), m.cur.end())) // a reset starts over
	if e := m.l.Ends(); e.LogEnd != m.cur.end() || e.LogStart != m.cur.start {
		failf("%s is %+v after a truncation or reset, want [%d, %d)", m.topic, e, m.cur.start, m.cur.end())
	}
	if start := m.l.DurableStart(); start != m.cur.start {
		failf("the durable start of %s is %d, want %d", m.topic, start, m.cur.start)
	}
}

func (w *world) reset(m *mlog) {
	if !w.calm(m) {
		return
	}
	w.poll()
	m.mu.Lock()
	start := w.rng.Int64N(m.cur.end() + 100)
	m.alts, m.replacing = append(m.alts, m.cur), true
	m.cur = history{start: start, first: start}
	m.forgetProducers()
	m.mu.Unlock()
	w.say("reset %s to %d", m.topic, start)
	w.replace(m, func() error { return m.l.Reset(start) })
}

func (w *world) setStart(m *mlog) {
	if !w.calm(m) {
		return
	}
	w.poll()
	m.mu.Lock()
	start := m.cur.start + w.rng.Int64N(m.cur.end()-m.cur.start+1)
	old := m.cur
	m.cur.start = start
	m.alts, m.replacing = append(m.alts, old), true
	m.mu.Unlock()
	w.say("start of %s to %d", m.topic, start)
	w.replace(m, func() error { return m.l.SetLogStart(start) })
}

// remove deletes a log, half of the time while records are in flight.
func (w *world) remove(m *mlog) {
	if w.rng.IntN(2) == 0 && !w.calm(m) || w.disk.Crashed() || m.l.Err() != nil {
		return
	}
	w.say("delete %s", m.topic)
	l := m.l
	m.mu.Lock()
	m.l, m.maybe = nil, true
	m.mu.Unlock()
	if err := w.dir.Delete(l); err != nil && !w.disk.Crashed() {
		failf("delete: %v", err)
	} else if err == nil {
		w.drop(m)
	}
}

// restart stops the process cleanly and starts it again.
func (w *world) restart() {
	w.stopReading()
	w.healthy()
	w.poll()
	if w.disk.Crashed() {
		return
	}
	w.say("restart")
	err := w.dir.Close()
	w.poll()
	if w.disk.Crashed() {
		return // crash continues from here
	}
	if err != nil && !w.cfg.faults { // a failed write may be discovered only now
		failf("close: %v", err)
	}
	w.down()
	w.killed = true
	w.start(w.disk.KillImage(w.rng.Uint64()))
	if err == nil && !w.dir.Clean() {
		failf("a clean stop was not recognized")
	}
}

// down records that no process runs.
func (w *world) down() {
	w.dir = nil
	for _, m := range w.logs {
		m.l = nil
	}
}
