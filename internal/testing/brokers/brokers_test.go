package brokers

import (
	"fmt"
	"iter"
	"os"
	"strconv"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/tries"
)

// history runs one history with a seed, and judges it.
func history(t *testing.T, seed uint64, run func(w *world, c *clients)) {
	t.Helper()
	historyOf(t, seed, kind{}, run)
}

// historyOf is history of a kind.
func historyOf(t *testing.T, seed uint64, k kind, run func(w *world, c *clients)) {
	t.Helper()
	for i, problem := range problems(t, seed, k, run) {
		if i < 20 {
			t.Error(problem)
		}
	}
	if t.Failed() {
		t.Logf("to run it again: CHRONIK_SIM_SEED=%d CHRONIK_SIM_LOG=FILE go test -run '^%s' ./internal/testing/brokers", seed, t.Name())
	}
}

// problems runs one history and returns what contradicts the promises. If CHRONIK_SIM_LOG names a
// file, it writes what all brokers logged to it if there is something, or if CHRONIK_SIM_SEED is
// set.
func problems(t *testing.T, seed uint64, k kind, run func(w *world, c *clients)) (list []string) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, k)
		began := time.Now()
		if until(patience, w.allRun) != nil {
			w.problem("not all brokers serve")
		} else {
			c := newClients(w)
			if len(w.wrong()) == 0 {
				run(w, c)
			}
			c.judge()
			t.Logf("%+v: %d acks, %d records read, %d consumed, %d offsets, %d settings, %d topics, %d unclean elections in %v", k, c.acks,
				c.reads, c.consumed, c.offset.Last(), c.config.Last(), len(c.topics), c.unclean, time.Since(began))
			for _, g := range c.shares.groups {
				delivered, answered := g.Count()
				t.Logf("group %.10s: %d deliveries, %d answered acknowledgements, %d copies", g.Name, delivered, answered, c.shares.copies)
			}
			committed, aborted, unknown := c.payments.Count()
			t.Logf("%d transactions were committed, %d aborted, %d have no known outcome", committed, aborted, unknown)
		}
		list = w.wrong()
		if file := os.Getenv("CHRONIK_SIM_LOG"); file != "" && (len(list) > 0 || os.Getenv("CHRONIK_SIM_SEED") != "") {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err := os.WriteFile(fmt.Sprintf("%s.%d", file, seed), w.text.Bytes(), 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	return list
}

// Brokers are killed one after the other. The others continue, and nothing is lost.
func TestEachBrokerIsKilledOnce(t *testing.T) {
	history(t, 1, func(w *world, c *clients) {
		for id := int32(1); id <= 3; id++ {
			time.Sleep(2 * time.Second)
			w.kill(id)
			c.progress(10 * time.Second)
			w.start(id)
			c.inSync()
		}
	})
}

// A rolling restart and a replaced disk: clients with default settings see no error.
func TestRestartsWithDefaultClients(t *testing.T) {
	historyOf(t, 2, kind{strict: true}, func(w *world, c *clients) {
		for id := int32(1); id <= 3; id++ {
			w.stop(id)
			w.start(id)
			c.inSync()
		}
		w.stop(1)
		w.wipe(1)
		w.start(1)
		c.inSync()
	})
}

// A broker that is cut off from the others, but not from clients, acknowledges nothing that is
// lost, and sends clients to the others (50). When its session has ended, it refuses acks=1,
// whichever controllers it had before.
func TestABrokerThatIsCutOff(t *testing.T) {
	times := int32(tries.Some(9, 3))
	history(t, 16, func(w *world, c *clients) {
		for i := range times {
			id := 1 + i%3
			w.note("isolate %d", id)
			w.isolate(id)
			c.progress(10 * time.Second)
			time.Sleep(2 * controller.DefaultSessionTimeout)
			c.refusesAcksOfOne(id)
			w.net.Heal()
			c.inSync()
		}
	})
}

// A broker that coordinates transactions stops as with SIGSTOP until others have taken over, and
// continues: what it still believes and has on the way changes no transaction.
func TestCoordinatorsThatArePaused(t *testing.T) {
	history(t, 17, func(w *world, c *clients) {
		for id := int32(1); id <= 3; id++ {
			time.Sleep(2 * time.Second)
			w.note("pause %d", id)
			resume := w.pause(id, time.Hour)
			c.coordinatedWithout(id)
			resume()
			c.progress(10 * time.Second)
			time.Sleep(2 * controller.DefaultSessionTimeout)
			c.inSync()
		}
	})
}

// The power fails everywhere, of three brokers and of the only one. What was acknowledged was
// synced; profiles that acknowledge written records lose no more than they say. A kill loses
// nothing: there is no unclean election after it.
func TestThePowerFailsEverywhere(t *testing.T) {
	for _, brokers := range []int32{1, 3} {
		for _, profile := range []string{"", "interval", "os"}[:tries.Some(3, 1)] {
			t.Run(fmt.Sprintf("brokers %d, profile %q", brokers, profile), func(t *testing.T) {
				historyOf(t, 4, kind{profile: profile, brokers: brokers}, func(w *world, c *clients) {
					powerFails(w, c)
					w.mu.Lock()
					defer w.mu.Unlock()
					if brokers == 1 && profile != "" && len(w.elected) == 0 {
						t.Error("the broker does not say that acknowledged records may be lost")
					}
				})
			})
		}
	}
}

// powerFails is the history of two kills and three losses of power of all machines.
func powerFails(w *world, c *clients) {
	for i := range 5 {
		time.Sleep(2 * time.Second)
		for id := range w.size() {
			if i < 2 {
				w.kill(id + 1)
			} else {
				w.powerLoss(id+1, w.mode())
			}
		}
		w.heal()
		c.inSync()
	}
}

// Of a partition that permits it, a replica that is behind leads when the only one in sync is away.
// It says so, and nothing else is lost.
func TestAReplicaThatIsBehindIsElected(t *testing.T) {
	historyOf(t, 6, kind{unclean: true}, func(w *world, c *clients) {
		time.Sleep(2 * time.Second)
		isr := func() []int32 {
			for id := int32(1); id <= 3; id++ {
				if all, _ := c.state(id); all["moved"] != nil {
					return all["moved"][0]
				}
			}
			return nil
		}
		both := isr()
		if len(both) != 2 {
			w.problem("%v are in sync before there was a fault", both)
			return
		}
		w.kill(both[1])
		if until(patience, func() bool { return len(isr()) == 1 }) != nil {
			w.problem("%v remain in sync", isr())
		}
		time.Sleep(2 * time.Second)
		w.kill(both[0])
		w.start(both[1])
		if until(patience, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.unclean > 0 }) != nil {
			w.problem("no unclean election")
		}
		time.Sleep(2 * time.Second)
	})
}

