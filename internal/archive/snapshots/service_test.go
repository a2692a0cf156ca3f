package snapshots

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/writer"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/objecttest"
	"github.com/chronik-io/chronik/internal/view"
)

// every is the configuration of a schedule.
func every(d time.Duration) func(*configdef.Archive) {
	return func(c *configdef.Archive) { c.Interval, c.Keep = d, 1000 }
}

// grown returns how many snapshots there are after a time, and how many calls they took.
func grown(w *world, d time.Duration) (snapshots, calls int) {
	n, c := len(w.numbers()), w.calls()
	time.Sleep(d)
	synctest.Wait()
	return len(w.numbers()) - n, w.calls() - c
}

// schedules are what can happen to one.
var schedules = map[string]func(t *testing.T){
	"interval": func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, every(5*time.Minute))
			w.append(0, 1)
			before := w.calls()
			defer w.run()() // from here on, the first snapshot may be taken
			time.Sleep(time.Second)
			synctest.Wait()
			if n, calls := len(w.numbers()), w.calls()-before; n != 1 || calls > 50 {
				t.Errorf("%d snapshots at once, %d calls", n, calls)
			}
			if n, calls := grown(w, time.Hour); n != 12 || calls > 12*40+100 { // with a collection
				t.Errorf("%d snapshots in an hour, %d calls", n, calls)
			}
			if n, calls := grown(w, 4*time.Minute); n != 0 || calls != 0 {
				t.Errorf("%d snapshots and %d calls before their time", n, calls)
			}
		})
	},
	"nothing to do": func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(c *configdef.Archive) { c.URL, c.Interval = "", time.Minute })
			defer w.run()()
			if n, calls := grown(w, 240*time.Hour); n != 0 || calls != 0 {
				t.Errorf("%d snapshots, %d calls", n, calls)
			}
		})
	},
	"no snapshots": func(t *testing.T) { // the metadata have never named what a deleted topic has left
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, every(0))
			left := format.Name{Kind: objects.Pack, Nonce: objects.NewNonce()}
			objecttest.Put(t, w.objects, prefix+left.String(), []byte("x"))
			defer w.run()()
			if n, calls := grown(w, time.Hour); n != 0 || calls > 20 {
				t.Errorf("%d snapshots, %d calls", n, calls)
			}
			if names := w.names(); len(names) > 0 {
				t.Errorf("these objects stay: %v", names)
			}
			if n, calls := grown(w, 240*time.Hour); n != 0 || calls > 10*20 {
				t.Errorf("%d snapshots, %d calls in ten days", n, calls)
			}
		})
	},
	"failures": func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, every(5*time.Minute))
			w.append(0, 1)
			full := w.objects.Add(faultstore.Rule{Ops: faultstore.Put, Err: errors.New("it is full")})
			defer w.run()()
			if n, calls := grown(w, 10*time.Minute+time.Second); n != 0 || calls > 21*40 {
				t.Errorf("%d snapshots, %d calls", n, calls)
			}
			if x := w.state(); x.Failures != 21 || !strings.Contains(x.LastError, "it is full") || x.LastFailureMs == 0 ||
				x.Running != nil {
				t.Errorf("%+v", x)
			}
			full.Off()
			if n, _ := grown(w, retryPause); n != 1 {
				t.Errorf("%d snapshots after the failures", n)
			}
			if x := w.state(); x.Failures != 0 || x.LastError != "" {
				t.Errorf("%+v", x)
			}
			if n, _ := grown(w, 5*time.Minute); n != 1 {
				t.Errorf("%d snapshots in an interval after the failures", n)
			}
		})
	},
	"a collection": func(t *testing.T) { // is not between a failed snapshot and the next one, but within a day
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, every(5*time.Minute))
			w.append(0, 1)
			fault := w.objects.Add(faultstore.Rule{Ops: faultstore.Put, Name: prefix + "index/", Err: errors.New("it is full")})
			defer w.run()()
			for range 47 {
				grown(w, 30*time.Minute)
				if at := w.meta.image().Collection(); at != 0 {
					t.Fatalf("a collection at revision %d between failures", at)
				}
			}
			grown(w, time.Hour)
			at := w.meta.image().Collection()
			fault.Off()
			grown(w, time.Hour)
			if now := w.meta.image().Collection(); at == 0 || at != now {
				t.Errorf("a collection at revision %d within a day of failures, and %d afterwards", at, now)
			}
			w.restorable()
		})
	},
	"a short interval": func(t *testing.T) { // is also that between failures
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, every(time.Second))
			w.objects.Add(faultstore.Rule{Ops: faultstore.Put, Err: errors.New("it is full")})
			defer w.run()()
			if grown(w, time.Minute+time.Millisecond); w.state().Failures != 61 {
				t.Errorf("%d failures", w.state().Failures)
			}
		})
	},
	"the clock": func(t *testing.T) {
		for what, c := range map[string]struct {
			shift       time.Duration
			least, most int
		}{
			"set back by an hour": {-time.Hour, 11, 12}, "set back by ten days": {-240 * time.Hour, 11, 12},
			"set back a little": {-time.Minute, 11, 12}, "set forward": {240 * time.Hour, 12, 13},
		} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, every(5*time.Minute))
				w.append(0, 1)
				defer w.run()()
				grown(w, 7*time.Minute)
				w.setClock(c.shift)
				if n, calls := grown(w, time.Hour); n < c.least || n > c.most || calls > 14*40+100 {
					t.Errorf("%s: %d snapshots in an hour, %d calls", what, n, calls)
				}
				w.meta.lead(2) // the next controller's clock may be another one
				w.setClock(c.shift)
				if n, _ := grown(w, time.Hour); n < c.least || n > c.most {
					t.Errorf("%s: %d snapshots in an hour of the next controller", what, n)
				}
			})
		}
	},
	"a node that does not lead": func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, every(5*time.Minute))
			w.append(0, 1)
			w.meta.lead(0)
			defer w.run()()
			if n, calls := grown(w, time.Hour); n != 0 || calls != 0 {
				t.Errorf("%d snapshots, %d calls", n, calls)
			}
			w.meta.lead(1)
			if n, _ := grown(w, 6*time.Minute); n != 2 {
				t.Errorf("%d snapshots", n)
			}
			w.meta.lead(0)
			if n, calls := grown(w, time.Hour); n != 0 || calls != 0 {
				t.Errorf("%d snapshots, %d calls", n, calls)
			}
			if _, err := w.s.State(); !errors.Is(err, controller.ErrNotController) {
				t.Error(err)
			}
		})
	},
	"partitions that no broker can read": func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, every(5*time.Minute))
			w.partition(metadata.TopicPartition{Topic: topicA}, -1)
			defer w.run()()
			grown(w, time.Second)
			if n := len(w.numbers()); n != 1 || w.meta.image().Snapshots()[0].Offline != 1 {
				t.Errorf("%d snapshots", n)
			}
		})
	},
}

