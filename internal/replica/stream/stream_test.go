package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/view"
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, fn func(t *testing.T)) { t.Helper(); synctest.Test(t, fn) }

// three starts three brokers, of which 1 leads and all are in sync.
func three(t testing.TB, parts int32) (w *world, leader *node) {
	w = newWorld(t, parts)
	w.assign(1, 1, 1, 2, 3)
	leader = w.start(1)
	w.start(2)
	w.start(3)
	return w, leader
}

// Followers copy what is appended; acks=all waits for them. 300 partitions share a connection.
func TestFollowersCopyALeadersLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, l := three(t, 300)
		defer w.close()
		var all []*outcome
		for i := range 600 {
			all = append(all, l.produce(int32(i%300), replica.AcksAll, 1+i%4, 100))
		}
		for _, d := range all {
			must(t, d.wait(t))
		}
		w.converge(1, 2, 3)
		for i := range int32(300) {
			if !w.nodes[2].partition(i).Compared() {
				t.Fatalf("the leader has not told the follower of partition %d what is committed", i)
			}
		}
		for id, want := range map[int32]view.Streams{1: {SentFrames: 1}, 2: {ReceivedFrames: 1, Connections: 1}} {
			n := w.nodes[id].streams.Stats()
			if (n.SentFrames > 0) != (want.SentFrames > 0) || (n.SentBytes > 600*100*2) != (want.SentFrames > 0) ||
				(n.ReceivedFrames > 0) != (want.ReceivedFrames > 0) || (n.ReceivedBytes > 600*100) != (want.ReceivedFrames > 0) ||
				n.Connections != want.Connections || n.Truncated+n.Refused > 0 {
				t.Errorf("broker %d counted %+v", id, n)
			}
		}
	})
}

// A follower that does not write takes no more than the window, and the other one is not delayed.
func TestASlowFollowerTakesNoMoreThanTheWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 4)
		defer w.close()
		sent, slow := 0, true
		w.fault = func(from, _ int32, kind frame.Kind, raw []byte) [][]byte {
			if from == 3 && kind == frame.DA {
				sent += len(raw)
			}
			if from == 3 && kind == frame.AK && slow {
				return nil
			}
			return [][]byte{raw}
		}
		w.options = func(o *Options) { o.Window = 64 << 10 }
		w.assign(1, 1, 1, 2)
		l := w.start(1)
		w.start(2)
		for i := range w.parts {
			must(t, l.produce(i, replica.AcksAll, 1, 10).wait(t))
		}
		w.start(3) // never caught up, so it does not join the ISR
		for i := range 200 {
			must(t, l.produce(int32(i%4), replica.AcksAll, 1, 10<<10).wait(t))
		}
		w.converge(1, 2)
		if sent < 32<<10 || sent > 64<<10+frame.MaxDataChunk+16<<10 { // the last frame may exceed the window
			t.Errorf("the slow follower was sent %d bytes", sent)
		}
		if l.streams.Stats().Waits == 0 {
			t.Error("no wait for the window is counted")
		}
		w.mu.Lock()
		w.fault = nil
		w.mu.Unlock()
		slow = false
		w.cutWires(0)
		w.converge(1, 2, 3) // it catches up
	})
}

// A follower that was away reads from the leader's disk what is no longer in memory, while another
// one receives what is appended.
func TestCatchUpBesideLiveFollowers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2)
		defer w.close()
		w.memory = 256 << 10
		w.options = func(o *Options) { o.Window, o.CatchUpRate = 1<<20, 20<<20 }
		w.assign(1, 1, 1, 2)
		l := w.start(1)
		w.start(2)
		for i := range 400 {
			must(t, l.produce(int32(i%2), replica.AcksAll, 1, 10<<10).wait(t))
		}
		if _, ok, err := l.partition(0).Log().ReadSpanMemory(0, 1); ok || err != nil {
			t.Fatalf("the first batch is in memory: %t, %v", ok, err)
		}
		w.start(3)
		for i := range 100 {
			must(t, l.produce(int32(i%2), replica.AcksAll, 1, 1<<10).wait(t))
		}
		w.converge(1, 2, 3)
	})
}