// With one of three replicas left, acks=all is refused, and nothing that was acknowledged is lost
// when the one that stayed also dies.
func TestTwoOfThreeAreDown(t *testing.T) {
	history(t, 5, func(w *world, c *clients) {
		time.Sleep(2 * time.Second)
		w.kill(2)
		w.kill(3)
		time.Sleep(10 * time.Second)
		w.powerLoss(1, w.mode())
		w.start(2)
		w.start(3)
		c.progress(time.Minute) // clients take long to give up a machine that answers nothing
	})
}

// Random faults. CHRONIK_SIM_HISTORIES is the number of histories or how long they take,
// CHRONIK_SIM_SEED the seed of the first one; it alone runs if the number is not set.
func TestRandomFaults(t *testing.T) {
	for seed := range seeds(t, "CHRONIK_SIM_HISTORIES", tries.Some(5, 2)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			historyOf(t, seed, kindOf(seed), func(_ *world, c *clients) { c.walk() })
		})
	}
}

// The power fails at a call of the file system, and at another one while the broker recovers or
// serves again: each call that a broker makes under transactions may be the last. CHRONIK_SIM_CALLS
// is the number of histories or how long they take.
func TestThePowerFailsAtAnyCall(t *testing.T) {
	for seed := range seeds(t, "CHRONIK_SIM_CALLS", tries.Some(4, 1)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			historyOf(t, seed, kind{brokers: 1, busy: true}, func(w *world, _ *clients) {
				for range 8 {
					time.Sleep(time.Duration(w.random.Int64N(int64(2 * time.Second))))
					w.crashAtCall(1, 1+w.random.IntN(60), w.mode(), func() {})
				}
			})
		})
	}
}

// Histories that went wrong run again. The order in which goroutines run is not repeated, so a
// fault may stay hidden: the first one showed in every second run.
func TestHistoriesThatWentWrong(t *testing.T) {
	wrong := []struct {
		seed uint64
		what string
	}{
		{971511, "copies of dead letters had no content"},
		{3000007, "a leader lacked committed records, and stayed"},
		{3100060, "a broker waited for its activation for ever"},
	}
	for _, x := range wrong[:tries.Some(len(wrong), 1)] {
		t.Run(x.what, func(t *testing.T) {
			historyOf(t, x.seed, kindOf(x.seed), func(_ *world, c *clients) { c.walk() })
		})
	}
}

// seeds returns the seeds of a test's histories; variable bounds their number.
func seeds(t *testing.T, variable string, few int) iter.Seq[uint64] {
	t.Helper()
	first := uint64(1)
	if v := os.Getenv("CHRONIK_SIM_SEED"); v != "" {
		first, few = uint64(number(t, v)), 1
	}
	histories := tries.Of(t, variable, few)
	return func(yield func(uint64) bool) {
		for n := range histories {
			if !yield(first + uint64(n)) {
				return
			}
		}
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	must.OK(t, err)
	return n
}
