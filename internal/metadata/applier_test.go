package metadata_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openStore(t *testing.T, history int) *raftstore.Store {
	t.Helper()
	s := solestore.Open(t, raftstore.Options{FS: vfs.Memory(), Dir: "/m", Log: zap.NewNop(), History: history})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// addTopic creates the i-th topic and returns the revision.
func addTopic(t *testing.T, s metadata.Store, i int) int64 {
	t.Helper()
	id, name := [16]byte{byte(i + 1)}, fmt.Sprintf("t%d", i)
	part := metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}
	rev, err := s.Txn(context.Background(), metadata.Txn{Put: []metadata.KV{
		{Key: metadata.NameKey(name), Value: metadata.Name{Topic: name, ID: id}.Encode()},
		{Key: metadata.TopicKey(id), Value: metadata.TopicRecord{Name: name, Partitions: 1}.Encode()},
		{Key: metadata.PartitionKey(id, 0), Value: part.Encode()},
	}})
	must.OK(t, err)
	return rev
}

func start(t *testing.T, a *metadata.Applier, s metadata.Store) {
	t.Helper()
	must.OK(t, a.Start(context.Background(), s))
	t.Cleanup(a.Stop)
}

func wait(t *testing.T, a *metadata.Applier, version int64) {
	t.Helper()
	must.OK(t, a.WaitFor(context.Background(), version))
}

func names(topics []*metadata.Topic) []string {
	var list []string
	for _, t := range topics {
		list = append(list, t.Name)
	}
	return list
}

// I16, and the order that the replica manager relies on: subscribers have applied a version before
// any reader sees it.
func TestSubscribersRunInOrderBeforeTheImageIsVisible(t *testing.T) {
	s := openStore(t, 0)
	addTopic(t, s, 0)
	addTopic(t, s, 1)
	a := metadata.NewApplier(zap.NewNop())
	var calls []string
	for _, who := range []string{"first", "second"} {
		a.Subscribe(who, func(_ context.Context, prev, next *metadata.Image, d *metadata.Delta) error {
			if a.Image() != prev || prev.Version() >= next.Version() {
				t.Errorf("%s: version %d is visible while %d follows %d", who, a.Image().Version(), next.Version(), prev.Version())
			}
			calls = append(calls, fmt.Sprint(who, prev.Version(), next.Version(), names(d.Created)))
			return nil
		})
	}
	start(t, a, s)
	if v := a.Image().Version(); v != 2 {
		t.Fatalf("version %d right after Start, want 2", v)
	}
	wait(t, a, addTopic(t, s, 2))
	want := []string{"first0 2 [t0 t1]", "second0 2 [t0 t1]", "first2 3 [t2]", "second2 3 [t2]"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}

// A subscriber that fails gets what it lacks with the next change, and after a pause without one.
// The others are not held up, and one line of the log says it.
func TestASubscriberThatFailsGetsWhatItLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		s := openStore(t, 0)
		a := metadata.NewApplier(zap.New(core))
		fails, seen, others := 3, []string(nil), 0
		a.Subscribe("broken", func(_ context.Context, prev, next *metadata.Image, d *metadata.Delta) error {
			seen = append(seen, fmt.Sprint(prev.Version(), next.Version(), names(d.Created)))
			if fails--; fails >= 0 {
				return errors.New("disk on fire")
			}
			return nil
		})
		a.Subscribe("next", func(context.Context, *metadata.Image, *metadata.Image, *metadata.Delta) error {
			others++
			return nil
		})
		addTopic(t, s, 0)
		begun := time.Now()
		start(t, a, s)
		if l := a.Lacking(); len(l) != 1 || l[0].Part != "broken" || l[0].Applied != 0 || !l[0].Since.Equal(begun) || l[0].Err == nil {
			t.Errorf("it lacks %+v", l)
		}
		wait(t, a, addTopic(t, s, 1))
		for len(a.Lacking()) > 0 {
			time.Sleep(time.Second)
		}
		wait(t, a, addTopic(t, s, 2))
		want := []string{"0 1 [t0]", "0 2 [t0 t1]", "0 2 [t0 t1]", "0 2 [t0 t1]", "2 3 [t2]"}
		if !slices.Equal(seen, want) || others != 3 {
			t.Errorf("calls %q, want %q; the next subscriber was called %d times", seen, want, others)
		}
		if n := logs.FilterMessageSnippet("subscriber failed").Len(); n != 1 || logs.FilterMessageSnippet("all changes again").Len() != 1 {
			t.Errorf("%d errors logged; %v", n, logs.All())
		}
	})
}

