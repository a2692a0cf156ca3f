package broker

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Clients that each wait for their answer share syncs, and never wait for the 50 ms of their
// profile, since the journal asks how many producers are absent. One slow client among them does
// not change that. Only a sync and waiting take time here, so what has passed at the end but the
// syncs is the sum of all waits. A sync takes time because time passes only while nothing can run:
// a client that one sync has answered asks again before the next one ends, on however busy a
// machine. If syncs took no time, the scheduler would decide how many requests share one.
func TestAClosedLoopNeverWaitsForTheWindow(t *testing.T) {
	const clients, each, window, latency = 16, 40, 50 * time.Millisecond, time.Millisecond
	// If no client is slow, there is no wait except at the start; with a slow one, only until
	// arrivals have dried up.
	for name, most := range map[string]time.Duration{"alike": time.Millisecond, "one is slow": window / 10} {
		t.Run(name, func(t *testing.T) {
			slow := name != "alike"
			synctest.Test(t, func(t *testing.T) {
				disk := crashfs.New(1)
				n := newNode(t, func(o *nodeOptions) { o.fs, o.pipe = disk, true })
				id := n.topic(t, "t", 1, "chronik.durability.profile", "high")
				disk.SetSyncLatency(latency)
				began, before := time.Now(), disk.Syncs()
				var wg, straggler sync.WaitGroup
				var over atomic.Bool
				if slow {
					w := n.dial(t)
					straggler.Go(func() {
						defer w.Close()
						for !over.Load() {
							closedLoop(t, w, id, 1)
							time.Sleep(300 * time.Millisecond)
						}
					})
					time.Sleep(time.Millisecond) // it is known, and absent from now on
					began = time.Now()
				}
				for range clients {
					w := n.dial(t)
					wg.Go(func() {
						defer w.Close()
						closedLoop(t, w, id, each)
					})
				}
				wg.Wait()
				took, syncs := time.Since(began), disk.Syncs()-before
				over.Store(true)
				straggler.Wait()
				waited := took - time.Duration(syncs)*latency
				t.Logf("%d requests: %d syncs, %v, of which %v without one", clients*each, syncs, took, waited)
				if waited > most {
					t.Errorf("%d requests, one at a time by each of %d clients, waited %v", clients*each, clients, waited)
				}
				if syncs > clients*each/4 {
					t.Errorf("%d requests needed %d syncs", clients*each, syncs)
				}
			})
		})
	}
}

// closedLoop produces one record after the other.
func closedLoop(t testing.TB, w *wire, id [16]byte, n int) {
	for range n {
		req := produceRequest("", id, -1, plain(t, "x"))
		req.SetVersion(13)
		if err := w.send(req); err != nil {
			t.Error(err)
			return
		}
		resp, err := w.receive(req)
		if err != nil {
			t.Error(err)
			return
		}
		if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Errorf("%+v", p)
			return
		}
	}
}

// countingPolicy never waits and counts how often it is asked.
type countingPolicy struct{ n atomic.Int64 }

func (a *countingPolicy) Close(durability.Group) (bool, time.Duration) {
	a.n.Add(1)
	return true, 0
}

// setProfile alters a topic's profile by the API, as tools do.
func setProfile(t testing.TB, w *wire, topic, profile string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = "chronik.durability.profile", &profile
	res.Configs = append(res.Configs, c)
	req.Resources = append(req.Resources, res)
	if r := ask[*kmsg.IncrementalAlterConfigsResponse](t, w, 1, req).Resources[0]; r.ErrorCode != 0 {
		t.Fatalf("profile %s: %d %v", profile, r.ErrorCode, r.ErrorMessage)
	}
}

// A topic's profile is altered while clients produce to it, without a restart and without an error.
// From the first acknowledgement under a synced profile on, the power may fail at any time, and
// every acknowledged record is there, including earlier ones. One of the profiles is the embedding
// program's own, with a Policy.
func TestAProfileChangesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(1)
		policy := new(countingPolicy)
		own := durability.Profile{Name: "own", Doc: "a test's", Ack: durability.Synced, Sync: durability.SyncGroup, MaxWait: time.Second,
			Policy: policy}
		n := newNode(t, func(o *nodeOptions) { o.fs, o.pipe, o.profiles = disk, true, []durability.Profile{own} })
		id := n.topic(t, "t", 1)
		p, err := n.opt.Replicas.Partition(id, 0)
		must(t, err)
		var load sync.WaitGroup
		var over atomic.Bool
		for range 4 {
			w := n.dial(t)
			load.Go(func() {
				defer w.Close()
				for !over.Load() {
					closedLoop(t, w, id, 1)
					time.Sleep(time.Millisecond)
				}
			})
		}
		w := n.dial(t)
		defer w.Close()
		for _, name := range []string{"os", "sync", "interval", "own", "os", "low", "ultra", "interval", "sync"} {
			was, known := policy.n.Load(), p.Log().Config().Profile.Name
			setProfile(t, w, "t", name)
			if got := p.Log().Config().Profile; got.Name != name {
				t.Fatalf("the change from %s to %s is answered while %s is in force", known, name, got.Name)
			}
			synced := p.Log().Config().Profile.Ack == durability.Synced
			closedLoop(t, w, id, 1) // the first acknowledgement under it covers all earlier ones
			for range 5 {
				if e := p.Ends(); synced && p.Log().Ends().Durable < e.Ack {
					t.Fatalf("%s: %+v counts, durable is %d", name, e, p.Log().Ends().Durable)
				}
				time.Sleep(3 * time.Millisecond)
			}
			if grew := policy.n.Load() - was; name == "own" && grew == 0 || name != "own" && known != "own" && grew != 0 {
				t.Errorf("%s after %s: the policy was asked %d times", name, known, grew)
			}
			if !synced {
				continue
			}
			before := p.Ends().HighWatermark
			restarted := newNode(t, func(o *nodeOptions) {
				o.fs, o.pipe, o.profiles = disk.PowerLossImage(crashfs.DropUnsynced, 1), true, []durability.Profile{own}
			})
			if there := restarted.highWatermark(t, id); there < before {
				t.Errorf("%s: %d records are left of %d", name, there, before)
			}
		}
		over.Store(true)
		load.Wait()
	})
}

// An unknown profile is refused with the known ones, including the program's own.
func TestUnknownProfileIsRefusedWithTheKnownOnes(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) {
		o.profiles = []durability.Profile{{Name: "own", Ack: durability.Written, Sync: durability.SyncOS}}
	})
	n.topic(t, "t", 1)
	name := "fastest"
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	res.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "chronik.durability.profile", Value: &name}}
	req.Resources = append(req.Resources, res)
	r := ask[*kmsg.IncrementalAlterConfigsResponse](t, n.dial(t), 1, req).Resources[0]
	if r.ErrorCode == 0 || r.ErrorMessage == nil {
		t.Fatalf("%+v", r)
	}
	for _, known := range append(durability.Builtin(), durability.Profile{Name: "own"}) {
		if !strings.Contains(*r.ErrorMessage, known.Name) {
			t.Errorf("%q does not name %s", *r.ErrorMessage, known.Name)
		}
	}
}
