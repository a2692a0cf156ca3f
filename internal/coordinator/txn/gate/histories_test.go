package gate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// The histories of the design that end at the gate, by their numbers.

// 7: an append without asking the coordinator gets no marker ever.
func TestHistory07NothingIsAppendedBeforeTheYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.asked.answer = nil
		a, b := w.send(tv1, 0, 0), w.send(tv1, 0, 1)
		time.Sleep(patience / 2)
		synctest.Wait()
		if end := w.partitions[0].Ends().LogEnd; end != 0 || !a.waits() || !b.waits() {
			t.Fatalf("the log ends at %d before the answer", end)
		}
		w.reply(Answer{})
		a.wants(t, nil)
		b.wants(t, nil)
		w.wantStored(0, 7, 0, 1)
	})
}

// 8: verified; the client gives up and aborts; the marker; then the append. The batch must not be
// permitted again: its sender may have begun the next transaction, with the same epoch.
func TestHistory08AMarkerBetweenYesAndAppend(t *testing.T) {
	w := newWorld(t, 1)
	w.asked.answer = nil
	a, b := w.send(tv1, 0, 0), w.send(tv1, 0, 1)
	w.marker(0, tv1, record.Abort, 0)
	w.asked.answer = yes // for the next transaction
	w.reply(Answer{})    // for the one before
	a.wants(t, kerr.NotEnoughReplicas)
	b.wants(t, kerr.NotEnoughReplicas)
	w.wantStored(0, 7)
	w.wantEmpty()
	w.send(tv1, 0, 0).wants(t, nil)
	if n := w.asked.count(); n != 2 {
		t.Errorf("%d questions", n)
	}
}

// 8, with a coordinator that could not answer at first.
func TestHistory08AMarkerWhileTheGatePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.asked.answer = refuses(kerr.CoordinatorLoadInProgress)
		a, b := w.send(tv1, 0, 0), w.send(tv1.at(1), 0, 0)
		w.marker(0, tv1, record.Abort, 0)
		w.asked.mu.Lock()    // the gate is asking again
		w.asked.answer = yes // for the next transaction
		w.asked.mu.Unlock()
		a.wants(t, kerr.NotEnoughReplicas)
		b.wants(t, nil) // a newer producer
		w.wantStored(0, 7, 0)
		w.wantEmpty()
	})
}

// With an epoch for each transaction the batches are asked about again, and keep their order.
func TestHistory08TheOrderIsKeptWhenAskedAgain(t *testing.T) {
	w := newWorld(t, 1)
	w.marker(0, tv2.at(4), record.Commit, 5)
	w.asked.answer = nil
	w.send(tv2.at(5), 0, 0) // the batches line up behind it
	var all []*sent
	for seq := range int32(5) {
		all = append(all, w.send(tv2.at(4), 0, seq))
	}
	w.reply(Answer{Err: kerr.ProducerFenced})
	w.awaitQuestions(2)
	w.reply(Answer{CoordinatorEpoch: 4})
	w.awaitQuestions(3)
	w.reply(Answer{CoordinatorEpoch: 5})
	for _, s := range all {
		s.wants(t, nil)
	}
	w.wantStored(0, 7, 0, 1, 2, 3, 4)
	w.wantEmpty()
}

// 9: the add is answered; EndTxn bumps; the marker has e+1; then the append with e.
func TestHistory09AMarkerWithTheNextEpoch(t *testing.T) {
	w := newWorld(t, 1)
	w.asked.answer = func(int, Question) Answer {
		w.marker(0, tv2.at(1), record.Abort, 0)
		return Answer{}
	}
	w.send(tv2, 0, 0).wants(t, storage.ErrInvalidProducerEpoch)
	w.wantStored(0, 7)
	w.wantEmpty()
}

