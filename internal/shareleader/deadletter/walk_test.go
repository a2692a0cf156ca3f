package deadletter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/testing/tries"
)

// walk is a random history of the dead letters of one share partition: its log, its stored state,
// leaders that copy, and a topic of dead letters.
type walk struct {
	rnd    *rand.Rand
	broken Broken
	wrong  string

	log     []entry
	start   int64 // of the log: records below are deleted
	records int   // made so far
	epoch   int32
	marks   []window.State // stored, by offset: Available, Archiving or Archived
	leaders []*leader      // the last one is the present one
	late    []func()       // requests that may arrive

	topic  byte // of dead letters; another one after each deletion
	copies []copied
	high   int // of copies: those below are committed
	calm   bool
	made   map[int]int // copies of each record that were committed in the present topic
	lost   map[int]bool
	back   map[int]bool // records that came back with an earlier log: they may have a copy from before
}

// copied is a batch in the topic of dead letters.
type copied struct {
	Last
	producer int64
	records  []int
}

// entry is a record of the log, and the leader epoch in which it was written.
type entry struct {
	record int
	epoch  int32
}

// leader is a leader of the share partition, or a former one that continues.
type leader struct {
	*walk
	c     *Copier
	epoch int32
	log   []entry
	// letters are what it has in memory; got are those that are copied and not stored as archived.
	letters, got map[int64]bool
}

func newWalk(seed uint64, broken Broken) *walk {
	k := &walk{rnd: rand.New(rand.NewPCG(seed, 1)), broken: broken, epoch: -1, made: map[int]int{},
		lost: map[int]bool{}, back: map[int]bool{}}
	k.elect(0, false)
	return k
}

func (k *walk) fail(format string, args ...any) {
	if k.wrong == "" {
		k.wrong = fmt.Sprintf(format, args...)
	}
}

// elect makes another leader, and loads the state. Its log is the present one, or that with which
// an earlier leader ended, without some records.
func (k *walk) elect(lose int, former bool) {
	if k.epoch++; k.rnd.IntN(4) == 0 {
		k.epoch += k.rnd.Int32N(5_000_000) // it is raised by a gap
	}
	log := k.log
	if n := len(k.leaders); former {
		log = k.leaders[k.rnd.IntN(n)].log
	}
	log = append([]entry(nil), log[:max(0, len(log)-lose)]...)
	same := 0
	for same < min(len(log), len(k.log)) && log[same] == k.log[same] {
		same++
	}
	for _, e := range log[same:] {
		k.back[e.record] = true
	}
	k.log, k.marks, k.start = log, k.marks[:min(same, len(k.marks))], min(k.start, int64(len(log)))
	l := &leader{walk: k, epoch: k.epoch, log: append([]entry(nil), k.log...), letters: map[int64]bool{}, got: map[int64]bool{}}
	of := shareleader.Source{Key: format.Key{Group: "g", Topic: [16]byte{1}}, ID: sharestate.Identity{StateEpoch: 1, Created: 1},
		Epoch: k.epoch, Epochs: l.epochs}
	for o, s := range k.marks {
		if s == window.Archiving {
			l.letters[int64(o)] = true
		}
	}
	l.c = newCopier(l, of, k.broken)
	k.leaders = append(k.leaders, l)
}

// epochs returns the leader epochs of the log.
func (l *leader) epochs() (known epochs.Cache, err error) {
	for o, e := range l.log {
		known.Assign(e.epoch, int64(o))
	}
	known.Assign(l.epoch, int64(len(l.log)))
	known.CutStart(l.start)
	return known, nil
}

// reject stores that a record is a dead letter.
func (l *leader) reject() {
	if l.epoch != l.walk.epoch {
		return // fenced
	}
	for len(l.walk.log) < len(l.marks)+2 {
		l.records++
		l.walk.log = append(l.walk.log, entry{l.records, l.epoch})
	}
	l.log = append([]entry(nil), l.walk.log...)
	if o := l.rnd.IntN(len(l.log)); o >= len(l.marks) || l.marks[o] == window.Available {
		for len(l.marks) <= o {
			l.marks = append(l.marks, window.Available)
		}
		l.marks[o] = window.Archiving
		l.letters[int64(o)] = true
	}
}

// copy makes a copy, if the last ones are stored as archived.
func (l *leader) copy() {
	var list []window.Letters
	from := l.start
	if l.rnd.IntN(3) > 0 {
		from = 0 // the start moves later
	}
	for o := from; o < int64(len(l.log)); o++ {
		if l.letters[o] && len(list) < 3 {
			list = append(list, window.Letters{First: o, Last: o, Count: 1})
		}
	}
	if len(l.got) > 0 || len(list) == 0 {
		return
	}
	got, _ := l.c.Copy(context.Background(), shareleader.LettersTo{Topic: "dlq", Whole: true, Deliveries: 5}, list)
	for _, g := range got {
		for o := g.First; o <= g.Last; o++ {
			if l.letters[o] {
				delete(l.letters, o)
				l.got[o] = true
			}
		}
	}
}

// store stores that what was copied is archived, or learns that another one leads.
func (l *leader) store() {
	if l.epoch != l.walk.epoch {
		return
	}
	for o := range l.got {
		l.marks[o] = window.Archived
		if r := l.log[o].record; o >= l.start && l.made[r] != 1 && !l.lost[r] && !(l.back[r] && l.made[r] > 1) {
			l.fail("record %d at %d is archived with %d copies", r, o, l.made[r])
		}
	}
	clear(l.got)
}

