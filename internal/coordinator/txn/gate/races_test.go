package gate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/testing/replicatest"
	"github.com/chronik-io/chronik/internal/view"
)

// An expiry ends a batch at every stage, once.
func TestExpiryAtEveryStage(t *testing.T) {
	for name, expire := range map[string]func(*Entry){"overdue": (*Entry).Overdue, "expire": (*Entry).Expire} {
		t.Run(name, func(t *testing.T) {
			t.Run("asking", func(t *testing.T) {
				w := newWorld(t, 1)
				w.asked.answer = nil
				s := w.send(tv2, 0, 0)
				expire(s.entry)
				expire(s.entry)
				s.wants(t, replica.ErrTimedOut)
				w.reply(Answer{})
				w.wantStored(0, 7)
				w.wantEmpty()
			})
			t.Run("pausing", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 1)
					w.asked.answer = refuses(kerr.NotCoordinator)
					s := w.send(tv2, 0, 0)
					expire(s.entry)
					s.wants(t, replica.ErrTimedOut)
					w.wantEmpty()
					time.Sleep(time.Second)
					if n := w.asked.count(); n != 1 {
						t.Errorf("%d questions for nothing", n)
					}
				})
			})
			t.Run("behind another", func(t *testing.T) {
				w := newWorld(t, 1)
				w.asked.answer = nil
				a, b, c := w.send(tv1, 0, 0), w.send(tv1, 0, 1), w.send(tv1, 0, 2)
				expire(b.entry)
				b.wants(t, replica.ErrTimedOut)
				w.reply(Answer{})
				a.wants(t, nil)
				c.wants(t, storage.ErrOutOfOrderSequence)
				w.wantStored(0, 7, 0)
				w.wantEmpty()
			})
			t.Run("replicating", func(t *testing.T) {
				w := newWorld(t, 1)
				p := w.partitions[0]
				p.SetRole(replicatest.Role(p, 1, p.LeaderEpoch()+1, []int32{1, 2}, []int32{1, 2}))
				s := w.send(tv2, 0, 0)
				if s.entry == nil || !s.waits() {
					t.Fatal("it does not wait for the follower")
				}
				expire(s.entry)
				s.wants(t, replica.ErrTimedOut)
				w.wantEmpty()
			})
			t.Run("ended", func(t *testing.T) {
				w := newWorld(t, 1)
				s := w.send(tv2, 0, 0)
				s.wants(t, nil)
				expire(s.entry)
				s.entry.Leave()
			})
		})
	}
}

// A batch in the log's queue, without offsets, is canceled; those behind it advance.
func TestExpiryInTheLogsQueue(t *testing.T) {
	w := newWorld(t, 1)
	free := w.stick(0)
	a, b := w.send(tv2, 0, 0), w.send(tv2, 0, 1)
	a.entry.Overdue() // concerns other replicas only
	if !a.waits() {
		t.Fatal("timed out by the own log")
	}
	a.entry.Expire()
	a.wants(t, replica.ErrTimedOut)
	free()
	b.wants(t, storage.ErrOutOfOrderSequence)
	w.wantStored(0, 7)
	w.wantEmpty()
}

// Batches behind the one that begins the transaction wait for the log, as that one does, and not
// for the coordinator.
func TestWhatAnOpeningHoldsUpWaitsForTheLog(t *testing.T) {
	w := newWorld(t, 1)
	free := w.stick(0)
	a, b := w.send(tv2, 0, 0), w.send(tv2, 0, 1)
	for _, s := range []*sent{a, b} {
		if got := s.entry.Waits(nil); len(got) != 1 || got[0].Step != view.StepLog {
			t.Errorf("%+v", got)
		}
	}
	free()
	a.wants(t, nil)
	b.wants(t, nil)
	w.wantEmpty()
}

// An expiry that comes while a goroutine passes the batch to its partition has its effect
// afterwards.
func TestExpiryOnTheWayIntoThePartition(t *testing.T) {
	w := newWorld(t, 1)
	w.asked.answer = nil
	s := w.send(tv2, 0, 0)
	free := w.stick(0)
	q := s.entry.queue
	q.shard.mu.Lock()
	q.round, q.opening = nil, q.pop().attempt(producers.Permit{})
	try := q.opening
	q.shard.mu.Unlock()
	s.entry.Expire()
	if !s.waits() {
		t.Fatal("expired before the partition had it")
	}
	try.enter(nil)
	s.wants(t, replica.ErrTimedOut)
	free()
	w.wantStored(0, 7)
	w.wantEmpty()
}