// 10: add and EndTxn reach the coordinator together, EndTxn first: the add is fenced.
func TestHistory10AnAddAfterTheEnd(t *testing.T) {
	w := newWorld(t, 1)
	w.asked.answer = refuses(kerr.ProducerFenced)
	w.send(tv2, 0, 0).wants(t, kerr.ProducerFenced)
	w.wantStored(0, 7)
	w.wantEmpty()
}

// 11: the add is answered, but the batch has left: a marker for a partition without data.
func TestHistory11TheBatchNeverComes(t *testing.T) {
	w := newWorld(t, 1)
	w.asked.answer = nil
	s := w.send(tv2, 0, 0)
	s.entry.Overdue()
	s.wants(t, replica.ErrTimedOut)
	w.wantEmpty()
	w.reply(Answer{})
	w.marker(0, tv2.at(1), record.Abort, 0)
	w.wantStored(0, 7)
	w.asked.answer = yes
	w.send(tv2, 0, 0).wants(t, storage.ErrInvalidProducerEpoch)
	w.send(tv2.at(1), 0, 0).wants(t, nil)
}

// 12: an abort's marker reaches a partition that knows nothing of the producer; its first batch
// comes after it.
func TestHistory12AMarkerBeforeTheFirstBatch(t *testing.T) {
	w := newWorld(t, 1)
	w.asked.answer = nil
	early, late := w.send(tv1, 0, 0), w.send(tv1, 0, 1)
	w.marker(0, tv1, record.Abort, 3)
	w.reply(Answer{CoordinatorEpoch: 3}) // from before the marker
	early.wants(t, kerr.NotEnoughReplicas)
	late.wants(t, kerr.NotEnoughReplicas)
	w.wantStored(0, 7)
	w.asked.answer = func(int, Question) Answer { return Answer{CoordinatorEpoch: 3} }
	w.send(tv1, 0, 0).wants(t, nil) // in the next transaction
	w.wantStored(0, 7, 0)
}

// 13: the gate asks again although the coordinator has permitted the partition before.
func TestHistory13AnEndedTransactionIsNoProof(t *testing.T) {
	w := newWorld(t, 1)
	w.send(tv1, 0, 0).wants(t, nil)
	w.marker(0, tv1, record.Abort, 0)
	w.asked.answer = refuses(kerr.TransactionAbortable)
	w.send(tv1, 0, 1).wants(t, kerr.TransactionAbortable)
	w.wantStored(0, 7, 0)
}

// 21: a cut-off coordinator permits from memory; its successor has written a marker.
func TestHistory21APermitOfAnEarlierCoordinator(t *testing.T) {
	for _, from := range []Producer{tv1, tv2} {
		w := newWorld(t, 1)
		w.marker(0, from, record.Commit, 5)
		w.asked.answer = func(n int, _ Question) Answer { return Answer{CoordinatorEpoch: int32(4 + n)} }
		if s := w.send(from, 0, 0); from.Bumps {
			s.wants(t, nil)
		} else {
			s.wants(t, kerr.NotEnoughReplicas)
			w.send(from, 0, 0).wants(t, nil)
		}
		if n := w.asked.count(); n != 2 {
			t.Errorf("%d questions", n)
		}
	}
}

// 36: a doubled first batch of epoch e arrives in e+1.
func TestHistory36ADoubledFirstBatch(t *testing.T) {
	w := newWorld(t, 1)
	w.send(tv2, 0, 0).wants(t, nil)
	w.marker(0, tv2.at(1), record.Commit, 0)
	w.send(tv2.at(1), 0, 0).wants(t, nil)
	w.send(tv2, 0, 0).wants(t, storage.ErrInvalidProducerEpoch)
	w.wantStored(0, 7, 0, 0)
	w.wantEmpty()
}

