package gate

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
)

func TestOnlyTheFirstBatchOfATransactionIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, from := range []Producer{tv1, tv2} {
			w := newWorld(t, 2)
			for seq := range int32(4) {
				s := w.send(from, 1, seq)
				s.wants(t, nil)
				if (s.entry != nil) != (seq == 0) {
					t.Errorf("batch %d has entry %v", seq, s.entry)
				}
			}
			at := txn.AddedPartition{Partition: txn.Partition{Topic: "t", Index: 1}, TopicID: topicID}
			want := Question{ID: "tx", ProducerID: 7, Add: from.Bumps, Deadline: w.asked.times[0].Add(patience),
				Partitions: []txn.AddedPartition{at}}
			if got := w.asked.questions; len(got) != 1 || !slices.Equal(got[0].Partitions, want.Partitions) {
				t.Fatalf("questions %+v", got)
			}
			got := w.asked.questions[0]
			if got.Partitions, want.Partitions = nil, nil; got.ID != want.ID || got.ProducerID != want.ProducerID || got.Add != want.Add ||
				!got.Deadline.Equal(want.Deadline) {
				t.Fatalf("question %+v, want %+v", got, want)
			}
			w.wantEmpty()
			w.wantStored(1, 7, 0, 1, 2, 3)
			// The next transaction is asked again.
			next := from
			if from.Bumps {
				next.Epoch++
			}
			w.marker(1, next, record.Commit, 0)
			seq := int32(4)
			if from.Bumps {
				seq = 0
			}
			w.send(next, 1, seq).wants(t, nil)
			if n := w.asked.count(); n != 2 {
				t.Errorf("%d questions, want 2", n)
			}
		}
	})
}

func TestAFinalAnswerRefusesAllThatWait(t *testing.T) {
	for answer, want := range map[*kerr.Error]*kerr.Error{
		kerr.InvalidProducerIDMapping: kerr.InvalidProducerIDMapping,
		kerr.ProducerFenced:           kerr.ProducerFenced,
		kerr.InvalidProducerEpoch:     kerr.InvalidProducerEpoch,
		kerr.InvalidTxnState:          kerr.TransactionAbortable,
		kerr.TransactionAbortable:     kerr.TransactionAbortable,
	} {
		t.Run(answer.Message, func(t *testing.T) {
			w := newWorld(t, 1)
			w.asked.answer = nil
			a, b := w.send(tv1, 0, 0), w.send(tv1, 0, 1)
			if !a.waits() || !b.waits() || w.gate.Waiting() != 2 || w.asked.count() != 1 {
				t.Fatalf("%d wait after %d questions", w.gate.Waiting(), w.asked.count())
			}
			w.reply(Answer{Err: answer})
			a.wants(t, want)
			b.wants(t, want)
			w.wantEmpty()
			w.wantStored(0, 7)
		})
	}
}

// The second run of a queue has another producer epoch: it gets an answer of its own.
func TestEachEpochGetsItsOwnAnswer(t *testing.T) {
	w := newWorld(t, 1)
	w.asked.answer = nil
	old, late, now := w.send(tv2, 0, 0), w.send(tv2, 0, 1), w.send(tv2.at(1), 0, 0)
	w.reply(Answer{Err: kerr.ProducerFenced})
	old.wants(t, kerr.ProducerFenced)
	late.wants(t, kerr.ProducerFenced)
	w.awaitQuestions(2)
	if q := w.asked.questions[1]; q.Epoch != 1 {
		t.Fatalf("asked for epoch %d", q.Epoch)
	}
	w.reply(Answer{})
	now.wants(t, nil)
	w.wantEmpty()
}

func TestATemporaryAnswerIsAskedAgainUntilTheDeadline(t *testing.T) {
	for _, answer := range []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress,
		kerr.ConcurrentTransactions, kerr.UnknownTopicOrPartition, kerr.UnknownServerError} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.asked.answer = refuses(answer)
			began := time.Now()
			s := w.send(tv2, 0, 0)
			s.wants(t, kerr.NotEnoughReplicas)
			var pauses []time.Duration
			for i, at := range w.asked.times[1:] {
				pauses = append(pauses, at.Sub(w.asked.times[i]))
			}
			if want := []time.Duration{20e6, 40e6, 80e6, 160e6, 320e6, 500e6, 500e6}; !slices.Equal(pauses[:7], want) {
				t.Errorf("%v: pauses %v", answer, pauses)
			}
			if took := time.Since(began); took > patience || took < patience-mostPause {
				t.Errorf("%v: gave up after %v", answer, took)
			}
			w.wantEmpty()
		})
	}
}

func TestATemporaryAnswerIsFollowedByAYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.asked.answer = func(n int, _ Question) Answer {
			if n < 3 {
				return Answer{Err: kerr.NotCoordinator}
			}
			return Answer{}
		}
		a, b := w.send(tv2, 0, 0), w.send(tv2, 0, 1)
		a.wants(t, nil)
		b.wants(t, nil)
		w.wantStored(0, 7, 0, 1)
		w.wantEmpty()
	})
}