// The rates of copies are kept, those of the leader and of a follower, and only for the partitions
// that have one. What is appended meanwhile is not delayed.
func TestCopiesKeepTheirRates(t *testing.T) {
	const size = 400 * 10 << 10 / 4 // of each partition
	for _, c := range []struct {
		name           string
		leader, copies int64
		within         [2]time.Duration // until the limited partitions are copied
	}{
		{"no limit", 0, 0, [2]time.Duration{0, 2 * time.Second}},
		{"of the leader", 256 << 10, 0, [2]time.Duration{5 * time.Second, 16 * time.Second}},
		{"of the follower", 0, 256 << 10, [2]time.Duration{5 * time.Second, 16 * time.Second}},
		{"the lower one", 1 << 40, 256 << 10, [2]time.Duration{5 * time.Second, 16 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 4)
				defer w.close()
				w.memory = 256 << 10
				w.options = func(o *Options) {
					o.CopyRates = func(p *replica.Partition, follower int32) (leader, copies int64) {
						if follower != 3 || p.Log().ID().Partition%2 == 0 {
							return 0, 0
						}
						return c.leader, c.copies
					}
				}
				w.assign(1, 1, 1, 2)
				l := w.start(1)
				w.start(2)
				for i := range 400 {
					must(t, l.produce(int32(i%4), replica.AcksAll, 1, 10<<10).wait(t))
				}
				began := time.Now()
				f := w.start(3)
				copied := func(i int32) bool {
					p, err := f.manager.Partition(topic, i)
					return err == nil && p.Log().Ends().LogEnd >= 100
				}
				for !copied(0) || !copied(2) {
					time.Sleep(10 * time.Millisecond) // in virtual time
				}
				if d := time.Since(began); d > 2*time.Second {
					t.Errorf("partitions without a limit were copied after %v", d)
				}
				sent := time.Now()
				must(t, l.produce(1, replica.AcksAll, 1, 100).wait(t))
				if d := time.Since(sent); d > time.Second {
					t.Errorf("an append took %v", d)
				}
				for !copied(1) || !copied(3) {
					time.Sleep(10 * time.Millisecond)
				}
				if d := time.Since(began); d < c.within[0] || d > c.within[1] {
					t.Errorf("%d bytes of two partitions were copied after %v, want %v", size, d, c.within)
				}
				w.converge(1, 2, 3)
			})
		})
	}
}

// A limit that is raised applies at once, also to a copy that waits because of the lower one. Many
// partitions together also keep the limit, although each of them has only a little to copy.
func TestALimitThatChangesAppliesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const parts = 8
		w := newWorld(t, parts)
		defer w.close()
		w.memory = 256 << 10
		var rate atomic.Int64
		rate.Store(64 << 10)
		w.options = func(o *Options) {
			o.CopyRates = func(_ *replica.Partition, follower int32) (leader, copies int64) {
				if follower != 3 {
					return 0, 0
				}
				return rate.Load(), 0
			}
		}
		w.assign(1, 1, 1, 2)
		l := w.start(1)
		w.start(2)
		for i := range 40 * parts {
			must(t, l.produce(int32(i%parts), replica.AcksAll, 1, 10<<10).wait(t))
		}
		f := w.start(3)
		copied := func() (n int) {
			for i := range int32(parts) {
				if p, err := f.manager.Partition(topic, i); err == nil && p.Log().Ends().LogEnd >= 40 {
					n++
				}
			}
			return n
		}
		time.Sleep(10 * time.Second)
		if n := copied(); n > parts/2 {
			t.Errorf("%d partitions of 400 KiB were copied in 10 s at 64 KiB/s", n)
		}
		rate.Store(1)
		time.Sleep(time.Minute)
		if n := copied(); n == parts {
			t.Error("all was copied at one byte per second")
		}
		rate.Store(1 << 30)
		time.Sleep(5 * time.Second)
		if n := copied(); n != parts {
			t.Errorf("%d of %d partitions were copied after the limit was raised", n, parts)
		}
		w.converge(1, 2, 3)
	})
}

// The log start lies in the middle of a batch. A new follower begins with that batch, and moves its
// log start. DeleteRecords waits for followers.
func TestANewFollowerBeginsWithTheBatchOfTheLogStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		w.assign(1, 1, 1, 2)
		l := w.start(1)
		w.start(2)
		for range 5 {
			must(t, l.produce(0, replica.AcksAll, 10, 100).wait(t))
		}
		w.converge(1, 2)
		low, err := l.partition(0).DeleteRecords(t.Context(), 25)
		if err != nil || low != 25 {
			t.Fatalf("%d, %v", low, err)
		}
		if s := w.nodes[2].partition(0).Log().DurableStart(); s != 25 {
			t.Errorf("the follower begins at %d", s)
		}
		w.start(3)
		w.converge(1, 2, 3)
	})
}

