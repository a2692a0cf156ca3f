package window

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/testing/tries"
)

// walk is a random history of one share partition on one leader after another: its log, its
// members, and the store of its state. After each step the window is compared with the plain one,
// and the promises of docs/share-groups.md are checked.
type walk struct {
	roll   func(n int) int
	broken Broken
	w      *Window
	p      *plain
	now    time.Duration
	log    []Batch
	start  int64 // of the log
	marks  map[int64]Mark
	spso   int64 // stored
	sure   map[int64]Mark
	sureAt int64
	copy   Write // of the write under way
	reads  []Taking
	asked  []asked
	copies []Letters
	// held are the counts of what members held when the window was closed, and closing is the write
	// with which they are stored, except for those at the lowest delivery limit since then.
	held    map[int64]int
	closing uint64
	lowest  int
	// done are offsets whose accept or reject was answered, and least the counts that a later
	// delivery must exceed, as a release was answered.
	done   map[int64]bool
	least  map[int64]int
	copied map[int64]bool
	// said are offsets that a member has accepted, rejected or called a gap, and taken how often an
	// offset was acquired.
	said  map[int64]bool
	taken map[int64]int
	bad   string
}

// asked is a request whose answer waits for a write.
type asked struct {
	member Member
	acks   []Ack
	wait   uint64
	counts map[int64]int // of the deliveries that are acknowledged
}

func newWalk(roll func(n int) int, broken Broken) *walk {
	x := &walk{roll: roll, broken: broken, marks: map[int64]Mark{}}
	x.done, x.least, x.copied = map[int64]bool{}, map[int64]int{}, map[int64]bool{}
	x.said, x.taken = map[int64]bool{}, map[int64]int{}
	x.load(x.config())
	return x
}

func (x *walk) config() Config {
	c := Config{Broken: x.broken, Locks: int64(4 + x.roll(30)), Deliveries: 2 + x.roll(6), Lock: []time.Duration{10, 50}[x.roll(2)],
		Retry: time.Duration(x.roll(2)), RetryMax: 5, DeadLetters: x.roll(2) == 0}
	if x.roll(3) > 0 {
		c.bounds = bounds{runs: 2 + x.roll(6), kids: 2 + x.roll(3)}
	}
	return c
}

func (x *walk) fail(format string, args ...any) {
	if x.bad == "" {
		x.bad = fmt.Sprintf(format, args...)
	}
}

// end is the log end.
func (x *walk) end() int64 {
	if n := len(x.log); n > 0 {
		return x.log[n-1].Last + 1
	}
	return x.start
}

// state returns what is stored.
func (x *walk) state() Stored {
	s := Stored{Start: x.spso}
	for o := x.spso; o < x.spso+1000; o++ {
		if m, ok := x.marks[o]; ok {
			if n := len(s.Marks) - 1; n >= 0 && s.Marks[n].Last == o-1 && s.Marks[n].State == m.State && s.Marks[n].Count == m.Count {
				s.Marks[n].Last = o
			} else {
				s.Marks = append(s.Marks, Mark{o, o, m.State, m.Count})
			}
		}
	}
	return s
}

// load begins another leader, or the memory of the same one again.
func (x *walk) load(cfg Config) {
	s := x.state()
	w, err := Load(cfg, s)
	if err != nil {
		x.fail("load %+v: %v", s, err)
		return
	}
	cfg.Broken = Broken{}
	x.w, x.p = w, loadPlain(cfg, s)
	x.copy, x.asked, x.reads, x.copies, x.held = Write{}, nil, nil, nil, nil
	x.sure, x.sureAt = map[int64]Mark{}, x.spso
	for o, m := range x.marks {
		x.sure[o] = m
	}
}

// store applies a write to the stored state, as the store does: it refuses what takes a state back.
func (x *walk) store(w Write, marks map[int64]Mark, start *int64) {
	if w.Start < *start {
		x.fail("write %d moves SPSO from %d to %d", w.Seq, *start, w.Start)
	}
	*start = w.Start
	for _, m := range each(w.Marks) {
		if old, ok := marks[m.First]; ok && (m.Count < old.Count || m.Count == old.Count && m.State < old.State) {
			x.fail("write %d replaces the mark %+v with %+v", w.Seq, old, m)
		}
		if m.State == Archived && x.p.cfg.DeadLetters && marks[m.First].State == Archiving && !x.copied[m.First] {
			x.fail("offset %d is archived before it is copied", m.First)
		}
		marks[m.First] = m
	}
	for o := range marks {
		if o < w.Start {
			delete(marks, o)
		}
	}
}