// A request that begins a transaction in 100 partitions asks once.
func TestOneRequestIsOneQuestion(t *testing.T) {
	w := newWorld(t, 100)
	turn := w.turn(tv2)
	var batch groupcommit.Batch
	var all []*sent
	for i := range w.partitions {
		all = append(all, w.add(turn, i, 0, &batch))
	}
	if w.asked.count() != 0 {
		t.Fatal("asked before the end of the turn")
	}
	turn.Ask()
	batch.HandOff()
	for i, s := range all {
		s.wants(t, nil)
		if got := w.asked.questions[0].Partitions[i].Index; got != int32(i) {
			t.Fatalf("partition %d at place %d", got, i)
		}
	}
	if n := w.asked.count(); n != 1 {
		t.Fatalf("%d questions", n)
	}
	turn.Ask()
	if n := w.asked.count(); n != 1 {
		t.Fatal("a turn without batches asks")
	}
	w.wantEmpty()
}

// The answers for the partitions of one question differ.
func TestEachPartitionHasItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.asked.answer = func(n int, q Question) Answer {
			if n > 0 { // only partition 2 is asked again
				if len(q.Partitions) != 1 || q.Partitions[0].Index != 2 {
					t.Errorf("question %+v", q)
				}
				return Answer{Partitions: []*kerr.Error{nil}}
			}
			return Answer{Partitions: []*kerr.Error{nil, kerr.TransactionAbortable, kerr.NotCoordinator}}
		}
		turn := w.turn(tv1)
		var batch groupcommit.Batch
		a, b, c := w.add(turn, 0, 0, &batch), w.add(turn, 1, 0, &batch), w.add(turn, 2, 0, &batch)
		turn.Ask()
		a.wants(t, nil)
		b.wants(t, kerr.TransactionAbortable)
		c.wants(t, nil)
		w.wantEmpty()
	})
}

// A coordinator that does not know one partition refuses all of them. The others must not wait for
// that one.
func TestAnUnknownPartitionConcernsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.asked.answer = func(_ int, q Question) Answer {
			for _, p := range q.Partitions {
				if p.Index == 1 {
					return Answer{Err: kerr.UnknownTopicOrPartition}
				}
			}
			return Answer{}
		}
		turn := w.turn(tv2)
		var batch groupcommit.Batch
		a, b, c := w.add(turn, 0, 0, &batch), w.add(turn, 1, 0, &batch), w.add(turn, 2, 0, &batch)
		began := time.Now()
		turn.Ask()
		a.wants(t, nil)
		c.wants(t, nil)
		if took := time.Since(began); took != firstPause {
			t.Errorf("the others waited for %v", took)
		}
		b.wants(t, kerr.NotEnoughReplicas)
		w.wantEmpty()
	})
}

func TestAQueueIsBounded(t *testing.T) {
	w := newWorld(t, 1)
	w.asked.answer = nil
	var all []*sent
	for seq := range int32(maxQueue) {
		all = append(all, w.send(tv2, 0, seq))
	}
	w.send(tv2, 0, maxQueue).wants(t, kerr.NotEnoughReplicas)
	w.reply(Answer{})
	for _, s := range all {
		s.wants(t, nil)
	}
	if got := w.stored(0, 7); len(got) != maxQueue || !slices.IsSorted(got) {
		t.Fatalf("stored %v", got)
	}
	w.wantEmpty()
}

// Who does not lead does not ask: the partition would be in the transaction for nothing.
func TestARefusedPartitionIsNotAsked(t *testing.T) {
	w := newWorld(t, 1)
	w.partitions[0].Delete()
	w.send(tv2, 0, 0).wants(t, replica.ErrDeleted)
	if n := w.asked.count(); n != 0 {
		t.Fatalf("%d questions", n)
	}
}

// A batch of an epoch that a marker has ended here is late, whatever the coordinator knows. It may
// know the producer by another id by now, and would not say that this one is fenced.
func TestALateBatchIsRefusedWithoutAQuestion(t *testing.T) {
	w := newWorld(t, 1)
	w.marker(0, tv2.at(1), record.Commit, 0)
	w.asked.answer = refuses(kerr.InvalidProducerIDMapping)
	w.send(tv2, 0, 0).wants(t, storage.ErrInvalidProducerEpoch)
	w.send(tv2, 0, 1).wants(t, storage.ErrInvalidProducerEpoch)
	if n := w.asked.count(); n != 0 {
		t.Fatalf("%d questions", n)
	}
	w.wantStored(0, 7)
	w.wantEmpty()
}