// KIP-101 and KIP-279: logs that differ in several epochs become equal, and committed records stay.
func TestDivergedLogsBecomeEqual(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, l := three(t, 1)
		defer w.close()
		must(t, l.produce(0, replica.AcksAll, 3, 100).wait(t))
		epoch := int32(1)
		for range 3 {
			for _, id := range []int32{1, 2, 3} {
				epoch++
				w.isolate(true)
				w.assign(id, epoch, 1, 2, 3)
				must(t, w.nodes[id].produce(0, replica.AcksLeader, int(epoch), 100).wait(t))
				must(t, w.nodes[id].produce(0, replica.AcksLeader, 1, 100).wait(t))
			}
		}
		w.isolate(false)
		w.assign(2, epoch+1, 1, 2, 3)
		w.converge(2, 1, 3)
		must(t, w.nodes[2].produce(0, replica.AcksAll, 1, 100).wait(t))
		w.converge(2, 1, 3)
	})
}

// electShort lets broker 2 commit ten records, and starts broker 1, which has none of them. elect
// makes that the leader, while the two are cut off from one another.
func electShort(w *world, elect func()) {
	w.assign(2, 1, 2)
	w.start(2)
	must(w.t, w.nodes[2].produce(0, replica.AcksAll, 10, 100).wait(w.t))
	w.isolate(true)
	w.start(1)
	elect()
	w.isolate(false)
}

// shorterLeader elects a broker that lacks committed records. The other one keeps them, unless the
// election was an unclean one.
func shorterLeader(t testing.TB, broken rule) error {
	w := newWorld(t, 1)
	w.broken = broken
	defer w.close()
	electShort(w, func() { w.assign(1, 2, 1) })
	for range 10 {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	if e := w.nodes[2].partition(0).Ends(); e.LogEnd != 10 || e.HighWatermark != 10 {
		return fmt.Errorf("committed records were discarded: %+v", e)
	}
	s := w.nodes[2].streams
	if got, n := s.Stopped(), s.Stats(); len(got) != 1 || got[0].Leader != 1 || got[0].Ahead || n.Refused == 0 || n.Truncated != 0 {
		return fmt.Errorf("stopped %+v, %+v", got, n)
	}
	w.record(func(p *metadata.Partition) { p.LeaderEpoch, p.Unclean = 3, 3 })
	w.converge(1, 2)
	if got, n := s.Stopped(), s.Stats(); len(got) != 0 || n.Truncated != 10 || n.Connections == 0 {
		return fmt.Errorf("after an unclean election: stopped %+v, %+v", got, n)
	}
	return nil
}

func TestCommittedRecordsAreDiscardedOnlyAfterAnUncleanElection(t *testing.T) {
	bubble(t, func(t *testing.T) { must(t, shorterLeader(t, 0)) })
}

// A leader whose disk has lost committed records counts its log as damaged when a member of the ISR
// or the ELR still has them, and not when another replica has.
func TestALeaderThatLacksCommittedRecordsGivesWay(t *testing.T) {
	for name, sets := range map[string]struct{ isr, elr []int32 }{
		"in sync":  {isr: []int32{1, 2}},
		"eligible": {isr: []int32{1}, elr: []int32{2}},
		"neither":  {isr: []int32{1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 1)
				defer w.close()
				electShort(w, func() {
					w.record(func(p *metadata.Partition) { p.Leader, p.LeaderEpoch, p.ISR, p.ELR = 1, 2, sets.isr, sets.elr })
				})
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if e := w.nodes[2].partition(0).Ends(); e.LogEnd != 10 || e.HighWatermark != 10 {
					t.Errorf("committed records were discarded: %+v", e)
				}
				if flaw := w.nodes[1].partition(0).Log().Flaw(); (flaw != nil) != (name != "neither") {
					t.Errorf("what the leader reports of its log: %v", flaw)
				}
			})
		})
	}
}