// 37: batch 1 overtakes batch 0 while 0 waits at the gate. Here batches arrive at every stage of
// the queue, five in flight.
func TestHistory37NoBatchOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.marker(0, tv2, record.Commit, 5)
		w.asked.answer = func(n int, _ Question) Answer {
			switch n % 3 {
			case 0:
				return Answer{Err: kerr.ConcurrentTransactions}
			case 1:
				return Answer{CoordinatorEpoch: 4} // outdated
			}
			return Answer{CoordinatorEpoch: 5}
		}
		var want []int32
		for epoch := range int16(4) {
			from := tv2.at(epoch)
			var all []*sent
			for seq := range int32(10) {
				want, all = append(want, seq), append(all, w.send(from, 0, seq))
				if seq >= 4 {
					all[seq-4].wants(t, nil)
				}
			}
			for _, s := range all {
				s.wants(t, nil)
			}
			w.marker(0, from.at(epoch+1), record.Commit, 5)
		}
		w.wantStored(0, 7, want...)
		w.wantEmpty()
	})
}

// 37: a batch that arrives while the first one is in the log's queue, without offsets, lines up.
func TestHistory37TheFirstIsStillWithoutOffsets(t *testing.T) {
	w := newWorld(t, 1)
	free := w.stick(0)
	first := w.send(tv2, 0, 0) // its append is behind the one that sticks
	second := w.send(tv2, 0, 1)
	if second.entry == nil || w.gate.Waiting() != 1 {
		t.Fatalf("the second one passes; %d wait", w.gate.Waiting())
	}
	free()
	first.wants(t, nil)
	second.wants(t, nil)
	w.wantStored(0, 7, 0, 1)
	if n := w.asked.count(); n != 1 {
		t.Errorf("%d questions", n)
	}
	w.wantEmpty()
}

// 38: batch 0 times out at the gate, 1 stays: it must not be stored without 0.
func TestHistory38TheFirstBatchTimesOut(t *testing.T) {
	w := newWorld(t, 1)
	w.asked.answer = nil
	first, second := w.send(tv2, 0, 0), w.send(tv2, 0, 1)
	first.entry.Overdue()
	first.wants(t, replica.ErrTimedOut)
	w.reply(Answer{})
	second.wants(t, storage.ErrOutOfOrderSequence)
	w.wantStored(0, 7)
	w.wantEmpty()
	w.asked.answer = yes
	w.send(tv2, 0, 0).wants(t, nil)
	w.send(tv2, 0, 1).wants(t, nil)
	w.wantStored(0, 7, 0, 1)
}

// 39: producers that do not wait for the coordinator are not delayed by those that do.
func TestHistory39OthersDoNotWait(t *testing.T) {
	w := newWorld(t, 1)
	other := tv2
	other.ID = 7 + shards // in the same shard
	w.send(other, 0, 0).wants(t, nil)
	w.asked.answer = nil
	s := w.send(tv2, 0, 0)
	w.send(other, 0, 1).wants(t, nil)
	if !s.waits() {
		t.Fatal("not asked")
	}
	w.reply(Answer{})
	s.wants(t, nil)
}

// 40: 10,000 transactions begin and no coordinator answers. All of it ends with the requests.
func TestHistory40TenThousandTransactionsBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		w.asked.answer = nil
		const n = 10_000
		var all []*sent
		for i := range n {
			from := tv2
			from.ID = int64(i)
			all = append(all, w.send(from, i%4, 0))
		}
		if w.gate.Waiting() != n || w.asked.count() != n {
			t.Fatalf("%d wait, %d questions", w.gate.Waiting(), w.asked.count())
		}
		for _, s := range all[:n/2] {
			s.entry.Overdue()
			s.wants(t, replica.ErrTimedOut)
		}
		for range n / 2 {
			w.reply(Answer{})
		}
		if w.gate.Waiting() != n/2 {
			t.Fatalf("%d wait", w.gate.Waiting())
		}
		for range n / 2 {
			w.reply(Answer{})
		}
		for i, s := range all[n/2:] {
			s.wants(t, nil)
			if i > 0 && s.calls != 1 {
				t.Fatal("called twice")
			}
		}
		w.wantEmpty()
	})
}

