package producers

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// in returns a batch of one record in a transaction.
func in(t interface{ Fatal(...any) }, base, id int64, epoch int16, seq int32) record.Batch {
	b := record.NewBuilder(record.BatchOptions{BaseOffset: base, Producer: &record.Producer{ID: id, Epoch: epoch, Sequence: seq},
		Transactional: true})
	b.Append(base, nil, []byte("v"), nil)
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func marker(base, id int64, epoch int16, kind record.ControlType, coordinator int32) record.Batch {
	b := record.EndTxnMarker(id, epoch, kind, coordinator, base)
	b.SetBaseOffset(base)
	return b
}

// permit returns what a coordinator that permits everything says.
func permit(s *State, id int64) Permit {
	return Permit{Guard: s.Guard(id), CoordinatorEpoch: math.MaxInt32}
}

// A batch begins a transaction only if the coordinator permits it, and after the last marker.
func TestATransactionBeginsWithAPermit(t *testing.T) {
	var s State
	s.MarkDurable(0)
	first := in(t, 0, 1, 0, 0)
	if _, _, err := s.Check(first, Permit{}); !errors.Is(err, ErrUnverified) {
		t.Errorf("without a guard: %v", err)
	}
	late := s.Guard(1)
	s.Add(marker(0, 1, 0, record.Abort, 3), now)
	if _, _, err := s.Check(first, Permit{Guard: late, CoordinatorEpoch: 3}); !errors.Is(err, ErrUnverified) {
		t.Errorf("with a guard from before the marker: %v", err)
	}
	if _, _, err := s.Check(first, Permit{Guard: s.Guard(1), CoordinatorEpoch: 2}); !errors.Is(err, ErrUnverified) {
		t.Errorf("permitted by an earlier coordinator: %v", err)
	}
	g := s.Guard(1)
	s.DropGuards()
	if _, _, err := s.Check(first, Permit{Guard: g, CoordinatorEpoch: 3}); !errors.Is(err, ErrUnverified) {
		t.Errorf("with a guard from before the role changed: %v", err)
	}
	g = s.Guard(1)
	if other := s.Guard(1); other != g {
		t.Error("two guards of one producer")
	}
	s.Unguard(1, new(Guard))
	if _, _, err := s.Check(first, Permit{Guard: g, CoordinatorEpoch: 3}); err != nil {
		t.Errorf("with a permit: %v", err)
	}
	s.Add(first, now)
	if _, _, err := s.Check(in(t, 1, 1, 0, 1), Permit{}); err != nil {
		t.Errorf("in the open transaction: %v", err)
	}
	if _, _, err := s.Check(made(t, 1, 1, 0, 1, 1), Permit{}); !errors.Is(err, ErrTransactionOpen) {
		t.Errorf("outside of it: %v", err)
	}
	if _, dup, _ := s.Check(first, Permit{}); !dup {
		t.Error("a retry of its first batch is not known")
	}
	s.Add(marker(1, 1, 1, record.Commit, 3), now)
	if _, _, err := s.Check(in(t, 2, 1, 0, 1), permit(&s, 1)); !errors.Is(err, ErrInvalidProducerEpoch) {
		t.Errorf("a late batch of the epoch before the marker: %v", err)
	}
	if _, _, err := s.Check(in(t, 2, 1, 1, 1), permit(&s, 1)); !errors.Is(err, ErrOutOfOrderSequence) {
		t.Errorf("the second batch of the new epoch before its first: %v", err)
	}
	if _, _, err := s.Check(in(t, 2, 2, 1, 3), permit(&s, 2)); err != nil {
		t.Errorf("a transaction in the middle of an epoch: %v", err)
	}
	strict := permit(&s, 2)
	strict.Bumps = true
	if _, _, err := s.Check(in(t, 2, 2, 1, 3), strict); !errors.Is(err, ErrOutOfOrderSequence) {
		t.Errorf("the fourth batch of an unknown epoch: %v", err)
	}
}

// Each marker against each state of the producer, as Kafka answers it.
func TestCheckMarker(t *testing.T) {
	unknown := func(*State) {}
	open := func(s *State) { s.Add(in(t, 0, 1, 5, 0), now) }
	ended := func(kind record.ControlType) func(*State) {
		return func(s *State) { open(s); s.Add(marker(1, 1, 6, kind, 3), now) }
	}
	again := func(s *State) { ended(record.Commit)(s); s.Add(in(t, 2, 1, 6, 0), now) }
	old := func(s *State) { open(s); s.Add(marker(1, 1, 5, record.Commit, 3), now) } // transaction.version 1
	for name, c := range map[string]struct {
		state func(*State)
		b     record.Batch
		from  Sender
		dup   bool
		err   error
	}{
		"for an unknown producer":     {unknown, marker(9, 1, 5, record.Commit, 0), Sender{}, false, nil},
		"with the next epoch":         {open, marker(9, 1, 6, record.Commit, 0), Sender{Bumps: true}, false, nil},
		"with the same epoch":         {open, marker(9, 1, 5, record.Commit, 0), Sender{}, false, nil},
		"with an old epoch":           {open, marker(9, 1, 4, record.Commit, 0), Sender{}, false, ErrInvalidProducerEpoch},
		"with the same epoch, strict": {open, marker(9, 1, 5, record.Commit, 0), Sender{Bumps: true}, false, ErrInvalidProducerEpoch},
		"repeated":                    {ended(record.Commit), marker(9, 1, 6, record.Commit, 3), Sender{Bumps: true}, true, nil},
		"repeated, next coordinator":  {ended(record.Commit), marker(9, 1, 6, record.Commit, 4), Sender{Bumps: true}, false, nil},
		"repeated, other coordinator": {ended(record.Commit), marker(9, 1, 6, record.Commit, 2), Sender{Bumps: true}, false,
			ErrCoordinatorFenced},
		"of the other type": {ended(record.Abort), marker(9, 1, 6, record.Commit, 3), Sender{Bumps: true}, false,
			ErrInvalidProducerEpoch},
		"late, in the next transaction":   {again, marker(9, 1, 6, record.Commit, 3), Sender{Bumps: true}, false, ErrInvalidProducerEpoch},
		"of version 1, repeated":          {old, marker(9, 1, 5, record.Commit, 3), Sender{}, false, nil},
		"of a tool":                       {open, marker(9, 1, 5, record.Abort, 0), Sender{Foreign: true}, false, nil},
		"of a tool, above":                {open, marker(9, 1, 5, record.Abort, 5), Sender{Foreign: true}, false, ErrForeignMarker},
		"of a tool, as the coordinator":   {old, marker(9, 1, 5, record.Abort, 3), Sender{Foreign: true}, false, nil},
		"of a tool, below":                {old, marker(9, 1, 5, record.Abort, 0), Sender{Foreign: true}, false, ErrForeignMarker},
		"of a tool, unknown":              {unknown, marker(9, 1, 0, record.Abort, 0), Sender{Foreign: true}, false, nil},
		"of a tool, unknown, late epoch":  {unknown, marker(9, 1, 1, record.Abort, 0), Sender{Foreign: true}, false, ErrForeignMarker},
		"of a tool, next epoch":           {open, marker(9, 1, 6, record.Abort, 0), Sender{Foreign: true}, false, ErrForeignMarker},
		"of a tool, version 2, next":      {open, marker(9, 1, 6, record.Abort, 0), Sender{true, true}, false, ErrForeignMarker},
		"of a tool, version 2":            {open, marker(9, 1, 5, record.Abort, 0), Sender{true, true}, false, ErrInvalidProducerEpoch},
		"of a tool, last epoch":           {old, marker(9, 1, 32767, record.Abort, 3), Sender{Foreign: true}, false, ErrForeignMarker},
		"of a tool, old epoch":            {open, marker(9, 1, 4, record.Abort, 0), Sender{Foreign: true}, false, ErrInvalidProducerEpoch},
		"of an earlier coordinator":       {old, marker(9, 1, 5, record.Abort, 2), Sender{}, false, ErrCoordinatorFenced},
		"that is no end of a transaction": {unknown, marker(9, 1, 5, 2, 0), Sender{}, false, nil},
	} {
		var s State
		c.state(&s)
		d, dup, err := s.CheckMarker(c.b, c.from)
		if name == "that is no end of a transaction" {
			if err == nil {
				t.Error("a control record of another type is accepted")
			}
			continue
		}
		if dup != c.dup || !errors.Is(err, c.err) || c.err == nil && err != nil || dup && (d.BaseOffset != 1 || d.LastOffset != 1) {
			t.Errorf("a marker %s: %+v, %v, %v", name, d, dup, err)
		}
	}
	var fenced *CoordinatorFenced
	var s State
	old(&s)
	if _, _, err := s.CheckMarker(marker(9, 1, 5, record.Abort, 2), Sender{}); !errors.As(err, &fenced) || fenced.Epoch != 3 {
		t.Errorf("the error does not say which coordinator epoch the log knows: %v", err)
	}
}

// known is what follows from the batches of a log for one producer.
type known struct {
	transaction
	spans  [][2]int64 // first offset and marker
	fenced int16      // the epoch without that of batches outside of transactions
}

// replayed computes the state of a producer from the batches.
func replayed(log []record.Batch, id int64) known {
	k := known{transaction: noTransaction, fenced: -1}
	for _, b := range log {
		switch {
		case b.ProducerID() != id:
		case b.Control():
			kind, coordinator, _ := b.EndTxn()
			if k.first >= 0 {
				k.spans = append(k.spans, [2]int64{k.first, b.BaseOffset()})
			}
			k.first, k.marker, k.kind, k.coordinator = -1, b.BaseOffset(), kind, max(k.coordinator, coordinator)
			k.epoch, k.fenced = max(k.epoch, b.ProducerEpoch()), max(k.fenced, b.ProducerEpoch())
		default:
			k.epoch = max(k.epoch, b.ProducerEpoch())
			if b.Transactional() && k.first < 0 {
				k.first, k.fenced = b.BaseOffset(), max(k.fenced, b.ProducerEpoch())
			}
		}
	}
	return k
}

// The state is at all times what the batches of the log say, also after batches were discarded and
// after a start from any checkpoint.
func TestTransactionsAgainstEveryBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s State
		s.MarkDurable(0)
		var log []record.Batch
		rp, durable, high := int64(0), int64(0), int64(0)
		lost := false // batches that pushed others out of the window are gone
		type checkpoint struct {
			state    []byte
			rp, high int64
		}
		kept := []checkpoint{{s.Append(nil, 0), 0, 0}}
		end := func() int64 { return int64(len(log)) }
		add := func(b record.Batch) { s.Add(b, now); log = append(log, b) }
		id := rapid.Int64Range(0, 3)
		t.Repeat(map[string]func(*rapid.T){
			"data": func(t *rapid.T) {
				id := id.Draw(t, "id")
				p, _ := s.Producer(id)
				seq := p.LastSequence + 1
				if rapid.Bool().Draw(t, "next epoch") {
					p.Epoch, seq = p.Epoch+1, 0
				}
				b := made(t, end(), id, p.Epoch, seq, 1)
				if rapid.IntRange(0, 3).Draw(t, "plain") > 0 {
					b = in(t, end(), id, p.Epoch, seq)
				}
				if _, dup, err := s.Check(b, permit(&s, id)); err == nil && !dup {
					add(b)
				} else if want := replayed(log, id); dup || want.first < 0 || b.Transactional() && b.ProducerEpoch() == want.fenced {
					t.Fatalf("refused: %v, %v; the log says %+v", dup, err, want)
				}
			},
			"offsets of a group": func(t *rapid.T) {
				id := id.Draw(t, "id")
				p, _ := s.Producer(id)
				b := in(t, end(), id, p.Epoch, -1)
				if _, dup, err := s.Check(b, permit(&s, id)); err != nil || dup {
					t.Fatalf("refused: %v, %v", dup, err)
				}
				add(b)
			},
			"marker": func(t *rapid.T) {
				id := id.Draw(t, "id")
				p, _ := s.Producer(id)
				kind := rapid.SampledFrom([]record.ControlType{record.Abort, record.Commit}).Draw(t, "kind")
				b := marker(end(), id, p.Epoch+rapid.Int16Range(0, 1).Draw(t, "bump"), kind,
					max(p.CoordinatorEpoch, 0)+rapid.Int32Range(-1, 1).Draw(t, "coordinator"))
				if _, dup, err := s.CheckMarker(b, Sender{Bumps: rapid.Bool().Draw(t, "strict")}); err == nil && !dup {
					add(b)
				}
			},
			"flush": func(t *rapid.T) {
				durable = rapid.Int64Range(durable, end()).Draw(t, "to")
				s.MarkDurable(durable)
			},
			"sync": func(*rapid.T) { rp = durable; s.MarkSynced() },
			"commit": func(t *rapid.T) {
				high = rapid.Int64Range(high, end()).Draw(t, "to")
			},
			"discard": func(t *rapid.T) {
				to := rapid.Int64Range(max(durable, high), end()).Draw(t, "to")
				log = log[:to]
				s.Cut(to)
				for len(kept) > 1 && kept[len(kept)-1].rp > to {
					kept = kept[:len(kept)-1]
				}
			},
			"checkpoint": func(*rapid.T) { kept = append(kept, checkpoint{s.Append(nil, rp), rp, high}) },
			"roll": func(t *rapid.T) { // the state at the end of the segments
				var c State
				if _, err := c.Decode(s.Append(nil, durable)); err != nil {
					t.Fatal(err)
				}
				same(t, &c, log[:durable], -1, true)
			},
			"crash": func(t *rapid.T) {
				c := kept[len(kept)-1]
				s = State{}
				if rest, err := s.Decode(c.state); err != nil || len(rest) > 0 {
					t.Fatalf("%d bytes left, %v", len(rest), err)
				}
				if rp, durable, high = c.rp, c.rp, c.high; rapid.Bool().Draw(t, "lost") {
					lost = true
					log = log[:rapid.Int64Range(max(rp, high), end()).Draw(t, "end")]
				}
				s.MarkDurable(rp)
				same(t, &s, log[:rp], -1, true)
				for _, b := range log[rp:] {
					s.Add(b, now)
				}
				kept = []checkpoint{c}
			},
			"": func(t *rapid.T) { same(t, &s, log, high, lost) },
		})
	})
}