// One that always fails is called again after each pause, and Lacking has its newest error.
func TestASubscriberThatAlwaysFailsLacksTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, 0)
		a := metadata.NewApplier(zap.NewNop())
		calls := 0
		a.Subscribe("broken", func(context.Context, *metadata.Image, *metadata.Image, *metadata.Delta) error {
			calls++
			return fmt.Errorf("attempt %d", calls)
		})
		begun := time.Now()
		start(t, a, s)
		wait(t, a, addTopic(t, s, 0))
		time.Sleep(time.Minute)
		synctest.Wait()
		if l := a.Lacking(); len(l) != 1 || l[0].Err.Error() != fmt.Sprintf("attempt %d", calls) || calls < 50 || !l[0].Since.Equal(begun) {
			t.Errorf("%d calls; it lacks %+v", calls, l)
		}
		wait(t, a, addTopic(t, s, 1))
		a.Stop()
	})
}

// A transaction without a visible change still raises the version.
func TestVersionsGrowWithoutAVisibleChange(t *testing.T) {
	s := openStore(t, 0)
	a := metadata.NewApplier(zap.NewNop())
	a.Subscribe("none", func(context.Context, *metadata.Image, *metadata.Image, *metadata.Delta) error {
		t.Error("a subscriber was notified of an empty change")
		return nil
	})
	start(t, a, s)
	rev, err := s.Txn(context.Background(), metadata.Txn{Put: []metadata.KV{{Key: metadata.ProducerIDsKey,
		Value: metadata.ProducerIDs{Next: 1}.Encode()}}})
	must.OK(t, err)
	wait(t, a, rev)
}

// Changes that wait for the applier become one Image and one Delta, however many they are. A
// waiter for any one of them is answered.
func TestWaitingChangesBecomeOneImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const changes = 10_000
		s := openStore(t, 0)
		a := metadata.NewApplier(zap.NewNop())
		release := make(chan struct{})
		var calls []string
		var events int
		a.Subscribe("slow", func(_ context.Context, prev, next *metadata.Image, d *metadata.Delta) error {
			calls = append(calls, fmt.Sprint(prev.Version(), next.Version()))
			if next.Version() == 2 {
				<-release
			}
			for _, c := range d.Changed {
				events += len(c.Partitions)
			}
			return nil
		})
		var finished []int64
		a.Finish(func(_ context.Context, version int64) error {
			finished = append(finished, version)
			return nil
		})
		first := addTopic(t, s, 0)
		start(t, a, s)
		addTopic(t, s, 1)
		synctest.Wait()
		var last int64
		for i := range int32(changes) {
			part := metadata.Partition{Leader: 1, LeaderEpoch: i, Replicas: []int32{1}, ISR: []int32{1}}
			var err error
			last, err = s.Txn(context.Background(), metadata.Txn{Put: []metadata.KV{
				{Key: metadata.PartitionKey([16]byte{1}, 0), Value: part.Encode()}}})
			must.OK(t, err)
		}
		close(release)
		wait(t, a, last-5)
		wait(t, a, last)
		got := a.Image().Partition(metadata.TopicPartition{Topic: [16]byte{1}})
		if got.LeaderEpoch != changes-1 || got.Revision != last || a.Image().Version() != last {
			t.Errorf("version %d shows %+v, want version %d", a.Image().Version(), got, last)
		}
		// The store keeps a part of the history only: what is beyond it comes as a difference.
		if len(calls) > 8 || events > 8 || !slices.Equal(finished, []int64{last - 5, last}) {
			t.Errorf("after version %d: calls %v with %d changed partitions, finished %v", first, calls, events, finished)
		}
		a.Stop()
		_ = s.Close()
	})
}