// Snapshots of the schedule begin one interval after the other, whatever the clock does, and a
// service that waits calls nothing.
func TestASchedule(t *testing.T) {
	for what, test := range schedules {
		t.Run(what, test)
	}
}

var create = view.SnapshotAsk{Action: view.CreateSnapshot}

func mustAsk(t *testing.T, w *world, q view.SnapshotAsk, want int64) {
	t.Helper()
	if id, err := w.s.Ask(q); err != nil || id != want {
		t.Fatalf("%+v: id %d, %v; want %d", q, id, err, want)
	}
}

func refused(t *testing.T, w *world, q view.SnapshotAsk, want string) {
	t.Helper()
	if id, err := w.s.Ask(q); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v: id %d, %v; want %q", q, id, err, want)
	}
}

// held lets the service take a snapshot until release.
func held(w *world) (release func()) {
	wait := make(chan struct{})
	w.peers[1].change(func(p *peer) {
		p.answer = func(x writer.Progress) (writer.Progress, error) {
			<-wait
			return x, nil
		}
	})
	return func() { close(wait) }
}

// operators are what they may ask for, and what can happen then.
var operators = map[string]func(t *testing.T){
	"outcomes": func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.append(0, 1)
			defer w.run()()
			synctest.Wait()
			mustAsk(t, w, create, 1)
			mustAsk(t, w, create, 2)
			synctest.Wait()
			time.Sleep(time.Second)
			two := w.numbers()
			mustAsk(t, w, view.SnapshotAsk{Action: view.VerifySnapshot, Number: two[1]}, 3)
			synctest.Wait()
			mustAsk(t, w, view.SnapshotAsk{Action: view.DeleteSnapshot, Number: two[0]}, 4)
			synctest.Wait()
			refused(t, w, view.SnapshotAsk{Action: view.DeleteSnapshot, Number: two[0]}, "there is no snapshot")
			refused(t, w, view.SnapshotAsk{Action: view.VerifySnapshot}, "there is no snapshot 0; chronikctl snapshot list")
			refused(t, w, view.SnapshotAsk{Action: "melt"}, `action "melt" is not known`)
			w.partition(metadata.TopicPartition{Topic: topicA}, -1)
			mustAsk(t, w, create, 5)
			mustAsk(t, w, view.SnapshotAsk{Action: view.CreateSnapshot, AllowOffline: true}, 6)
			time.Sleep(time.Second)
			synctest.Wait()
			last := w.numbers()[1]
			want := []view.SnapshotOutcome{{ID: 1, Number: two[0]}, {ID: 2, Number: two[1]}, {ID: 3, Number: two[1]},
				{ID: 4, Number: two[0]},
				{ID: 5, Offline: true}, {ID: 6, Number: last}}
			x := w.state()
			for i := range x.Outcomes {
				if x.Outcomes[i].Offline {
					x.Outcomes[i].Error = ""
				}
			}
			if !slices.Equal(x.Outcomes, want) || x.Asked != 6 || x.Term != 1 || !slices.Equal(w.numbers(), []int64{two[1], last}) {
				t.Errorf("%+v; snapshots %v", x, w.numbers())
			}
			if w.meta.image().Snapshot(two[1]).Verified == 0 {
				t.Error("it was not verified")
			}
		})
	},
	"failures": func(t *testing.T) {
		for interval, want := range map[time.Duration]int{0: 1, time.Hour: 0} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, every(interval))
				defer w.run()()
				grown(w, time.Second)
				w.objects.Add(faultstore.Rule{Ops: faultstore.Put, Err: errors.New("it is full")})
				mustAsk(t, w, create, 1)
				synctest.Wait()
				if x := w.state(); x.Failures != want || len(x.Outcomes) != 1 || !strings.Contains(x.Outcomes[0].Error, "it is full") {
					t.Errorf("every %v: %+v", interval, x)
				}
			})
		}
	},
	"many": func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.append(0, 1)
			release := held(w)
			defer w.run()()
			synctest.Wait()
			mustAsk(t, w, create, 1)
			time.Sleep(time.Second)
			if x := w.state(); x.Running == nil || x.Running.Number == 0 || x.Running.SinceMs == 0 {
				t.Errorf("%+v", x)
			}
			for i := range int64(mostAsks) {
				mustAsk(t, w, create, i+2)
			}
			refused(t, w, create, "100 requests wait already; try again later")
			release()
			time.Sleep(time.Minute)
			if x := w.state(); len(x.Outcomes) != mostOutcomes || x.Outcomes[0].ID != 2 || x.Outcomes[99].ID != 101 || x.Running != nil {
				t.Errorf("%+v", x)
			}
		})
	},
	"another term": func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.append(0, 1)
			release := held(w)
			defer w.run()()
			synctest.Wait()
			mustAsk(t, w, create, 1)
			mustAsk(t, w, create, 2)
			time.Sleep(time.Second)
			w.meta.lead(2) // the service still works on the first request
			synctest.Wait()
			if id, err := w.s.Ask(create); !errors.Is(err, controller.ErrNotController) {
				t.Errorf("a request that the new term forgets has the id %d, %v", id, err)
			}
			if x, err := w.s.State(); !errors.Is(err, controller.ErrNotController) {
				t.Errorf("the state of the former term: %+v, %v", x, err)
			}
			release()
			time.Sleep(time.Second)
			if x := w.state(); x.Term != 2 || x.Asked != 0 || len(x.Outcomes) != 0 || x.Failures != 0 || x.Running != nil {
				t.Errorf("%+v", x)
			}
			mustAsk(t, w, create, 1)
			time.Sleep(time.Second)
			if x := w.state(); len(x.Outcomes) != 1 || x.Outcomes[0].Error != "" || len(w.numbers()) != 1 {
				t.Errorf("%+v; snapshots %v", x, w.numbers())
			}
		})
	},
	"refused": func(t *testing.T) {
		w := newWorld(t, func(c *configdef.Archive) { c.URL = "" })
		if _, err := w.s.Ask(create); !errors.Is(err, errNoStore) {
			t.Error(err)
		}
		w.meta.lead(0)
		if _, err := w.s.Ask(create); !errors.Is(err, controller.ErrNotController) {
			t.Error(err)
		}
	},
	"an older cluster": func(t *testing.T) { // is raised once, if all brokers can be
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			cluster := metadata.NewCluster(metadata.FormatID(cluster), [16]byte{3})
			cluster.FeatureLevel = metadata.SnapshotLevel - 1
			w.meta.put(metadata.KV{Key: metadata.ClusterKey, Value: cluster.Encode()})
			if _, err := w.take(); err == nil || err.Error() != "no level to raise" || len(w.peers[1].begun) != 0 {
				t.Errorf("%v", err)
			}
		})
	},
}

// Requests of operators are carried out in order, and each has an outcome.
func TestRequestsOfOperators(t *testing.T) {
	for what, test := range operators {
		t.Run(what, test)
	}
}