// compare compares the window with the plain one.
func (x *walk) compare() {
	if x.broken == (Broken{}) {
		if bad := x.w.faults(); bad != "" {
			x.fail("%s", bad)
		}
	}
	for _, a := range x.asked {
		if begun := a.wait <= x.w.writes; begun && x.w.write == nil || !begun && !x.w.startDue && !x.w.tree.due() {
			x.fail("%+v waits for a write that never comes", a)
		}
	}
	s := x.w.Stats()
	if s.Start != x.p.start || s.End != x.p.end {
		x.fail("offsets %d to %d, want %d to %d", s.Start, s.End, x.p.start, x.p.end)
		return
	}
	var got []Run
	for r := range x.w.InFlight(0) {
		for o := r.First; o <= r.Last; o++ {
			one := r
			one.First, one.Last = o, o
			got = append(got, one)
		}
	}
	want := x.p.runs()
	var offsets [states]int64
	earliest := time.Duration(-1)
	for i, r := range want {
		if offsets[r.State]++; r.Deadline > 0 && (earliest < 0 || r.Deadline < earliest) {
			earliest = r.Deadline
		}
		if i < len(got) && got[i] != r {
			x.fail("%+v, want %+v", got[i], r)
			return
		}
	}
	if len(got) != len(want) || s.Offsets != offsets {
		x.fail("%d offsets %v, want %d %v", len(got), s.Offsets, len(want), offsets)
	}
	if next, ok := x.w.NextDeadline(); ok != (earliest >= 0) || ok && next != earliest {
		x.fail("next deadline %v %t, want %v", next, ok, earliest)
	}
}

// read returns the batches that a read from an offset returns.
func (x *walk) read(from int64) []Batch {
	i := slices.IndexFunc(x.log, func(b Batch) bool { return b.Last >= from })
	if i < 0 {
		return nil
	}
	return slices.Clone(x.log[i:min(len(x.log), i+1+x.roll(4))])
}

// take acquires with a read.
func (x *walk) take(t Taking) {
	got, want := x.w.Take(t, nil), x.p.take(t)
	if !slices.Equal(got, want) {
		x.fail("take %+v: %v, want %v", t, got, want)
	}
	records, limit := int64(0), x.p.cfg.Deliveries
	for _, d := range got {
		records += d.Last - d.First + 1
		if d.Count > max(2, (limit+1)/2) && d.Count <= limit && (len(got) > 1 || limit > 2 && d.Count == limit && records > 1) {
			x.fail("%v are delivered together, with a limit of %d", got, limit)
		}
		for o := d.First; o <= d.Last; o++ {
			x.taken[o]++
			switch {
			case !slices.ContainsFunc(t.Batches, func(b Batch) bool { return !b.Gone && b.Base <= o && o <= b.Last }):
				x.fail("offset %d is delivered, which was not read", o)
			case t.Strict && records > t.Records:
				x.fail("%d records are delivered", records)
			case x.done[o]:
				x.fail("offset %d is delivered after its acknowledgement was answered", o)
			case x.copied[o]:
				x.fail("offset %d is delivered after it was copied as a dead letter", o)
			case d.Count <= x.least[o]:
				x.fail("offset %d has delivery count %d after %d was released", o, d.Count, x.least[o])
			case d.Count > x.p.cfg.Deliveries:
				x.fail("offset %d is delivered %d times", o, d.Count)
			}
		}
	}
}

// acknowledge acknowledges random offsets, most of which the member holds.
func (x *walk) acknowledge() {
	m := Member(1 + x.roll(3))
	var acks []Ack
	for o := max(0, x.p.start-2); o < x.p.end+1; o++ {
		s := x.p.slots[o]
		mine := s != nil && s.state == Acquired && s.member == m
		if mine && x.roll(2) == 0 || !mine && x.roll(60) == 0 {
			by := AckType(x.roll(5))
			if n := len(acks) - 1; n >= 0 && acks[n].Last == o-1 && x.roll(3) > 0 {
				for int64(len(acks[n].Types)) < acks[n].Last-acks[n].First+1 {
					acks[n].Types = append(acks[n].Types, acks[n].Types[0])
				}
				acks[n].Last, acks[n].Types = o, append(acks[n].Types, by)
			} else {
				acks = append(acks, Ack{o, o, []AckType{by}})
			}
		}
	}
	x.ask(asked{member: m, acks: acks})
}