// A slow subscriber costs no memory: the missed changes arrive as one difference.
func TestSlowApplierCatchesUpInOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, 4)
		addTopic(t, s, 0)
		a := metadata.NewApplier(zap.NewNop())
		release := make(chan struct{})
		var deltas []string
		a.Subscribe("slow", func(_ context.Context, prev, next *metadata.Image, d *metadata.Delta) error {
			deltas = append(deltas, fmt.Sprint(prev.Version(), next.Version(), names(d.Created), names(d.Deleted)))
			if next.Version() == 2 {
				<-release
			}
			return nil
		})
		start(t, a, s)
		addTopic(t, s, 1)
		synctest.Wait()
		for i := 2; i < 12; i++ {
			addTopic(t, s, i)
		}
		id := [16]byte{1}
		last, err := s.Txn(context.Background(),
			metadata.Txn{Delete: []string{metadata.TopicKey(id), metadata.PartitionKey(id, 0), metadata.NameKey("t0")}})
		must.OK(t, err)
		close(release)
		wait(t, a, last)
		want := []string{"0 1 [t0] []", "1 2 [t1] []", "2 13 [t2 t3 t4 t5 t6 t7 t8 t9 t10 t11] [t0]"}
		if !slices.Equal(deltas, want) {
			t.Errorf("deltas %q, want %q", deltas, want)
		}
		wait(t, a, addTopic(t, s, 20)) // and it follows again
		a.Stop()
		_ = s.Close()
	})
}

func TestWaitForEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, 0)
		a := metadata.NewApplier(zap.NewNop())
		start(t, a, s)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := a.WaitFor(ctx, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a version that never appears: %v", err)
		}
		waited := make(chan error)
		go func() { waited <- a.WaitFor(context.Background(), 5) }()
		synctest.Wait()
		a.Stop()
		if err := <-waited; !errors.Is(err, metadata.ErrClosed) || !errors.Is(a.Err(), metadata.ErrClosed) {
			t.Errorf("a stopped applier: %v", err)
		}
		a.Stop()
		_ = s.Close()
	})
}

// Data that this version can't read must not be skipped: the applier stops, logs an error, and
// keeps showing the last complete image.
func TestUnreadableDataEndsTheApplier(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	s := openStore(t, 0)
	a := metadata.NewApplier(zap.New(core))
	start(t, a, s)
	rev := addTopic(t, s, 0)
	wait(t, a, rev)
	bad, err := s.Txn(context.Background(), metadata.Txn{Put: []metadata.KV{{Key: metadata.ClusterKey, Value: []byte(`{"v":99}`)}}})
	must.OK(t, err)
	<-a.Done()
	if err := a.WaitFor(context.Background(), bad); !errors.Is(err, metadata.ErrNewerVersion) {
		t.Errorf("waiting for a version that cannot be read: %v", err)
	}
	if a.Image().Version() != rev || logs.FilterMessageSnippet("applier ended").Len() != 1 {
		t.Errorf("version %d, %d errors logged", a.Image().Version(), logs.Len())
	}
	if err := metadata.NewApplier(zap.NewNop()).Start(context.Background(), s); !errors.Is(err, metadata.ErrNewerVersion) {
		t.Errorf("a start with unreadable data: %v", err)
	}
}

func TestStartOnAClosedStoreFails(t *testing.T) {
	s := openStore(t, 0)
	must.OK(t, s.Close())
	a := metadata.NewApplier(zap.NewNop())
	if err := a.Start(context.Background(), s); !errors.Is(err, metadata.ErrClosed) {
		t.Errorf("%v", err)
	}
	a.Stop() // nothing runs
}

// A subscriber's background work delays neither later versions nor images. WaitFor waits only for
// that of its own version.
func TestWaitForWaitsForBackgroundWorkOfItsVersion(t *testing.T) {
	s := openStore(t, 0)
	a := metadata.NewApplier(zap.NewNop())
	slow, failed := make(chan struct{}), errors.New("disk on fire")
	a.Finish(func(ctx context.Context, version int64) error {
		switch version {
		case 2:
			select {
			case <-slow:
			case <-ctx.Done():
				return ctx.Err()
			}
		case 3:
			return failed
		}
		return nil
	})
	start(t, a, s)
	wait(t, a, addTopic(t, s, 0))
	second := addTopic(t, s, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.WaitFor(ctx, second) }()
	third, fourth := addTopic(t, s, 2), addTopic(t, s, 3)
	wait(t, a, fourth)
	if a.Image().Topic("t1") == nil {
		t.Error("the image waits for a disk")
	}
	if err := a.WaitFor(context.Background(), third); !errors.Is(err, failed) {
		t.Errorf("what failed: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("work that takes too long: %v", err)
	}
	close(slow)
	wait(t, a, second)
}