// The mark of an expiry that comes while a batch is on its way is kept: the batch is not asked
// about again.
func TestExpiryMeetsAnOutdatedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.marker(0, tv2, record.Abort, 5)
		free := w.stick(0)
		s := w.send(tv2, 0, 0) // permitted by coordinator epoch 0
		s.entry.Overdue()
		free()
		s.wants(t, replica.ErrTimedOut)
		if n := w.asked.count(); n != 1 {
			t.Errorf("%d questions", n)
		}
		w.wantEmpty()
	})
}

func TestALeaverIsRemovedOnlyWhileItWaits(t *testing.T) {
	w := newWorld(t, 1)
	w.asked.answer = nil
	a, b := w.send(tv2, 0, 0), w.send(tv2, 0, 1)
	b.entry.Leave()
	b.wants(t, kerr.NetworkException)
	w.reply(Answer{})
	a.wants(t, nil)
	w.marker(0, tv2.at(1), record.Commit, 0)
	w.asked.answer = yes
	free := w.stick(0)
	c := w.send(tv2.at(1), 0, 0)
	c.entry.Leave()
	free()
	c.wants(t, nil)
	w.wantEmpty()
}

// Many producers at once, with every kind of answer, markers between answer and append, timeouts,
// and connections that end. Every batch ends once; what is acknowledged is stored, once, in order.
// Run with -race.
func TestStorm(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, seed) })
		})
	}
}

func storm(t *testing.T, seed uint64) {
	w := newWorld(t, 2)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	random := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	w.gate.coordinators = unreliable{w, random}
	var clients sync.WaitGroup
	acked := make([][2][]int32, 12)
	for i := range acked {
		clients.Go(func() {
			from := tv1
			from.ID = int64(i + 1)
			next := [2]int32{}
			for range 40 {
				acked[i] = stormRound(w, from, random, acked[i], &next)
				if random(2) == 0 {
					for p := range 2 {
						w.marker(p, from, record.Commit, 0)
					}
				}
			}
		})
	}
	clients.Wait()
	time.Sleep(time.Minute) // outdated questions end
	synctest.Wait()
	w.wantEmpty()
	total := 0
	for i := range acked {
		for p := range 2 {
			got := w.stored(p, int64(i+1))
			if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Errorf("producer %d, partition %d: stored %v", i+1, p, got)
			}
			for _, seq := range acked[i][p] {
				if !slices.Contains(got, seq) {
					t.Errorf("producer %d, partition %d: %d is acknowledged, but not stored", i+1, p, seq)
				}
			}
			total += len(acked[i][p])
		}
	}
	if total < 500 {
		t.Errorf("only %d batches passed", total)
	}
}

// stormRound sends up to five batches to both partitions, in order, waits for all of them, and
// repeats from the first one that failed.
func stormRound(w *world, from Producer, random func(int) int, acked [2][]int32, next *[2]int32) [2][]int32 {
	var flight [2][]*sent
	for range 1 + random(5) {
		for p := range 2 {
			s := w.send(from, p, next[p]+int32(len(flight[p])))
			flight[p] = append(flight[p], s)
			if s.entry == nil {
				continue
			}
			switch random(12) {
			case 0:
				go s.entry.Overdue()
			case 1:
				go s.entry.Expire()
			case 2:
				go s.entry.Leave()
			}
		}
	}
	for p := range flight {
		for _, s := range flight[p] {
			<-s.ended
		}
		for _, s := range flight[p] {
			if s.append.Err != nil {
				break
			}
			acked[p] = append(acked[p], next[p])
			next[p]++
		}
		// A batch that timed out may be stored all the same: its repetition is a duplicate.
	}
	return acked
}

// unreliable answers what it likes, at once or later.
type unreliable struct {
	w      *world
	random func(int) int
}

func (u unreliable) Ask(q Question, done func(Answer)) {
	answer := func() {
		switch u.random(8) {
		case 0:
			done(Answer{Err: kerr.NotCoordinator})
		case 1:
			done(Answer{Err: kerr.TransactionAbortable})
		case 2:
			from := tv1
			from.ID = q.ProducerID
			u.w.marker(int(q.Partitions[0].Index), from, record.Abort, 0)
			done(Answer{})
		default:
			done(Answer{})
		}
	}
	if u.random(2) == 0 {
		answer()
	} else {
		time.AfterFunc(time.Duration(u.random(50))*time.Millisecond, answer)
	}
}