// ask sends a request, and answers it if it waits for nothing.
func (x *walk) ask(a asked) {
	a.counts = map[int64]int{}
	for _, p := range a.acks {
		for o := p.First; o <= p.Last; o++ {
			if s := x.p.slots[o]; s != nil {
				a.counts[o] = s.count
			}
		}
	}
	wait, err := x.w.Acknowledge(a.member, x.now, a.acks)
	want, ok := x.p.acknowledge(a.member, x.now, a.acks)
	if (err == nil) != ok || ok && wait != want {
		x.fail("member %d acknowledges %v: %d, %v, want %d, %t", a.member, a.acks, wait, err, want, ok)
	}
	if err != nil {
		return
	}
	for p := range parts(a.acks) {
		for o := p.first; o <= p.last && p.by != Renew && p.by != Release; o++ {
			x.said[o] = true
		}
	}
	if a.wait = wait; wait == 0 {
		x.answer(a)
	} else {
		x.asked = append(x.asked, a)
	}
}

// operate releases or rejects a range as an operator does, which needs no lock.
func (x *walk) operate() {
	by := []AckType{Release, Reject}[x.roll(2)]
	first := max(0, x.p.start-2) + int64(x.roll(int(x.p.end-x.p.start)+5))
	last := first + int64(x.roll(1+x.roll(12)))
	counts := map[int64]int{}
	for o, s := range x.p.slots {
		counts[o] = s.count
	}
	before := x.w.Stats().Offsets[Available]
	got, available, err := x.w.Operate(by, x.now, first, last)
	want, changed := x.p.operate(by, x.now, first, last)
	if err != nil || got != want || by == Release && available != (x.w.Stats().Offsets[Available] > before) {
		x.fail("an operator's %d of %d to %d: %+v %t, %v, want %+v", by, first, last, got, available, err, want)
		return
	}
	a := asked{counts: counts, wait: x.w.Pending()}
	for _, o := range changed {
		a.acks = append(a.acks, Ack{o, o, []AckType{by}})
		x.said[o] = x.said[o] || by == Reject
	}
	if len(a.acks) > 0 {
		x.asked = append(x.asked, a)
	}
}

// answer checks that what was acknowledged is stored.
func (x *walk) answer(a asked) {
	for p := range parts(a.acks) {
		for o := p.first; o <= p.last && p.by != Renew; o++ {
			m, found := x.sure[o]
			if o >= x.sureAt && o >= x.start && (!found || m.Count < a.counts[o] || p.by == Accept && m.State != Acknowledged) {
				x.fail("offset %d: type %d is answered, and %+v is stored", o, p.by, m)
			}
			if p.by == Release && o >= x.sureAt {
				x.least[o] = max(x.least[o], a.counts[o])
			} else if p.by != Release {
				x.done[o] = true
			}
		}
	}
}

// write begins a write, or repeats it.
func (x *walk) write() {
	if due := x.w.Due(); due != (!x.p.underWay && !x.p.dropped && (x.p.startDue || slices.ContainsFunc(x.p.runs(), func(r Run) bool {
		return x.p.slots[r.First].pending == 1
	}))) {
		x.fail("due: %t", due)
	}
	w := x.w.Begin()
	if x.p.underWay {
		if w == nil || !reflect.DeepEqual(*w, x.copy) {
			x.fail("write %+v is repeated as %+v", x.copy, w)
		}
		return
	}
	want := x.p.begin()
	if (w == nil) != (want == nil) {
		x.fail("write %+v, want %+v", w, want)
		return
	}
	if w == nil {
		return
	}
	if w.Seq != want.Seq || w.Start != want.Start || w.Complete != want.Complete || !slices.Equal(each(w.Marks), want.Marks) {
		x.fail("write %+v, want %+v", w, want)
	}
	x.copy = *w
	x.copy.Marks = slices.Clone(w.Marks)
	if x.roll(2) == 0 {
		x.store(x.copy, x.marks, &x.spso)
	}
}

// written answers the write under way, and the requests that wait for it.
func (x *walk) written() {
	if x.roll(4) == 0 && x.copy.Seq > 1 {
		x.w.Written(x.copy.Seq - 1) // a late answer
	}
	if !x.p.underWay {
		return
	}
	x.store(x.copy, x.marks, &x.spso)
	x.store(x.copy, x.sure, &x.sureAt)
	x.w.Written(x.copy.Seq)
	x.p.written()
	for o, count := range x.held {
		if x.copy.Seq >= x.closing {
			x.least[o] = max(x.least[o], min(count, x.lowest-1))
		}
	}
	x.asked = slices.DeleteFunc(x.asked, func(a asked) bool {
		if a.wait > x.copy.Seq {
			return false
		}
		x.answer(a)
		return true
	})
}