// The leader hears it also if the connection breaks first.
func TestALeaderHearsWhatItLacksAfterABrokenConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		broken := make(chan struct{})
		var once sync.Once
		w.fault = func(from, _ int32, kind frame.Kind, raw []byte) [][]byte {
			lose := false
			if from == 2 && kind == frame.OF {
				once.Do(func() { lose = true; close(broken) })
			}
			if lose {
				return nil
			}
			return [][]byte{raw}
		}
		electShort(w, func() { w.assign(1, 2, 1, 2) })
		<-broken
		w.cutWires(2)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if w.nodes[1].partition(0).Log().Flaw() == nil {
			t.Error("the leader reports nothing")
		}
	})
}

// Metadata that were restored from an older copy may name a member that an unclean election had
// passed over: the leader has what was committed since, and stays.
func TestALeaderStaysAfterTheMetadataWereRestored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		electShort(w, func() {
			w.record(func(p *metadata.Partition) { p.Leader, p.LeaderEpoch, p.Unclean, p.ISR = 1, 5, 5, []int32{1} })
			must(t, w.nodes[1].produce(0, replica.AcksAll, 10, 100).wait(t))
			w.record(func(p *metadata.Partition) {
				p.LeaderEpoch, p.Unclean, p.ISR = 5+metadata.Gap([16]byte{1}), 0, []int32{1, 2}
			})
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if flaw := w.nodes[1].partition(0).Log().Flaw(); flaw != nil {
			t.Errorf("the leader reports %v", flaw)
		}
		if got := w.nodes[2].streams.Stopped(); len(got) != 1 {
			t.Errorf("stopped: %+v", got)
		}
	})
}

// A replica that has records of a later epoch than its leader does not follow, and says so.
func TestAReplicaOfALaterEpochStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		w.assign(1, 6, 1)
		w.start(1)
		must(t, w.nodes[1].produce(0, replica.AcksLeader, 1, 100).wait(t))
		w.stop(1, false)
		w.assign(2, 5, 1, 2) // metadata that were restored from an old copy
		w.start(1)
		w.start(2)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.nodes[1].streams.Stopped(); len(got) != 1 || !got[0].Ahead {
			t.Errorf("stopped: %+v", got)
		}
	})
}

// If it has the later epoch because it leads by now, it does not stop: RoleChanged follows.
func TestANewLeaderIsNotAhead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		w.assign(2, 5, 1, 2)
		w.start(1)
		w.start(2)
		must(t, w.nodes[2].produce(0, replica.AcksAll, 1, 100).wait(t))
		w.isolate(true)
		w.nodes[1].partition(0).Log().SetLeaderEpoch(6, true)
		w.isolate(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.nodes[1].streams.Stopped(); len(got) != 0 {
			t.Errorf("stopped: %+v", got)
		}
	})
}

// failingFollower lets a follower's journal fail once: what it takes back comes again.
func failingFollower(t testing.TB, broken rule) error {
	w := newWorld(t, 1)
	w.broken = broken
	defer w.close()
	disk := w.faulty(2)
	w.assign(1, 1, 1, 2)
	l := w.start(1)
	w.start(2)
	must(t, l.produce(0, replica.AcksAll, 1, 100).wait(t))
	failOnce(disk.errs)
	d := l.produce(0, replica.AcksAll, 1, 100)
	select {
	case <-d.ended:
		return d.Err
	case <-time.After(20 * time.Second):
		return errors.New("the record never comes again")
	}
}

func TestAFollowerWhoseJournalFailedReceivesAgain(t *testing.T) {
	bubble(t, func(t *testing.T) { must(t, failingFollower(t, 0)) })
}

// A follower whose disk fails once as its log start moves takes the start later, although the
// leader has nothing to send any more.
func TestAStartThatCouldNotMoveMovesLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		disk := w.faulty(2)
		w.assign(1, 1, 1, 2)
		l := w.start(1)
		n := w.start(2)
		must(t, l.produce(0, replica.AcksAll, 5, 100).wait(t))
		w.converge(1, 2)
		disk.errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Rename | errfs.Datasync, When: func(c errfs.Call) bool {
			return strings.Contains(c.Path, "checkpoint")
		}, Err: errors.New("the disk fails"), Count: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if low, err := l.partition(0).DeleteRecords(ctx, 3); low != 3 || err != nil {
			t.Errorf("start %d, %v; of the follower %d", low, err, n.partition(0).Log().DurableStart())
		}
	})
}

