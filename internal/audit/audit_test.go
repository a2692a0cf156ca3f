package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a Sink in memory.
type memory struct {
	mu      sync.Mutex
	lines   []string
	bytes   int
	err     error
	blocked chan struct{} // Write waits for it; nil: it does not
}

func (m *memory) Write(line []byte) error {
	if m.blocked != nil {
		<-m.blocked
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.lines, m.bytes = append(m.lines, string(line)), m.bytes+len(line)
	return nil
}
func (m *memory) Flush() error { return nil }
func (m *memory) Close() error { return nil }

// events returns the lines that were written, after the log has nothing to do.
func (m *memory) events(t *testing.T) (all []map[string]any) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range m.lines {
		var e map[string]any
		if err := json.Unmarshal([]byte(text), &e); err != nil || strings.Count(text, "\n") != 1 {
			t.Fatalf("line %q: %v", text, err)
		}
		all = append(all, e)
	}
	return all
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func refused(who, host, resource string) Event {
	return Event{Kind: Refused, Client: Client{Who: who, Host: host, From: host + ":1", API: "Produce", Version: 13},
		Operation: "WRITE", Resource: resource, Rule: func() string { return "none" }}
}

// bubble runs a test with a log under virtual time.
func bubble(t *testing.T, m *memory, mode Mode, test func(*Log)) {
	synctest.Test(t, func(t *testing.T) {
		l := Open(Options{Mode: mode, Sink: Same(m), Node: 1})
		test(l)
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// The first event of a cause has a line at once; those of the next 10 s have one together.
func TestOneLineForACause(t *testing.T) {
	m := new(memory)
	bubble(t, m, Refusals, func(l *Log) {
		for range 1000 {
			l.Record(refused("User:bob", "10.0.0.7", "Topic:LITERAL:orders"))
		}
		l.Record(refused("User:bob", "10.0.0.7", "Topic:LITERAL:payments"))
		synctest.Wait()
		if n := len(m.events(t)); n != 2 {
			t.Fatalf("%d lines at once, not 2", n)
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if all := m.events(t); len(all) != 3 || all[2]["n"] != 999.0 || all[2]["res"] != "Topic:LITERAL:orders" ||
			all[2]["rule"] != "none" {
			t.Fatalf("after 10 s: %v", all)
		}
		time.Sleep(12 * time.Second) // then the cause is forgotten
		l.Record(refused("User:bob", "10.0.0.7", "Topic:LITERAL:orders"))
		synctest.Wait()
		if all := m.events(t); len(all) != 4 || all[3]["n"] != 1.0 {
			t.Fatalf("after a break: %v", all)
		}
	})
	if s := m.events(t)[0]; s["ev"] != "refused" || s["who"] != "User:bob" || s["from"] != "10.0.0.7:1" || s["v"] != 13.0 ||
		s["node"] != 1.0 {
		t.Errorf("line: %v", s)
	}
}

// A flood of new causes from many ports, users and names of an address writes a bounded number of
// lines, does not hide other addresses, and is counted completely.
func TestAFloodIsBoundedAndCounted(t *testing.T) {
	m := new(memory)
	events := 0
	bubble(t, m, Refusals, func(l *Log) {
		for i := range 400_000 {
			e := refused(fmt.Sprintf("User:%d", i), "2001:db8:0:1:0:0:0:"+fmt.Sprintf("%x", i%0xffff), fmt.Sprintf("Topic:LITERAL:%d", i))
			e.From = fmt.Sprintf("[%s]:%d", e.Host, i%0xffff)
			l.Record(e)
			events++
			if i%1000 == 0 {
				synctest.Wait()
			}
		}
		l.Record(refused("User:bob", "10.0.0.7", "Topic:LITERAL:orders"))
		events++
		synctest.Wait()
		if all := m.events(t); len(all) != maxOfHost+1 || all[maxOfHost]["who"] != "User:bob" {
			t.Fatalf("%d lines; the last: %v", len(all), all[len(all)-1])
		}
	})
	n := 0.0
	for _, e := range m.events(t) {
		n += e["n"].(float64)
	}
	if int(n) != events {
		t.Errorf("lines stand for %v of %d events", n, events)
	}
}

// The lines from many addresses are also bounded.
func TestManyAddresses(t *testing.T) {
	m := new(memory)
	bubble(t, m, Refusals, func(l *Log) {
		for i := range 3 * maxCauses {
			l.Record(refused("User:x", fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "Topic:LITERAL:a"))
			if i%1000 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if n := len(m.events(t)); n != maxCauses {
			t.Errorf("%d lines, not %d", n, maxCauses)
		}
	})
	if all := m.events(t); all[len(all)-1]["ev"] != "overflow" || all[len(all)-1]["n"] != float64(2*maxCauses) {
		t.Errorf("the last line: %v", all[len(all)-1])
	}
}

// A sink that blocks does not block Record. What was dropped is counted in the log itself.
func TestASlowSinkIsNotWaitedFor(t *testing.T) {
	m := &memory{blocked: make(chan struct{})}
	const events = maxDecisions + 500
	synctest.Test(t, func(t *testing.T) {
		m.blocked = make(chan struct{})
		l := Open(Options{Mode: Refusals, Sink: Same(m)})
		for i := range events {
			l.Record(refused("User:x", fmt.Sprintf("10.0.%d.%d", i>>8, i&255), "Topic:LITERAL:a"))
		}
		if d := l.Stats().Dropped; d < 499 || d > 500 {
			t.Errorf("%d lines dropped", d)
		}
		close(m.blocked)
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	n := 0.0
	for _, e := range m.events(t) {
		n += e["n"].(float64)
	}
	if int(n) != events {
		t.Errorf("lines stand for %v of %d events", n, events)
	}
}

// A full disk is reported once; when there is space again, the log says what it lacks.
func TestAFullDisk(t *testing.T) {
	m := new(memory)
	var reports []error
	synctest.Test(t, func(t *testing.T) {
		l := Open(Options{Mode: Refusals, Sink: Same(m), Failed: func(err error) { reports = append(reports, err) }})
		full := errors.New("no space left on device")
		m.fail(full)
		for i := range 3 {
			l.Record(refused("User:x", "10.0.0.1", fmt.Sprint(i)))
		}
		synctest.Wait()
		if s := l.Stats(); s.Dropped != 3 || !errors.Is(s.Err, full) {
			t.Errorf("stats %+v", s)
		}
		m.fail(nil)
		l.Record(refused("User:x", "10.0.0.1", "3"))
		synctest.Wait()
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if all := m.events(t); len(all) != 2 || all[0]["ev"] != "lost" || all[0]["n"] != 3.0 || all[1]["res"] != "3" {
		t.Errorf("lines %v", all)
	}
	if len(reports) != 2 || reports[0] == nil || reports[1] != nil {
		t.Errorf("reports %v", reports)
	}
}

// The log says what it lacks as soon as it can, also if no further event comes, and at the latest
// when it is closed.
func TestLostLinesAreNamedWithoutAnotherEvent(t *testing.T) {
	for name, until := range map[string]func(){
		"later": func() { time.Sleep(flushEvery); synctest.Wait() },
		"close": func() {},
	} {
		t.Run(name, func(t *testing.T) {
			m := new(memory)
			var reports []error
			synctest.Test(t, func(t *testing.T) {
				l := Open(Options{Mode: Refusals, Sink: Same(m), Failed: func(err error) { reports = append(reports, err) }})
				m.fail(errors.New("no space left on device"))
				l.Record(refused("User:x", "10.0.0.1", "a"))
				l.Record(refused("User:x", "10.0.0.1", "b"))
				time.Sleep(3 * flushEvery)
				synctest.Wait()
				m.fail(nil)
				until()
				if all := m.events(t); name == "later" && len(all) != 1 {
					t.Errorf("lines %v while no event comes", all)
				}
				if err := l.Close(context.Background()); err != nil {
					t.Error(err)
				}
				if s := l.Stats(); s.Err != nil || s.Dropped != 2 || s.Written != 1 {
					t.Errorf("stats %+v", s)
				}
			})
			if all := m.events(t); len(all) != 1 || all[0]["ev"] != "lost" || all[0]["n"] != 2.0 {
				t.Errorf("lines %v", all)
			}
			if len(reports) != 2 || reports[0] == nil || reports[1] != nil {
				t.Errorf("reports %v", reports)
			}
		})
	}
}

// unsynced is a sink that forgets lines which do not become durable, for some time.
type unsynced struct {
	memory
	broken atomic.Bool
	synced int // lines
}

func (u *unsynced) Flush() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.broken.Load() {
		u.lines = u.lines[:u.synced]
		return errors.New("input/output error")
	}
	u.synced = len(u.lines)
	return nil
}

// A disk that takes lines and does not make them durable is reported once, however many lines come
// meanwhile, and once when it works again: also if no line comes then. The lines are lost, and a
// line says how many.
func TestADiskThatDoesNotSync(t *testing.T) {
	u := &unsynced{}
	var reports []error
	synctest.Test(t, func(t *testing.T) {
		l := Open(Options{Mode: Refusals, Sink: Same(u), Failed: func(err error) { reports = append(reports, err) }})
		u.broken.Store(true)
		for i := range 5 {
			l.Record(refused("User:x", "10.0.0.1", fmt.Sprint(i)))
			time.Sleep(flushEvery)
			synctest.Wait()
		}
		if s := l.Stats(); s.Err == nil || s.Dropped != 5 || len(reports) != 1 {
			t.Errorf("stats %+v, reports %v", s, reports)
		}
		u.broken.Store(false)
		time.Sleep(flushEvery)
		synctest.Wait()
		if s := l.Stats(); s.Err != nil || s.Dropped != 5 {
			t.Errorf("stats %+v", s)
		}
		if all := u.events(t); len(all) != 1 || all[0]["ev"] != "lost" || all[0]["n"] != 5.0 {
			t.Errorf("lines %v", all)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if len(reports) != 2 || reports[0] == nil || reports[1] != nil {
		t.Errorf("reports %v", reports)
	}
}

// flushes is a sink that counts the lines that were not flushed.
type flushes struct {
	memory
	open atomic.Int64
}

func (f *flushes) Write(line []byte) error { f.open.Add(1); return f.memory.Write(line) }
func (f *flushes) Flush() error            { f.open.Store(0); return nil }

// Every line becomes durable within a second, also one that says how often an event came.
func TestLinesOfCountsAreFlushed(t *testing.T) {
	f := &flushes{}
	synctest.Test(t, func(t *testing.T) {
		l := Open(Options{Mode: Refusals, Sink: Same(f)})
		for range 2 {
			l.Record(refused("User:x", "10.0.0.1", "a"))
		}
		time.Sleep(period + 2*flushEvery)
		synctest.Wait()
		if n := f.open.Load(); n != 0 || len(f.lines) != 2 {
			t.Errorf("%d of %d lines are not flushed", n, len(f.lines))
		}
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Text of clients stays in its field: it ends no line, has no control characters and is short.
func TestTextOfClients(t *testing.T) {
	m := new(memory)
	evil := []string{"a\n{\"ev\":\"login\",\"who\":\"User:admin\"}\n", "\x1b[2J\x1b[31m", "\u009b2J", "\u202egro.evil", "\x7f\x00",
		"\xff\xfe",
		"\u2028\u2029", strings.Repeat("é", 1000), "\U000e0041", `","who":"User:admin`}
	bubble(t, m, Refusals, func(l *Log) {
		for i, text := range evil {
			e := refused("User:bob", "10.0.0.7", fmt.Sprint(i)+text)
			e.ID, e.Why = text, text
			l.Record(e)
		}
	})
	all := m.events(t)
	if len(all) != len(evil) {
		t.Fatalf("%d lines", len(all))
	}
	for i, e := range all {
		if e["who"] != "User:bob" || e["ev"] != "refused" {
			t.Errorf("%q changes the line to %v", evil[i], e)
		}
		if id := e["client"].(string); len(id) > maxText || !strings.HasPrefix(strings.ToValidUTF8(evil[i], ""),
			strings.ReplaceAll(id, "\ufffd", "")) {
			t.Errorf("client id %q became %q", evil[i], id)
		}
		if j := strings.IndexFunc(strings.TrimSuffix(m.lines[i], "\n"), hidden); j >= 0 {
			t.Errorf("line %q has a character that is not printable at %d", m.lines[i], j)
		}
	}
}

// Each change has a line, however often the same thing is changed: a value that was there for a
// second only must be found, too.
func TestEachChangeHasALine(t *testing.T) {
	m := new(memory)
	bubble(t, m, Refusals, func(l *Log) {
		for i := range 5 {
			l.Record(Event{Kind: Change, Client: Client{Who: "User:a"}, Resource: "configs of topic a",
				Old: fmt.Appendf(nil, "%d", i), New: fmt.Appendf(nil, "%d", i+1)})
		}
		l.Record(Event{Kind: Change, Client: Client{Who: "User:a"}, Resource: "long", New: json.RawMessage(`"` + strings.Repeat("x",
			maxValue) + `"`)})
	})
	all := m.events(t)
	if len(all) != 6 {
		t.Fatalf("%d lines", len(all))
	}
	for i, e := range all[:5] {
		if e["old"] != float64(i) || e["new"] != float64(i+1) || e["n"] != 1.0 {
			t.Errorf("change %d: %v", i, e)
		}
	}
	if all[5]["new"] != "[8194 bytes]" {
		t.Errorf("a long value: %v", all[5])
	}
}

// A flood of refusals and failed logins, which every client of an address can make, hides neither
// a login nor a change from there; not even on a disk that takes no line for a while.
func TestAFloodHidesNoChange(t *testing.T) {
	m := &memory{}
	synctest.Test(t, func(t *testing.T) {
		m.blocked = make(chan struct{})
		l := Open(Options{Mode: Refusals, Sink: Same(m)})
		for i := range 2 * maxCauses {
			l.Record(refused("User:bob", fmt.Sprintf("10.0.0.%d", i%100), fmt.Sprintf("Topic:LITERAL:%d", i)))
		}
		l.Record(Event{Kind: Login, Client: Client{Who: "User:bob", Host: "10.0.0.7"}})
		l.Record(Event{Kind: Change, Client: Client{Who: "User:bob", Host: "10.0.0.7"}, Resource: "User:mallory"})
		close(m.blocked)
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	found := map[any]int{}
	for _, e := range m.events(t) {
		found[e["ev"]]++
	}
	if found["login"] != 1 || found["change"] != 1 {
		t.Errorf("lines: %v", found)
	}
}

// Changes are also bounded: who may make them must not fill the disk.
func TestChangesAreBounded(t *testing.T) {
	m := new(memory)
	bubble(t, m, Refusals, func(l *Log) {
		for range maxOfHost + 7 {
			l.Record(Event{Kind: Change, Client: Client{Who: "User:a", Host: "10.0.0.7"}, Resource: "configs of topic a"})
		}
	})
	all := m.events(t)
	if last := all[len(all)-1]; len(all) != maxOfHost+1 || last["ev"] != "overflow" || last["n"] != 7.0 || last["why"] != beyond[changes] {
		t.Errorf("%d lines, the last: %v", len(all), last)
	}
}

func TestModes(t *testing.T) {
	if Open(Options{Mode: Off}) != nil {
		t.Error("a log that is off")
	}
	var none *Log
	none.Record(Event{Kind: Login})
	for mode, want := range map[Mode]int{Refusals: 1, All: 2} {
		m := new(memory)
		bubble(t, m, mode, func(l *Log) {
			l.Record(Event{Kind: Login})
			l.Record(Event{Kind: Allowed})
		})
		if n := len(m.events(t)); n != want {
			t.Errorf("mode %d: %d lines, not %d", mode, n, want)
		}
	}
	for name, want := range map[string]Mode{"off": Off, "refusals": Refusals, "all": All} {
		if got, err := ParseMode(name); got != want || err != nil {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	if _, err := ParseMode("on"); err == nil {
		t.Error("on is a mode")
	}
}