// refused refuses the write under way: the window must serve nothing.
func (x *walk) refused() {
	if !x.p.underWay {
		return
	}
	x.w.Refused()
	x.p.dropped = true
	_, planned := x.w.Plan(x.start)
	_, err := x.w.Acknowledge(1, x.now, nil)
	if planned || !errors.Is(err, ErrDropped) || x.w.Begin() != nil || x.w.Due() {
		x.fail("after a refusal: plan %t, acknowledgement %v", planned, err)
	}
	x.take(Taking{Member: 1, Now: x.now, From: x.w.end, Batches: x.read(0), Records: 1})
	if n, a := x.w.Expire(x.now + time.Hour); n != 0 || a {
		x.fail("locks expire after a refusal")
	}
	x.load(x.config())
}

// lose removes the end of the log: a leader whose log lacks it is elected.
func (x *walk) lose() {
	for range x.roll(4) {
		if n := len(x.log); n > 0 && x.log[n-1].Base >= x.start {
			x.log = x.log[:n-1]
		}
	}
	end := x.end()
	s := x.state().Cut(end, x.broken)
	for o := range x.marks {
		if o >= end {
			delete(x.marks, o)
		}
	}
	x.spso = min(x.spso, end)
	if want := x.state(); s.Start != want.Start || !slices.Equal(s.Marks, want.Marks) {
		x.fail("cut to %d: %+v, want %+v", end, s, want)
	}
	for _, of := range []map[int64]bool{x.done, x.copied, x.said} {
		for o := range of {
			if o >= end {
				delete(of, o)
			}
		}
	}
	for _, of := range []map[int64]int{x.least, x.taken} {
		for o := range of {
			if o >= end {
				delete(of, o)
			}
		}
	}
	x.load(x.config())
}

// expire lets time pass.
func (x *walk) expire() {
	x.now += time.Duration(1 + x.roll(5))
	if x.roll(8) == 0 {
		x.w.Extend(3)
		x.p.extend(3)
	}
	got, gotOpen := x.w.Expire(x.now)
	want, wantOpen := x.p.expire(x.now)
	if got != want || gotOpen != wantOpen {
		x.fail("%d locks expire, want %d; available %t, want %t", got, want, gotOpen, wantOpen)
	}
}

// letters copies dead letters.
func (x *walk) letters() {
	if n := len(x.copies); n > 0 && x.roll(2) == 0 {
		c := x.copies[x.roll(n)]
		for o := c.First; o <= c.Last; o++ {
			x.copied[o] = true
		}
		x.w.Copied(c.First, c.Last)
		x.p.copied(c.First, c.Last)
		return
	}
	c, ok := x.w.NextLetters(int64(1 + x.roll(4)))
	if first := x.p.letters(); ok != (first >= 0) || ok && c.First != first {
		x.fail("letters %+v %t, want %d", c, ok, first)
		return
	}
	if !ok {
		return
	}
	for o := c.First; o <= c.Last; o++ {
		s := x.p.slots[o]
		if s == nil || s.state != Archiving || s.pending != 0 || s.copying || s.count != c.Count {
			x.fail("letters %+v have offset %d", c, o)
			return
		}
		s.copying = true
	}
	x.copies = append(x.copies, c)
}

func (x *walk) step() {
	switch x.roll(25) {
	case 0, 1, 2:
		if x.end() < x.p.start+60 {
			base := x.end() + int64(x.roll(8)/7*3)
			x.log = append(x.log, Batch{base, base + int64(x.roll(1+x.roll(12))), x.roll(8) == 0})
		}
	case 3, 4, 5, 6:
		from, ok := x.w.Plan(x.start)
		if want, wantOK := x.p.plan(x.start); from != want || ok != wantOK {
			x.fail("plan %d %t, want %d %t", from, ok, want, wantOK)
		}
		if ok {
			x.reads = append(x.reads, Taking{Member: Member(1 + x.roll(3)), From: from, Batches: x.read(from),
				Records: int64(x.roll(10)), Strict: x.roll(2) == 0, BatchSize: int64(1 + x.roll(8))})
		}
	case 7, 8, 9, 10:
		if n := len(x.reads); n > 0 {
			i := x.roll(n)
			t := x.reads[i]
			t.Now = x.now
			if x.reads = slices.Delete(x.reads, i, i+1); t.From >= x.start {
				x.take(t)
			}
		}
	case 11, 12, 13, 14:
		x.acknowledge()
	case 15:
		if n := len(x.asked); n > 0 { // a repetition, if it is of a member
			if a := x.asked[x.roll(n)]; a.member != 0 {
				x.ask(a)
			}
		}
	case 16, 17:
		x.write()
	case 18, 19:
		x.written()
	case 20:
		x.expire()
	case 21:
		m := Member(1 + x.roll(3))
		got, gotOpen := x.w.Release(m)
		if want, wantOpen := x.p.releaseAll(m); got != want || gotOpen != wantOpen {
			x.fail("member %d had %d records, want %d; available %t, want %t", m, got, want, gotOpen, wantOpen)
		}
	case 22:
		x.letters()
	case 23:
		x.operate()
	default:
		x.rare()
	}
}