// A leader moves the start of its log, and another broker leads before that is durable. The former
// leader follows when the start of its log is decided: a log that begins above the new leader's is
// copied again. If its checkpoint failed, the start is made durable before.
func TestAFormerLeaderFollowsWithTheStartThatItsLogKeeps(t *testing.T) {
	for name, err := range map[string]error{"it is written late": nil, "it fails": errors.New("the disk fails")} {
		t.Run(name, func(t *testing.T) { formerLeaderFollows(t, err) })
	}
}

// formerLeaderFollows lets the checkpoint of a former leader hang, and end with an error.
func formerLeaderFollows(t *testing.T, err error) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		disk := w.faulty(1)
		w.assign(1, 1, 1, 2)
		former := w.start(1)
		w.start(2)
		must(t, former.produce(0, replica.AcksAll, 5, 100).wait(t))
		w.converge(1, 2)
		gate := make(chan struct{})
		disk.errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Rename | errfs.Datasync, Before: func(errfs.Call) { <-gate }, Err: err, Count: 1,
			When: func(c errfs.Call) bool { return strings.Contains(c.Path, "checkpoint") }})
		moved := make(chan struct{})
		go func() {
			defer close(moved)
			_, _ = former.partition(0).DeleteRecords(t.Context(), 3) // another broker leads when it ends
		}()
		synctest.Wait()
		w.assign(2, 2, 2)
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if e := former.partition(0).Log().Ends(); e.LogStart != 3 {
			t.Fatalf("the log of the former leader: %+v", e)
		}
		close(gate)
		<-moved
		w.converge(2, 1)
	})
}

func failOnce(errs *errfs.FS) {
	errs.Add(errfs.Rule{Ops: errfs.Datasync, When: func(c errfs.Call) bool { return strings.Contains(c.Path, "journal") },
		Err: errors.New("the disk fails"), Count: 1})
}

// A follower that registers again dials again, so that its acknowledgements count.
func TestAFollowerThatRegistersAgainDialsAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, l := three(t, 1)
		defer w.close()
		must(t, l.produce(0, replica.AcksAll, 1, 100).wait(t))
		w.set(metadata.BrokerKey(2), metadata.Broker{Incarnation: w.nodes[2].incarnation}.Encode())
		w.show()
		must(t, l.produce(0, replica.AcksAll, 1, 100).wait(t))
		w.converge(1, 2, 3)
	})
}

// A replica that the metadata assign to other brokers follows no longer. Its stream would keep the
// deleted log in memory, and try to subscribe it again and again.
func TestARemovedReplicaFollowsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		w.assign(1, 1, 1, 2)
		l := w.start(1)
		w.start(2)
		n := w.start(3)
		must(t, l.produce(0, replica.AcksAll, 10, 100).wait(t))
		w.converge(1, 2, 3)
		w.record(func(p *metadata.Partition) { p.Replicas = []int32{1, 2} })
		synctest.Wait()
		n.streams.mu.Lock()
		if len(n.streams.parts) > 0 || len(n.streams.followers[1].list()) > 0 {
			t.Error("it still follows")
		}
		n.streams.mu.Unlock()
		w.record(func(p *metadata.Partition) { p.Replicas = []int32{1, 2, 3} })
		w.show()
		w.converge(1, 2, 3)
	})
}

// What a former leader says about its stream does not end that from its successor: consumers read
// here as long as this replica follows.
func TestAFormerLeadersStreamEndsLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, l := three(t, 1)
		defer w.close()
		must(t, l.produce(0, replica.AcksAll, 5, 100).wait(t))
		n := w.nodes[2]
		x := n.streams.part(n.partition(0))
		old := x.following.Load()
		x.mu.Lock()
		slot := old.slot
		x.mu.Unlock()
		w.assign(3, 2, 1, 2, 3)
		must(t, w.nodes[3].produce(0, replica.AcksAll, 5, 100).wait(t))
		w.converge(3, 1, 2)
		old.from.mu.Lock()
		old.from.slots[slot] = old // its end is still on the way
		old.from.mu.Unlock()
		old.from.ended(frame.End{Slot: slot})
		time.Sleep(2 * time.Minute) // longer than a replica may be behind
		res, err := n.partition(0).Read(replica.ReadRequest{MaxBytes: 1 << 20, CurrentEpoch: -1, FetchedEpoch: -1, AnyReplica: true})
		if err != nil {
			t.Fatalf("a replica in sync does not serve consumers: %v", err)
		}
		res.Release()
	})
}