// find implements world.
func (k *walk) find(string, [16]byte, int32) (Topic, error) {
	return Topic{Target{Topic: [16]byte{k.topic}}, 1 << 20}, nil
}

func (k *walk) exists(t Target) bool { return t.Topic[0] == k.topic }

func (k *walk) name([16]byte) string { return "jobs" }

// read implements world.
func (l *leader) read(_ context.Context, _ *shareleader.Source, from, _ int64, fn func(record.Record) int64) error {
	for from >= 0 && from < int64(len(l.log)) {
		from = fn(record.Record{Offset: from, Value: strconv.AppendInt(nil, int64(l.log[from].record), 10)})
	}
	return nil
}

var errLost = errors.New("no answer")

// lastOf returns the last batch of a producer id.
func (k *walk) lastOf(t Target, producer int64) (Last, error) {
	if t.Topic[0] != k.topic {
		return none, errLost
	}
	for i := len(k.copies) - 1; i >= 0; i-- {
		if c := k.copies[i]; c.producer == producer {
			return c.Last, committed(int64(i), int64(k.high), k.broken)
		}
	}
	return none, nil
}

// append implements world: the request arrives now, later, repeatedly or never.
func (k *walk) append(_ context.Context, t Target, after int64, b record.Batch) (Last, bool, error) {
	q := &request{Target: t, producer: b.ProducerID(), after: after, batch: b}
	if k.calm {
		last, appended, err := k.arrive(q)
		k.commit()
		return last, appended, err
	}
	switch r := k.rnd.IntN(10); {
	case r < 4:
		last, appended, err := k.arrive(q)
		if r == 0 {
			k.late = append(k.late, func() { _, _, _ = k.arrive(q) })
		}
		if appended { // the answer follows the commit
			k.commit()
		}
		return last, appended, err
	case r < 6:
		_, _, _ = k.arrive(q)
		return none, false, errLost
	case r < 9:
		k.late = append(k.late, func() { _, _, _ = k.arrive(q) })
	}
	return none, false, errLost
}

// arrive carries out a request, as Desk.answer does.
func (k *walk) arrive(q *request) (Last, bool, error) {
	last, err := k.lastOf(q.Target, q.producer)
	if err != nil || !q.follows(last, k.broken) {
		return last, false, err
	}
	c := copied{producer: q.producer, Last: Last{Offset: int64(len(k.copies)), Sequence: q.batch.LastSequence()}}
	if c.Letters, c.Leader, err = lettersOf(q.batch); err != nil {
		panic(err)
	}
	err = q.batch.Each(record.Limits{}, func(r record.Record) error {
		n, err := strconv.Atoi(string(r.Value))
		c.records = append(c.records, n)
		return err
	})
	if err != nil {
		panic(err)
	}
	k.copies = append(k.copies, c)
	return c.Last, true, nil
}

// commit commits all copies.
func (k *walk) commit() {
	for ; k.high < len(k.copies); k.high++ {
		for _, r := range k.copies[k.high].records {
			if k.made[r]++; k.made[r] > 1 && !k.back[r] {
				k.fail("record %d has %d copies", r, k.made[r])
			}
		}
	}
}

func (k *walk) step() {
	l := k.leaders[len(k.leaders)-1]
	if n := len(k.leaders); n > 1 && k.rnd.IntN(4) == 0 {
		l = k.leaders[max(0, n-3)+k.rnd.IntN(min(n, 3))]
	}
	switch r := k.rnd.IntN(100); {
	case r < 25:
		l.reject()
	case r < 55:
		l.copy()
	case r < 75:
		l.store()
	case r < 77:
		k.start = min(k.start+k.rnd.Int64N(4), int64(len(k.log)))
	case r < 82:
		k.elect(max(0, k.rnd.IntN(6)-3), k.rnd.IntN(3) == 0)
	case r < 90:
		if n := len(k.late); n > 0 {
			i := k.rnd.IntN(n)
			f := k.late[i]
			k.late = append(k.late[:i], k.late[i+1:]...)
			f()
		}
	case r < 96:
		k.commit()
	case r < 99:
		k.copies = k.copies[:k.high] // what is not committed is lost
	default:
		if k.rnd.IntN(5) == 0 {
			k.topic++
			for r := range k.made {
				k.lost[r] = true // its copy is deleted with the topic
			}
			k.copies, k.high = nil, 0
			clear(k.made)
		}
	}
}

// run makes steps. Then one leader copies what is left.
func (k *walk) run(steps int) string {
	for i := 0; i < steps && k.wrong == ""; i++ {
		k.step()
	}
	k.calm = true
	k.commit()
	k.elect(0, false)
	l := k.leaders[len(k.leaders)-1]
	for range 1000 {
		l.copy()
		l.store()
	}
	for _, f := range k.late {
		f()
	}
	k.commit()
	for o, s := range k.marks {
		if s == window.Archiving && int64(o) >= k.start {
			k.fail("offset %d waits for its copy", o)
		}
	}
	return k.wrong
}

// Each record that is archived has one copy, whatever is late, lost or repeated.
func TestWalks(t *testing.T) {
	for seed := range tries.Of(t, "CHRONIK_SHARE_WALKS", 3000) {
		if bad := newWalk(uint64(seed), Broken{}).run(300); bad != "" {
			t.Fatalf("walk %d: %s", seed, bad)
		}
	}
}
