package cut

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var topic = [16]byte{7}

// state describes an image.
type state struct {
	brokers    map[int32]metadata.Liveness
	registered map[int32]int64 // revisions of registrations that are not 1
	partitions []metadata.Partition
}

// three are three brokers, of which each leads a partition in epoch 5.
func three() state {
	s := state{brokers: map[int32]metadata.Liveness{1: metadata.Active, 2: metadata.Active, 3: metadata.Draining},
		registered: map[int32]int64{}}
	for i := range int32(3) {
		all := []int32{1, 2, 3}
		s.partitions = append(s.partitions, metadata.Partition{Leader: i + 1, LeaderEpoch: 5, Replicas: all, ISR: all})
	}
	return s
}

func (s state) image(t testing.TB, version int64) *metadata.Image {
	t.Helper()
	var kvs []metadata.KV
	put := func(key string, value []byte, revision int64) {
		kvs = append(kvs, metadata.KV{Key: key, Value: value, ModRevision: revision})
	}
	for id, live := range s.brokers {
		put(metadata.BrokerKey(id), metadata.Broker{Incarnation: metadata.ID{byte(id)}}.Encode(), max(s.registered[id], 1))
		put(metadata.LivenessKey(id), metadata.BrokerState{Liveness: live}.Encode(), 2)
	}
	if n := int32(len(s.partitions)); n > 0 {
		put(metadata.NameKey("t"), metadata.Name{Topic: "t", ID: topic}.Encode(), 3)
		put(metadata.TopicKey(topic), metadata.TopicRecord{Name: "t", Partitions: n}.Encode(), 3)
	}
	for i, p := range s.partitions {
		put(metadata.PartitionKey(topic, int32(i)), p.Encode(), 3)
	}
	m, err := metadata.Load(kvs, version)
	must.OK(t, err)
	return m
}

func at(partition, epoch int32, end int64) replica.Cut {
	return replica.Cut{TopicPartition: metadata.TopicPartition{Topic: topic, Partition: partition}, Epoch: epoch, End: end}
}

// reports are those of three.
func reports() map[int32][]replica.Cut {
	return map[int32][]replica.Cut{1: {at(0, 5, 10)}, 2: {at(1, 5, 20)}, 3: {at(2, 5, 30)}}
}

// What has changed between the freeze and the mark makes a cut void, unless it does not matter.
func TestCutsThatBelongTogether(t *testing.T) {
	offline := func(c replica.Cut) replica.Cut {
		c.Offline = true
		return c
	}
	good := []Log{{at(0, 5, 10), 1}, {at(1, 5, 20), 2}, {at(2, 5, 30), 3}}
	for _, c := range []struct {
		what    string
		changed func(asked, marked *state, r map[int32][]replica.Cut)
		want    []Log // nil: void
	}{
		{"nothing", func(_, _ *state, _ map[int32][]replica.Cut) {}, good},
		{"a leader epoch", func(_, m *state, _ map[int32][]replica.Cut) { m.partitions[1].LeaderEpoch = 6 }, nil},
		{"a leader after it reported", func(_, m *state, _ map[int32][]replica.Cut) {
			m.partitions[1].Leader, m.partitions[1].LeaderEpoch = 3, 6
		}, nil},
		{"a leader between two reports, so that both have it", func(_, m *state, r map[int32][]replica.Cut) {
			m.partitions[1].Leader, m.partitions[1].LeaderEpoch = 3, 6
			r[3] = append(r[3], at(1, 6, 25))
		}, []Log{{at(0, 5, 10), 1}, {at(1, 6, 25), 3}, {at(2, 5, 30), 3}}},
		{"a leader between two reports, so that none has it", func(_, m *state, r map[int32][]replica.Cut) {
			m.partitions[1].Leader, m.partitions[1].LeaderEpoch = 1, 6
			r[2] = nil
		}, nil},
		{"the registration of a broker", func(_, m *state, _ map[int32][]replica.Cut) { m.registered[2] = 9 }, nil},
		{"a broker that joined", func(_, m *state, _ map[int32][]replica.Cut) { m.brokers[4] = metadata.Active }, nil},
		{"a broker that starts", func(_, m *state, _ map[int32][]replica.Cut) { m.brokers[4] = metadata.Starting }, good},
		{"a broker that was fenced", func(_, m *state, _ map[int32][]replica.Cut) { m.brokers[3] = metadata.Fenced }, nil},
		{"a partition was created, and none had it", func(a, _ *state, r map[int32][]replica.Cut) {
			a.partitions = a.partitions[:2]
			r[3] = nil
		}, []Log{{at(0, 5, 10), 1}, {at(1, 5, 20), 2}, {at(2, 5, 0), 3}}},
		{"a partition was created, and another leader reported it", func(a, _ *state, r map[int32][]replica.Cut) {
			a.partitions = a.partitions[:2]
			r[3], r[2] = nil, append(r[2], at(2, 4, 7))
		}, nil},
		{"a topic was deleted", func(_, m *state, _ map[int32][]replica.Cut) { m.partitions = nil }, []Log{}},
		{"a partition has no leader", func(a, m *state, r map[int32][]replica.Cut) {
			a.partitions[0].Leader, m.partitions[0].Leader, r[1] = -1, -1, nil
		}, []Log{{offline(at(0, 5, 0)), -1}, {at(1, 5, 20), 2}, {at(2, 5, 30), 3}}},
		{"a leader's log is offline", func(_, _ *state, r map[int32][]replica.Cut) { r[2][0] = offline(r[2][0]) },
			[]Log{{at(0, 5, 10), 1}, {offline(at(1, 5, 20)), 2}, {at(2, 5, 30), 3}}},
	} {
		asked, marked, r := three(), three(), reports()
		c.changed(&asked, &marked, r)
		image := marked.image(t, 20)
		got, err := judge(asked.image(t, 10), image, r)
		switch {
		case c.want == nil && !errors.Is(err, ErrVoid):
			t.Errorf("%s: %+v, %v", c.what, got, err)
		case c.want != nil && (err != nil || !slices.Equal(got.Logs, c.want) || got.Image != image):
			t.Errorf("%s: %+v, %v", c.what, got, err)
		}
		for i, p := range marked.partitions { // judge must not change the image
			if q := image.Topic("t").Partitions.At(int32(i)); q.Leader != p.Leader {
				t.Errorf("%s: the leader of %d is %d now", c.what, i, q.Leader)
			}
		}
	}
}