func (x *walk) rare() {
	switch x.roll(12) {
	case 0, 1:
		x.start = min(x.end(), x.start+int64(x.roll(5)))
		x.w.StartMoved(x.start)
		x.p.startMoved(x.start)
	case 2, 3:
		c := x.config()
		c.bounds = bounds{} // of later windows
		x.w.SetConfig(c)
		c.Broken = Broken{}
		x.p.cfg, x.lowest = c, min(x.lowest, c.Deliveries)
	case 4:
		x.refused()
	case 5, 6:
		x.load(x.config())
	case 7:
		x.lose()
	case 9, 10:
		if x.held == nil {
			x.close()
		} else {
			x.load(x.config())
		}
	case 8:
		if n := len(x.log); n > 1 { // compaction
			if i := x.roll(n - 1); x.log[i].Last < x.end()-1 {
				x.log = slices.Delete(x.log, i, i+1)
			}
		}
	}
}

// close lets another leader take over.
func (x *walk) close() {
	x.held, x.lowest = map[int64]int{}, x.p.cfg.Deliveries
	for o, s := range x.p.slots {
		if s.state == Acquired {
			x.held[o] = s.count
		}
	}
	x.w.Close()
	x.p.close()
	if x.closing = x.w.Pending(); len(x.held) > 0 && x.closing == 0 && x.broken == (Broken{}) {
		x.fail("the deliveries of %v are not stored", x.held)
	}
}

// finish ends a walk: one member accepts what is left. Then nothing is stuck, and no record is
// finished without a reason.
func (x *walk) finish() {
	if x.held != nil { // another leader takes over; this one may have been late
		x.load(x.config())
	}
	for i := 0; x.w.start < x.end() && x.bad == ""; i++ {
		x.now += 1000
		x.w.Expire(x.now)
		if w := x.w.Begin(); w != nil {
			x.w.Written(w.Seq)
		}
		for c, ok := x.w.NextLetters(9); ok; c, ok = x.w.NextLetters(9) {
			x.w.Copied(c.First, c.Last)
		}
		for _, c := range x.copies {
			x.w.Copied(c.First, c.Last)
		}
		from, ok := x.w.Plan(x.start)
		if !ok {
			from = x.w.start
		}
		for _, d := range x.w.Take(Taking{Member: 4, Now: x.now, From: from, Batches: x.read(from), Records: 9}, nil) {
			for o := d.First; o <= d.Last; o++ {
				x.said[o] = true
			}
			if _, err := x.w.Acknowledge(4, x.now, []Ack{{d.First, d.Last, []AckType{Accept}}}); err != nil {
				x.fail("finish: %v", err)
			}
		}
		if i > 1000 {
			x.fail("the group is stuck at %d, and the log ends at %d", x.w.start, x.end())
		}
	}
	for _, b := range x.log {
		for o := max(b.Base, x.start); o <= b.Last && !b.Gone; o++ {
			if !x.said[o] && x.taken[o] < 2 {
				x.fail("offset %d is finished without a reason after %d deliveries", o, x.taken[o])
			}
		}
	}
}

// run makes steps until something is wrong, and returns what.
func (x *walk) run(steps int) string {
	for i := 0; i < steps && x.bad == ""; i++ {
		if x.step(); x.bad == "" {
			x.compare()
		}
	}
	if x.bad == "" {
		x.finish()
	}
	return x.bad
}

func seeded(seed uint64) func(n int) int { return rand.New(rand.NewPCG(seed, 1)).IntN }

// The window does what the plain one does, and keeps its promises.
func TestWalks(t *testing.T) {
	for seed := range tries.Of(t, "CHRONIK_SHARE_WALKS", race.Some(400, 200)) {
		if bad := newWalk(seeded(uint64(seed)), Broken{}).run(400); bad != "" {
			t.Fatalf("walk %d: %s", seed, bad)
		}
	}
}

func TestHistoriesThatShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roll := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }
		if bad := newWalk(roll, Broken{}).run(120); bad != "" {
			t.Fatal(bad)
		}
	})
}
