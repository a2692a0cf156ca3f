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
	if got, err := unpackRegister(packRegister(q)); err != nil || !reflect.DeepEqual(got, q) {
		t.Errorf("a registration arrives as %+v, %v", got, err)
	}
	h := controller.Heartbeat{
		Broker: 3, Epoch: 7, Incarnation: [16]byte{9}, Sequence: 1<<64 - 1, Answered: 2, Applied: 8, Ready: true, Drain: true,
		Unable: []metadata.UnableDir{{ID: [16]byte{4}, Why: metadata.DirHung}}, Damaged: []metadata.TopicPartition{tp},
	}
	wish := Wish{true, "ab"}
	if got, w, err := unpackHeartbeat(packHeartbeat(&h, wish)); err != nil || w != wish || !reflect.DeepEqual(got, h) {
		t.Errorf("a heartbeat arrives as %+v, %v, %v", got, w, err)
	}
	a := controller.HeartbeatAnswer{Sequence: 5, Proven: 4, Lease: 3 * time.Second, Liveness: metadata.Draining}
	of := leaderInfo{1_700_000_000_000_001, "1.2"}
	if got, from, err := unpackAnswer(packAnswer(a, of)); err != nil || got != a || from != of {
		t.Errorf("an answer arrives as %+v of %+v, %v", got, from, err)
	}
	p := packResign(3, 7, map[metadata.TopicPartition]int32{tp: 11})
	want := []controller.Resigned{{TopicPartition: tp, Epoch: 11}}
	if broker, epoch, list, err := unpackResign(p); err != nil || broker != 3 || epoch != 7 || !reflect.DeepEqual(list, want) {
		t.Errorf("a resignation arrives as %d %d %+v, %v", broker, epoch, list, err)
	}
}

// A peer's bytes never panic, and what is accepted means the same after another round.
func FuzzRequests(f *testing.F) {
	f.Add(packRegister(&controller.RegisterRequest{Dirs: []controller.RegisterDir{{}}, Lossy: make([]metadata.TopicPartition, 2)}))
	unable := []metadata.UnableDir{{Why: metadata.DirLow}, {Why: metadata.DirFailed}}
	f.Add(packHeartbeat(&controller.Heartbeat{Unable: unable}, Wish{Vote: true}))
	f.Add(packAnswer(controller.HeartbeatAnswer{Lease: time.Second}, leaderInfo{Wall: 1}))
	f.Add(encode(State{Name: "c", Seeds: "x", Generation: ID{1}}))
	f.Add(packResign(1, 2, map[metadata.TopicPartition]int32{{}: 3}))
	f.Add([]byte(`{"leaseMicros":9223372036854775807,"state":255}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		if q, err := unpackRegister(p); err == nil {
			again, err := unpackRegister(packRegister(q))
			if err != nil || len(again.Lossy) != len(q.Lossy) || again.Seen != q.Seen || !reflect.DeepEqual(again.Dirs, q.Dirs) {
				t.Errorf("%+v became %+v, %v", q, again, err)
			}
		}
		if h, wish, err := unpackHeartbeat(p); err == nil {
			again, v, err := unpackHeartbeat(packHeartbeat(&h, wish))
			if err != nil || v != wish || again.Sequence != h.Sequence || !reflect.DeepEqual(again.Unable, h.Unable) {
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
		_, _, _, _ = unpackResign(p)
	})
}

// A later version may add fields to each message, and to what it contains.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	more := func(p []byte) []byte { return bytes.ReplaceAll(p, []byte("{"), []byte(`{"later":[1,"x"],`)) }
	q := &controller.RegisterRequest{Broker: 3, ClusterID: "c", Dirs: []controller.RegisterDir{{ID: [16]byte{4}}}}
	if got, err := unpackRegister(more(packRegister(q))); err != nil || got.Broker != 3 || !reflect.DeepEqual(got.Dirs, q.Dirs) {
		t.Errorf("a registration: %+v, %v", got, err)
	}
	h := controller.Heartbeat{Broker: 3, Epoch: 7, Unable: []metadata.UnableDir{{ID: [16]byte{4}, Why: metadata.DirHung}}}
	if got, _, err := unpackHeartbeat(more(packHeartbeat(&h, Wish{}))); err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("a heartbeat: %+v, %v", got, err)
	}
	a := controller.HeartbeatAnswer{Sequence: 5, Lease: time.Second}
	if got, _, err := unpackAnswer(more(packAnswer(a, leaderInfo{Wall: 1}))); err != nil || got != a {
		t.Errorf("an answer: %+v, %v", got, err)
	}
	r := bytes.Replace(packResign(3, 7, nil), []byte("{"), []byte(`{"later":1,`), 1) // its inner object is a map
	if broker, epoch, _, err := unpackResign(r); err != nil || broker != 3 || epoch != 7 {
		t.Errorf("a resignation: %d, %d, %v", broker, epoch, err)
	}
	s := State{Name: "c", Self: Member{Node: 3}}
	if got, err := decode[State](more(encode(s))); err != nil || got != s {
		t.Errorf("a state: %+v, %v", got, err)
	}
}

func TestLargeRequestsAreRefused(t *testing.T) {
	if _, err := decode[State](make([]byte, maxRequest+1)); err == nil {
		t.Error("a request of more than the maximum is accepted")
	}
}