// fake is a broker that follows a script.
type fake struct {
	mu     sync.Mutex
	cuts   []replica.Cut
	fails  error
	hangs  bool
	thaws  bool // before it is asked whether it is frozen
	events *[]string
	id     replica.FreezeID
	frozen bool
	thawed int
}

func (f *fake) Freeze(ctx context.Context, id replica.FreezeID, revision int64) ([]replica.Cut, error) {
	if f.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id, f.frozen = id, revision == 10
	*f.events = append(*f.events, "freeze")
	return f.cuts, f.fails
}

func (f *fake) Frozen(_ context.Context, id replica.FreezeID) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*f.events = append(*f.events, "confirm")
	return f.frozen && !f.thaws && f.id == id, nil
}

func (f *fake) Thaw(id replica.FreezeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thawed++
}

// One attempt asks all brokers, marks, and asks them again. Whatever fails, the cut is void and all
// brokers are thawed in time.
func TestAnAttempt(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		what   string
		script func(f *fake)
		mark   error
		want   error
		last   string
	}{
		{"good", func(*fake) {}, nil, nil, "confirm"},
		{"a broker refuses", func(f *fake) { f.fails = failed }, nil, ErrVoid, "freeze"},
		{"a broker hangs", func(f *fake) { f.hangs = true }, nil, ErrVoid, "freeze"},
		{"the mark fails", func(*fake) {}, failed, failed, "mark"},
		{"a broker was thawed", func(f *fake) { f.thaws = true }, nil, ErrVoid, "confirm"},
		{"a leader changes", func(f *fake) { f.cuts = nil }, nil, ErrVoid, "confirm"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var events []string
			list := map[int32]*fake{}
			var mu sync.Mutex
			for id, cuts := range reports() {
				own := []string{}
				list[id] = &fake{cuts: cuts, events: &own}
			}
			c.script(list[2])
			begin := time.Now()
			x, err := Take(t.Context(), replica.FreezeID{Controller: 1, Attempt: 2}, three().image(t, 10),
				func(id int32) Participant { return list[id] }, func(context.Context) (func() (*metadata.Image, error), error) {
					mu.Lock()
					defer mu.Unlock()
					for _, f := range list {
						if !f.frozen || slices.Contains(*f.events, "confirm") {
							t.Errorf("%s: marked before all brokers were frozen, or after they were asked", c.what)
						}
						*f.events = append(*f.events, "mark")
					}
					return func() (*metadata.Image, error) { return three().image(t, 20), nil }, c.mark
				})
			if !errors.Is(err, c.want) || c.want == nil && (err != nil || len(x.Logs) != 3) || time.Since(begin) > patience {
				t.Errorf("%s: %+v, %v after %v", c.what, x, err, time.Since(begin))
			}
			for id, f := range list {
				if f.thawed != 1 {
					t.Errorf("%s: broker %d was thawed %d times", c.what, id, f.thawed)
				}
			}
			if events = *list[1].events; events[len(events)-1] != c.last {
				t.Errorf("%s: %v", c.what, events)
			}
		})
	}
}