// stick blocks the goroutine that commits to a partition until free is called.
func (w *world) stick(partition int) (free func()) {
	w.t.Helper()
	stuck, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a := &replica.Append{LeaderEpoch: -1, Acks: replica.AcksAll, Permit: producers.Permit{},
		Batches: plainBatch(w.t), Done: func(*replica.Append) { close(done) },
		Assigned: func(*replica.Append) { close(stuck); <-release }}
	go func() {
		var batch groupcommit.Batch
		w.partitions[partition].Append(a, &batch)
		batch.HandOff()
	}()
	<-stuck
	return func() { close(release); <-done }
}

func plainBatch(t testing.TB) record.Accepted {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{})
	b.Append(1, nil, []byte("plain"), nil)
	bytes, err := b.Build()
	must(t, err)
	return record.Accepted{Bytes: bytes, Batches: 1, Records: 1}
}

// 37: the transaction is open, but a batch that lined up before is not yet in the log's queue: the
// next one lines up behind it.
func TestHistory37TheRestIsNotPassedOnYet(t *testing.T) {
	w := newWorld(t, 2)
	w.asked.answer = nil
	turn := w.turn(tv2)
	var batch groupcommit.Batch
	first := []*sent{w.add(turn, 0, 0, &batch), w.add(turn, 1, 0, &batch)}
	turn.Ask()
	second := w.send(tv2, 1, 1)
	// The goroutine with the answer gets stuck in partition 0, before it comes to partition 1
	// again.
	stuck, release := make(chan struct{}), make(chan struct{})
	bad := w.send(tv2, 0, 5)
	done := bad.append.Done
	bad.append.Done = func(a *replica.Append) { close(stuck); <-release; done(a) }
	answered := make(chan struct{})
	go func() { w.reply(Answer{}); close(answered) }()
	<-stuck
	first[1].wants(t, nil)
	third := w.send(tv2, 1, 2)
	if third.entry == nil || !second.waits() || !third.waits() {
		t.Error("the third one passes")
	}
	close(release)
	<-answered
	for _, s := range []*sent{first[0], second, third} {
		s.wants(t, nil)
	}
	bad.wants(t, storage.ErrOutOfOrderSequence)
	w.wantStored(1, 7, 0, 1, 2)
	w.wantEmpty()
}

// A client that leaves it to the leader to add partitions begins a transaction in the epoch of the
// one before, whose commit is decided and whose marker is on its way. Its batch must not join that
// one: the marker would commit it.
func TestABatchDoesNotJoinTheTransactionBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.send(tv1, 0, 0).wants(t, nil)
		w.asked.answer = nil
		a := w.send(tv2, 0, 1)
		time.Sleep(patience / 2)
		synctest.Wait()
		if end := w.partitions[0].Ends().LogEnd; end != 1 || !a.waits() {
			t.Fatalf("the log ends at %d before the answer", end)
		}
		w.marker(0, tv1, record.Commit, 0)
		w.asked.answer = yes // for the transaction that begins
		w.reply(Answer{})
		a.wants(t, nil)
		if p, ok := w.partitions[0].Log().Producer(tv2.ID); !ok || p.First != 2 {
			t.Errorf("its transaction begins at %d, %t", p.First, ok)
		}
	})
}

// A gate that does not know who began an open transaction asks once, if the leader adds partitions.
func TestANewLeaderAsksOnceForAnOpenTransaction(t *testing.T) {
	for from, questions := range map[Producer]int{tv1: 1, tv2: 2} {
		w := newWorld(t, 1)
		w.send(from, 0, 0).wants(t, nil)
		w.gate.Close()
		w.gate = New(Options{Coordinators: w.asked})
		for seq := range int32(3) {
			w.send(from, 0, 1+seq).wants(t, nil)
		}
		if n := w.asked.count(); n != questions {
			t.Errorf("%+v: %d questions, want %d", from, n, questions)
		}
		w.wantStored(0, from.ID, 0, 1, 2, 3)
	}
}