// same fails unless a state is what the batches of a log say. high is -1 if the state does not know
// all transactions above the high watermark. If batches are missing, it may not know all that were
// sent outside of transactions.
func same(t *rapid.T, s *State, log []record.Batch, high int64, missing bool) {
	unstable, open := int64(math.MaxInt64), 0
	for id := range int64(4) {
		want := replayed(log, id)
		p := s.ids[id]
		if p == nil {
			if want.epoch >= 0 && (!missing || want.fenced >= 0) {
				t.Fatalf("producer %d is unknown, the log says %+v", id, want)
			}
			continue
		}
		got := p.now()
		if got.epoch = p.epoch(); missing && got.epoch < want.epoch && got.epoch >= want.fenced {
			got.epoch = want.epoch
		}
		if since := got.since; (since > 0) != (got.first >= 0) {
			t.Fatalf("producer %d: a transaction at %d began at %d", id, got.first, since)
		}
		if got.since = 0; got != want.transaction {
			t.Fatalf("producer %d: %+v, the log says %+v", id, got, want.transaction)
		}
		if want.first >= 0 {
			unstable = min(unstable, want.first)
			open++
		}
		for _, x := range want.spans {
			if x[1] >= high {
				unstable = min(unstable, x[0])
			}
		}
	}
	if s.opened != open {
		t.Fatalf("%d transactions are open, not %d", open, s.opened)
	}
	if high < 0 {
		return
	}
	before := s.NextDecided()
	if before >= high && s.FirstUnstable() != unstable {
		t.Fatalf("nothing is left to commit below %d, but the first unstable offset is %d, not %d", high, s.FirstUnstable(), unstable)
	}
	if s.Advance(high); s.FirstUnstable() != unstable {
		t.Fatalf("the first unstable offset below %d is %d, not %d", high, s.FirstUnstable(), unstable)
	}
}

