package membership

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
)

func TestRequestsSurviveTheWire(t *testing.T) {
	tp := metadata.TopicPartition{Topic: [16]byte{1}, Partition: 7}
	q := &controller.RegisterRequest{
		Broker: 3, Member: 1 << 63, ClusterID: "c", Incarnation: [16]byte{9}, Seen: 12, Rack: "r",
		Dirs:      []controller.RegisterDir{{ID: [16]byte{4}, Format: 1, Clean: true, Finding: [16]byte{5}, Found: 5, Sequence: 1<<64 - 1}},
		Listeners: []metadata.Endpoint{{Listener: "default", Host: "::1", Port: 9092}},
		Features:  metadata.Features{Min: 1, Max: 2}, Lossy: []metadata.TopicPartition{tp}, Damaged: []metadata.TopicPartition{tp},
	}
	if got, err := decode[controller.RegisterRequest](encode(q)); err != nil || !reflect.DeepEqual(&got, q) {
		t.Errorf("a registration arrives as %+v, %v", got, err)
	}
	h := controller.Heartbeat{
		Broker: 3, Epoch: 7, Incarnation: [16]byte{9}, Sequence: 1<<64 - 1, Answered: 2, Applied: 8, Ready: true, Drain: true,
		Unable: []metadata.UnableDir{{ID: [16]byte{4}, Why: metadata.DirHung}}, Damaged: []metadata.TopicPartition{tp},
		Uncompared: true, UncomparedLogs: []metadata.TopicPartition{tp}, Unreached: []int32{4, 5},
	}
	wish := Wish{true, "ab"}
	if got, err := decode[heartbeat](encode(heartbeat{h, wish})); err != nil || !reflect.DeepEqual(got, heartbeat{h, wish}) {
		t.Errorf("a heartbeat arrives as %+v, %v", got, err)
	}
	a := controller.HeartbeatAnswer{Sequence: 5, Proven: 4, Lease: 3 * time.Second, Liveness: metadata.Draining, Shunned: []int32{4}}
	of := leaderInfo{1_700_000_000_000_001, "1.2"}
	if got, from, err := unpackAnswer(packAnswer(a, of)); err != nil || !reflect.DeepEqual(got, a) || from != of {
		t.Errorf("an answer arrives as %+v of %+v, %v", got, from, err)
	}
	p := packResign(3, 7, map[metadata.TopicPartition]int32{tp: 11})
	want := []controller.Resigned{{TopicPartition: tp, Epoch: 11}}
	if w, err := decode[resignation](p); err != nil || w.Broker != 3 || w.Epoch != 7 || !reflect.DeepEqual(w.list(), want) {
		t.Errorf("a resignation arrives as %+v, %v", w, err)
	}
}

// A peer's bytes never panic, and what is accepted means the same after another round.
func FuzzRequests(f *testing.F) {
	f.Add(encode(controller.RegisterRequest{Dirs: []controller.RegisterDir{{}}, Lossy: make([]metadata.TopicPartition, 2)}))
	unable := []metadata.UnableDir{{Why: metadata.DirLow}, {Why: metadata.DirFailed}}
	f.Add(encode(heartbeat{controller.Heartbeat{Unable: unable}, Wish{Vote: true}}))
	f.Add(packAnswer(controller.HeartbeatAnswer{Lease: time.Second}, leaderInfo{Wall: 1}))
	f.Add(encode(State{Name: "c", Seeds: "x", Generation: metadata.ID{1}}))
	f.Add(packResign(1, 2, map[metadata.TopicPartition]int32{{}: 3}))
	f.Add([]byte(`{"leaseMicros":9223372036854775807,"state":200}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		if q, err := decode[controller.RegisterRequest](p); err == nil {
			again, err := decode[controller.RegisterRequest](encode(q))
			if err != nil || len(again.Lossy) != len(q.Lossy) || again.Seen != q.Seen || !reflect.DeepEqual(again.Dirs, q.Dirs) {
				t.Errorf("%+v became %+v, %v", q, again, err)
			}
		}
		if h, err := decode[heartbeat](p); err == nil {
			again, err := decode[heartbeat](encode(h))
			if err != nil || again.Wish != h.Wish || again.Sequence != h.Sequence || !reflect.DeepEqual(again.Unable, h.Unable) {
				t.Errorf("%+v became %+v, %v", h, again, err)
			}
		}
		if a, _, err := unpackAnswer(p); err == nil && (a.Lease < 0 || a.Lease > time.Hour || a.Liveness > metadata.Drained) {
			t.Errorf("accepted %+v", a)
		}
		if s, err := decode[State](p); err == nil {
			if again, err := decode[State](encode(s)); err != nil || !bytes.Equal(encode(again), encode(s)) {
				t.Errorf("%+v became %+v, %v", s, again, err)
			}
		}
		if w, err := decode[resignation](p); err == nil {
			_ = w.list()
		}
	})
}

// A later version may add fields to each message, and to what it contains.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	more := func(p []byte) []byte { return bytes.ReplaceAll(p, []byte("{"), []byte(`{"later":[1,"x"],`)) }
	q := &controller.RegisterRequest{Broker: 3, ClusterID: "c", Dirs: []controller.RegisterDir{{ID: [16]byte{4}}}}
	got, err := decode[controller.RegisterRequest](more(encode(q)))
	if err != nil || got.Broker != 3 || !reflect.DeepEqual(got.Dirs, q.Dirs) {
		t.Errorf("a registration: %+v, %v", got, err)
	}
	h := controller.Heartbeat{Broker: 3, Epoch: 7, Unable: []metadata.UnableDir{{ID: [16]byte{4}, Why: metadata.DirHung}}}
	if got, err := decode[heartbeat](more(encode(heartbeat{Heartbeat: h}))); err != nil || !reflect.DeepEqual(got.Heartbeat, h) {
		t.Errorf("a heartbeat: %+v, %v", got, err)
	}
	a := controller.HeartbeatAnswer{Sequence: 5, Lease: time.Second}
	if got, _, err := unpackAnswer(more(packAnswer(a, leaderInfo{Wall: 1}))); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("an answer: %+v, %v", got, err)
	}
	r := bytes.Replace(packResign(3, 7, nil), []byte("{"), []byte(`{"later":1,`), 1) // its inner object is a map
	if w, err := decode[resignation](r); err != nil || w.Broker != 3 || w.Epoch != 7 {
		t.Errorf("a resignation: %+v, %v", w, err)
	}
	s := State{Name: "c", Self: Member{Node: 3}}
	if got, err := decode[State](more(encode(s))); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("a state: %+v, %v", got, err)
	}
}

func TestLargeRequestsAreRefused(t *testing.T) {
	if _, err := decode[State](make([]byte, maxRequest+1)); err == nil {
		t.Error("a request of more than the maximum is accepted")
	}
}