func TestAnotherIDDoesNotPassWithAnOpenTransaction(t *testing.T) {
	w := newWorld(t, 1)
	w.send(tv2, 0, 0).wants(t, nil)
	liar := tv2
	liar.TransactionalID = "other"
	w.asked.answer = nil
	bad, good := w.send(liar, 0, 1), w.send(tv2, 0, 1)
	w.reply(Answer{Err: kerr.InvalidProducerIDMapping})
	bad.wants(t, kerr.InvalidProducerIDMapping)
	good.wants(t, nil)
	if n := w.asked.count(); n != 2 {
		t.Fatalf("%d questions, want 2: the open transaction is the proof for its id", n)
	}
	w.wantEmpty()
}

func TestACoordinatorThatIsAlwaysOutdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.marker(0, tv2, record.Abort, 9)
		w.asked.answer = func(int, Question) Answer { return Answer{CoordinatorEpoch: 8} }
		w.send(tv2, 0, 0).wants(t, kerr.NotEnoughReplicas)
		var pauses []time.Duration
		for i, at := range w.asked.times[1:] {
			pauses = append(pauses, at.Sub(w.asked.times[i]))
		}
		if want := []time.Duration{0, 20e6, 40e6}; !slices.Equal(pauses, want) {
			t.Errorf("pauses %v", pauses)
		}
		w.wantStored(0, 7)
		w.wantEmpty()
		w.asked.answer = func(int, Question) Answer { return Answer{CoordinatorEpoch: 9} }
		w.send(tv2, 0, 0).wants(t, nil)
	})
}

func TestACloseEndsAllThatWait(t *testing.T) {
	w := newWorld(t, 2)
	w.send(tv2, 1, 0).wants(t, nil)
	w.asked.answer = nil
	a := w.send(tv2, 0, 0)
	w.gate.Close()
	a.wants(t, kerr.NotLeaderForPartition)
	w.send(tv2, 0, 0).wants(t, kerr.NotLeaderForPartition)
	w.send(tv2, 1, 1).wants(t, nil)
	w.reply(Answer{})
	w.wantStored(0, 7)
	w.wantEmpty()
}

// The first batch of a queue got its offsets on a goroutine that committed for others. Another
// goroutine passes the rest on, and a Close waits for it.
func TestACloseWaitsForTheGoroutineThatPassesBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.asked.answer = nil
		inside, leave := make(chan struct{}), make(chan struct{})
		a := &replica.Append{LeaderEpoch: -1, Acks: replica.AcksAll, Batches: batchOf(t, tv2, 0), Done: func(*replica.Append) {
			close(inside)
			<-leave
		}}
		turn := w.turn(tv2)
		q := turn.Append(w.partitions[0], "t", a, nil).queue
		turn.Ask()
		q.shard.mu.Lock()
		a.LeaderEpoch = 5 // the partition will refuse it
		q.round, q.granted = nil, tv2
		q.opened()
		q.shard.mu.Unlock()
		<-inside
		closed := make(chan struct{})
		go func() {
			w.gate.Close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while a batch is passed on")
		default:
		}
		close(leave)
		<-closed
	})
}

func TestTheHolderOfATransaction(t *testing.T) {
	w := newWorld(t, 1)
	if _, ok := w.gate.Holder(w.partitions[0], 7); ok {
		t.Fatal("a holder without a transaction")
	}
	w.send(tv2, 0, 0).wants(t, nil)
	if h, ok := w.gate.Holder(w.partitions[0], 7); !ok || h != (Holder{TransactionalID: "tx", ClientID: "client"}) {
		t.Fatalf("%+v %v", h, ok)
	}
	w.marker(0, tv2.at(1), record.Abort, 0)
	if h, ok := w.gate.Holder(w.partitions[0], 7); ok {
		t.Fatalf("%+v after the marker", h)
	}
}

func TestHoldersOfEndedTransactionsAreForgotten(t *testing.T) {
	w := newWorld(t, 1)
	for i := range int64(5 * minHolders) { // all of one shard
		from := tv2
		from.ID = i * shards
		w.send(from, 0, 0).wants(t, nil)
		w.marker(0, from.at(1), record.Commit, 0)
	}
	if n := len(w.gate.shards[0].holders.of); n > minHolders+1 {
		t.Errorf("%d holders are kept", n)
	}
}

func TestARefusalHasACause(t *testing.T) {
	for _, err := range []error{errRefused(tv1, kerr.InvalidProducerIDMapping), errRefused(tv1, kerr.ProducerFenced),
		errRefused(tv1, kerr.TransactionAbortable), errUnanswered(tv1, kerr.NotCoordinator), errOutdated(tv1, storage.ErrUnverified),
		errFull(tv1), errClosed(), errGone()} {
		var code *kerr.Error
		if !errors.As(err, &code) || len(err.Error()) < 40 {
			t.Errorf("%v", err)
		}
	}
}

// awaitQuestions waits until n questions were asked.
func (w *world) awaitQuestions(n int) {
	w.t.Helper()
	for begun := time.Now(); w.asked.count() < n; time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			w.t.Fatalf("%d questions, want %d", w.asked.count(), n)
		}
	}
}