// A producer with an open transaction, or with one that a batch is about to begin, is not
// forgotten.
func TestAnOpenTransactionIsNotForgotten(t *testing.T) {
	s := State{Limit: 2}
	s.Add(in(t, 0, 100, 0, 0), now)
	s.Add(made(t, 1, 101, 0, 0, 1), now)
	s.Guard(101)
	for id := range int64(50) {
		s.Add(made(t, 2+id, id, 0, 0, 1), now.Add(48*DefaultExpiry))
	}
	s.Expire(now.Add(96 * DefaultExpiry))
	if s.ids[100] == nil || s.ids[101] == nil {
		t.Errorf("of %d producers, those with a transaction are gone", s.Len())
	}
	s.DropGuards()
	s.Add(marker(60, 100, 0, record.Abort, 0), now)
	s.Advance(61)
	if s.Expire(now.Add(96 * DefaultExpiry)); s.Len() != 0 {
		t.Errorf("%d producers are held for nothing", s.Len())
	}
}

// A producer whose only batch is cut is gone, even if another batch of it waits for its guard.
func TestAGuardKeepsNoProducerOfACutLog(t *testing.T) {
	var s State
	s.MarkDurable(0)
	s.Add(made(t, 0, 1, 0, 0, 1), now)
	g := s.Guard(1)
	s.Cut(0)
	if s.Len() != 0 || s.Knows(1) {
		t.Errorf("%d producers are left", s.Len())
	}
	if _, _, err := s.Check(in(t, 0, 1, 0, 0), Permit{Guard: g}); !errors.Is(err, ErrUnverified) {
		t.Errorf("with a guard from before the cut: %v", err)
	}
}

