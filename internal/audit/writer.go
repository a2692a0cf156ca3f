package audit

import (
	"time"

	"github.com/chronik-io/chronik/internal/label"
)

// flushEvery is how often counts that are due are written, and how often the sink is flushed.
const flushEvery = time.Second

// run writes lines until Close.
func (l *Log) run() {
	label.Goroutine("audit write", "")
	defer close(l.ended)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case x := <-l.lines:
			l.put(x)
		case now := <-tick.C:
			l.due(now, false)
			l.nameLost()
			l.flush()
		case <-l.stop:
			l.finish()
			return
		}
	}
}

// finish writes the rest.
func (l *Log) finish() {
	l.drain()
	l.due(time.Now(), true)
	l.drain()
	l.nameLost()
	l.flush()
	l.nameLost() // what that flush has lost
	l.flush()
}

// flush flushes the sinks that have lines. Classes may share a sink, whose error concerns the lines
// of all of them: no later call says that it was theirs.
func (l *Log) flush() {
	var done [numClasses]bool
	for of := range numClasses {
		if done[of] || !l.sinks[of].waits() {
			continue
		}
		sink := l.opt.Sink.of(of)
		err := sink.Flush()
		for other := of; other < numClasses; other++ {
			if l.sinks[other].waits() && l.opt.Sink.of(other) == sink {
				l.flushed(other, err)
				done[other] = true
			}
		}
	}
}

// flushed notes the result of a flush for the lines of a class.
func (l *Log) flushed(of class, err error) {
	s := &l.sinks[of]
	pending, named := s.pending, s.named
	s.pending, s.named, s.unflushed = 0, 0, err != nil
	if err == nil {
		s.dirty = false
		l.works()
		return
	}
	l.failed(err, of, pending)
	l.mu.Lock()
	l.classes[of].dropped += named
	l.mu.Unlock()
}

func (l *Log) drain() {
	for {
		select {
		case x := <-l.lines:
			l.put(x)
		default:
			return
		}
	}
}

// due makes lines of the counts whose period is over, or of all, and forgets causes that had no
// event for a period.
func (l *Log) due(now time.Time, all bool) {
	var out []line
	l.mu.Lock()
	for c, k := range l.causes {
		if !all && now.Before(k.until) {
			continue
		}
		if k.n == 0 {
			l.forget(c)
			continue
		}
		out = append(out, line{k.last, now, k.n, c.kind.class()})
		k.n, k.last, k.until = 0, Event{}, now.Add(period)
	}
	for i := range l.classes {
		if of := &l.classes[i]; of.overflow > 0 && (all || now.Sub(of.overflowAt) >= period) {
			out = append(out, line{Event{Kind: overflow, Why: beyond[i]}, now, of.overflow, class(i)})
			of.overflow, of.overflowAt = 0, now
		}
	}
	l.mu.Unlock()
	for _, x := range out {
		l.put(x)
	}
}

// forget removes a cause. Caller holds mu.
func (l *Log) forget(c cause) {
	delete(l.causes, c)
	of := &l.classes[c.kind.class()]
	of.causes--
	if of.hosts[c.host]--; of.hosts[c.host] == 0 {
		delete(of.hosts, c.host)
	}
}

// put writes a line, after one for the lines that were dropped before it. If it fails, the line is
// lost.
func (l *Log) put(x line) {
	err := l.putLost(x.of)
	if err == nil {
		err = l.writeLine(x)
	}
	if err != nil {
		l.failed(err, x.of, 1)
	}
}

// nameLost writes the lines for the lines that were dropped, although no other follows.
func (l *Log) nameLost() {
	for of := range numClasses {
		if err := l.putLost(of); err != nil {
			l.failed(err, of, 0)
		}
	}
}

// putLost writes a line for the lines of a class that were dropped, if there are any.
func (l *Log) putLost(of class) error {
	l.mu.Lock()
	dropped := l.classes[of].dropped
	l.mu.Unlock()
	if dropped == 0 {
		return nil
	}
	err := l.writeLine(line{Event{Kind: lost, Why: "lines that could not be written"}, time.Now(), dropped, of})
	if err == nil {
		s := &l.sinks[of]
		s.pending, s.named = s.pending-1, s.named+dropped
		l.mu.Lock()
		l.classes[of].dropped -= dropped
		l.mu.Unlock()
	}
	return err
}

// writeLine passes a line to its sink.
func (l *Log) writeLine(x line) error {
	s := &l.sinks[x.of]
	err := l.opt.Sink.of(x.of).Write(l.encode(x))
	s.unwritten = err != nil
	if err != nil {
		return err
	}
	s.dirty = true
	s.pending++
	l.mu.Lock()
	l.stats.Written++
	l.mu.Unlock()
	l.works()
	return nil
}

// works notes that the sinks work again, when all both write and flush.
func (l *Log) works() {
	for _, s := range l.sinks {
		if s.unwritten || s.unflushed {
			return
		}
	}
	l.mu.Lock()
	again := l.stats.Err != nil
	l.stats.Err = nil
	l.mu.Unlock()
	if again && l.opt.Failed != nil {
		l.opt.Failed(nil)
	}
}

// failed notes an error of the sink of a class, and lines that are lost by it.
func (l *Log) failed(err error, of class, lines int64) {
	l.mu.Lock()
	first := l.stats.Err == nil
	l.stats.Err = err
	l.classes[of].dropped += lines
	l.stats.Dropped += lines
	l.mu.Unlock()
	if first && l.opt.Failed != nil {
		l.opt.Failed(err)
	}
}