// A log has a limited number of open transactions.
func TestTooManyTransactions(t *testing.T) {
	var s State
	for id := range int64(MaxOpen) {
		s.Add(in(t, id, id, 0, 0), now)
	}
	next := in(t, MaxOpen, MaxOpen, 0, 0)
	if _, _, err := s.Check(next, permit(&s, MaxOpen)); !errors.Is(err, ErrTooManyTransactions) {
		t.Error(err)
	}
	s.Add(marker(MaxOpen, 7, 0, record.Commit, 0), now)
	if _, _, err := s.Check(next, permit(&s, MaxOpen)); err != nil {
		t.Error(err)
	}
}

// A follower may get a marker whose record a compaction has removed.
func TestAnEmptiedMarkerEndsATransaction(t *testing.T) {
	var s State
	s.Add(in(t, 0, 1, 0, 0), now)
	b := marker(1, 1, 1, record.Abort, 4).Empty()
	s.Add(b, now)
	s.Advance(2)
	if p, _ := s.Producer(1); p.First != -1 || p.Epoch != 1 || p.CoordinatorEpoch != -1 || s.FirstUnstable() != math.MaxInt64 {
		t.Errorf("%+v, unstable from %d", p, s.FirstUnstable())
	}
}

// Complete takes over what a log no longer holds, but not what happened at or beyond the new end.
func TestCompleteTransactions(t *testing.T) {
	var whole, part State
	whole.MarkDurable(0)
	whole.Add(in(t, 0, 1, 0, 0), now)                  // open, its records are gone from the log
	whole.Add(marker(1, 2, 7, record.Commit, 4), now)  // a marker that is also gone
	whole.Add(marker(2, 3, 7, record.Commit, 4), now)  // and one of a producer that continues
	part.Add(in(t, 3, 3, 7, 0), now)                   //
	whole.Add(in(t, 3, 3, 7, 0), now)                  //
	whole.Add(marker(10, 4, 9, record.Commit, 4), now) // beyond the new end
	part.Complete(&whole, 10)
	for id, want := range map[int64]Producer{
		1: {ID: 1, LastSequence: 0, CoordinatorEpoch: -1}, 2: {ID: 2, Epoch: 7, LastSequence: -1, Last: -1, CoordinatorEpoch: 4, First: -1},
		3: {ID: 3, Epoch: 7, LastSequence: 0, Last: 3, CoordinatorEpoch: 4, First: 3},
	} {
		got, ok := part.Producer(id)
		if got.Seen, got.Since = 0, 0; !ok || got != want {
			t.Errorf("producer %d: %+v, want %+v", id, got, want)
		}
	}
	if _, ok := part.Producer(4); ok || part.FirstUnstable() != 0 || part.opened != 2 {
		t.Errorf("%d producers, %d transactions are open, the first at %d", part.Len(), part.opened, part.FirstUnstable())
	}
}

// The bytes of a producer with transactions do not change unnoticed, and those of one without are
// what they always were.
func TestEncodingOfTransactions(t *testing.T) {
	var s State
	s.Add(in(t, 5, 258, 3, 0), now)
	s.Add(marker(6, 258, 4, record.Commit, 9), now)
	s.Add(in(t, 7, 1, 0, -1), now)
	const text = "02000000" +
		"0201000000000000" + "0400" + "0068e5cf8b010000" + "80" +
		"09000000" + "ffffffffffffffff" + "0000000000000000" + "0600000000000000" + "01" + "01000000" +
		"0500000000000000" + "0600000000000000" +
		"0100000000000000" + "0000" + "0068e5cf8b010000" + "80" +
		"ffffffff" + "0700000000000000" + "0068e5cf8b010000" + "ffffffffffffffff" + "ff" + "00000000"
	if got := hex.EncodeToString(s.Append(nil, 100)); got != text {
		t.Errorf("encoded as\n%s, want\n%s", got, text)
	}
	b, _ := hex.DecodeString(text)
	var c State
	if rest, err := c.Decode(b); err != nil || len(rest) > 0 || !bytes.Equal(c.Append(nil, 100), b) {
		t.Errorf("%d bytes left, %v", len(rest), err)
	}
	for cut := range len(b) {
		if rest, err := c.Decode(b[:cut]); err == nil || c.Len() != 0 || c.FirstUnstable() != math.MaxInt64 {
			t.Fatalf("%d bytes are enough: %d left", cut, len(rest))
		}
	}
}

// The state has the aborted transactions since the recovery point, without those whose markers were
// discarded.
func TestAbortedTransactions(t *testing.T) {
	var s State
	s.MarkDurable(0)
	s.Add(in(t, 0, 1, 0, 0), now)
	s.Add(in(t, 1, 2, 0, 0), now)
	s.Add(in(t, 2, 3, 0, 0), now)
	s.Add(marker(3, 2, 1, record.Abort, 0), now)
	s.Add(marker(4, 1, 1, record.Commit, 0), now)
	s.Add(marker(5, 4, 1, record.Abort, 0), now) // of a producer without a transaction
	s.MarkDurable(6)
	s.Add(marker(6, 3, 1, record.Abort, 0), now)
	first := txnindex.Entry{Producer: 2, First: 1, Last: 3, Stable: 0}
	second := txnindex.Entry{Producer: 3, First: 2, Last: 6, Stable: 7}
	check := func(what string, from, end int64, want ...txnindex.Entry) {
		t.Helper()
		if got := s.Aborted(from, end); !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	check("all", 0, 9, first, second)
	check("a part", 0, 6, first)
	check("the rest", 4, 9, second)
	s.Cut(6)
	check("a discarded marker", 0, 9, first)
	held := s.Aborted(0, 9)
	s.Add(marker(6, 3, 1, record.Commit, 0), now)
	s.Add(in(t, 7, 3, 1, 0), now)
	s.Add(marker(8, 3, 2, record.Abort, 0), now)
	if check("another marker in its place", 0, 9, first, txnindex.Entry{Producer: 3, First: 7, Last: 8, Stable: 9}); held[0] != first {
		t.Errorf("what a reader holds became %+v", held)
	}
	if s.MarkSynced(); s.LastAborted() != 8 {
		t.Errorf("the last one ends at %d", s.LastAborted())
	}
	check("those below the recovery point are in the segments", 0, 9, txnindex.Entry{Producer: 3, First: 7, Last: 8, Stable: 9})
	s.MarkDurable(9)
	s.MarkSynced()
	if check("all of them", 0, 9); s.LastAborted() != -1 {
		t.Errorf("the last one ends at %d", s.LastAborted())
	}
}
