package membership

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
)

// Methods of the requests between brokers that this package sends and answers.
const (
	MethodState     uint16 = 1
	MethodJoin      uint16 = 2
	MethodRegister  uint16 = 3
	MethodHeartbeat uint16 = 4
	MethodResign    uint16 = 5
)

// maxRequest bounds an encoded request: a registration may name every log of a broker.
const maxRequest = 16 << 20

// The requests and responses are JSON. A receiver ignores fields that it does not know.

// JoinRequest asks the metadata leader to add a member, as a learner. A member that is already in
// the group is not an error.
type JoinRequest struct {
	Cluster    string `json:"cluster"`
	Generation ID     `json:"generation"`
	Member     Member `json:"member"`
}

// registration is controller.RegisterRequest on the wire.
type registration struct {
	Broker      int32              `json:"broker"`
	Member      uint64             `json:"member"`
	Cluster     string             `json:"cluster"`
	Incarnation ID                 `json:"incarnation"`
	Seen        int64              `json:"seen"`
	Dirs        []directory        `json:"dirs"`
	Listeners   []listener         `json:"listeners"`
	Rack        string             `json:"rack,omitempty"`
	Features    features           `json:"features"`
	Lossy       map[string][]int32 `json:"lossy,omitempty"`   // partitions by topic id
	Damaged     map[string][]int32 `json:"damaged,omitempty"` // likewise
}

type directory struct {
	ID       ID     `json:"id"`
	Format   int32  `json:"format"`
	Clean    bool   `json:"clean,omitempty"`
	Finding  ID     `json:"finding"`
	Found    uint64 `json:"found"`
	Sequence uint64 `json:"sequence"`
}

type listener struct {
	Name string `json:"name"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

type features struct {
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

type registered struct {
	Epoch int64 `json:"epoch"`
}

// heartbeat is controller.Heartbeat on the wire.
type heartbeat struct {
	Broker      int32              `json:"broker"`
	Epoch       int64              `json:"epoch"`
	Incarnation ID                 `json:"incarnation"`
	Sequence    uint64             `json:"sequence"`
	Answered    uint64             `json:"answered"`
	Applied     int64              `json:"applied"`
	Ready       bool               `json:"ready,omitempty"`
	Drain       bool               `json:"drain,omitempty"`
	Unable      []unable           `json:"unable,omitempty"`
	Damaged     map[string][]int32 `json:"damaged,omitempty"`
	// Voter: the node is named in its own cluster.seeds, so it should have a vote.
	Voter bool `json:"voter,omitempty"`
	// Seeds is SeedsHash of its cluster.seeds.
	Seeds string `json:"seeds,omitempty"`
}

// unable is metadata.UnableDir on the wire.
type unable struct {
	Dir ID    `json:"dir"`
	Why uint8 `json:"why"` // metadata.DirFault
}

// Wish is what a heartbeat says about votes.
type Wish struct {
	Vote  bool   // the broker is named in its own cluster.seeds
	Seeds string // SeedsHash of these
}

// resignation ends leaderships of a broker. Each list has pairs of a partition and its leader
// epoch.
type resignation struct {
	Broker     int32                 `json:"broker"`
	Epoch      int64                 `json:"epoch"`
	Partitions map[string][][2]int32 `json:"partitions"` // by topic id
}

type resigned struct {
	Revision int64 `json:"revision"`
}

type heartbeatAnswer struct {
	Sequence uint64 `json:"sequence"`
	Proven   uint64 `json:"proven"`
	Lease    int64  `json:"leaseMicros"`
	State    uint8  `json:"state"` // metadata.Liveness
	Revision int64  `json:"revision"`
	leaderInfo
}

// leaderInfo is what an answer tells a broker of the metadata leader for its findings. No decision
// depends on it.
type leaderInfo struct {
	Wall    int64  `json:"wallMicros"` // the leader's clock, since the Unix epoch
	Version string `json:"version,omitempty"`
}

func packRegister(q *controller.RegisterRequest) []byte {
	w := registration{
		Broker: q.Broker, Member: q.Member, Cluster: q.ClusterID, Incarnation: ID(q.Incarnation), Seen: q.Seen, Rack: q.Rack,
		Features: features(q.Features), Lossy: packLogs(q.Lossy), Damaged: packLogs(q.Damaged),
	}
	for _, d := range q.Dirs {
		w.Dirs = append(w.Dirs, directory{ID(d.ID), d.Format, d.Clean, ID(d.Finding), d.Found, d.Sequence})
	}
	for _, l := range q.Listeners {
		w.Listeners = append(w.Listeners, listener{l.Listener, l.Host, l.Port})
	}
	return encode(w)
}

func unpackRegister(p []byte) (*controller.RegisterRequest, error) {
	w, err := decode[registration](p)
	if err != nil {
		return nil, err
	}
	q := &controller.RegisterRequest{
		Broker: w.Broker, Member: w.Member, ClusterID: w.Cluster, Incarnation: w.Incarnation, Seen: w.Seen, Rack: w.Rack,
		Features: metadata.Features(w.Features),
	}
	for _, d := range w.Dirs {
		q.Dirs = append(q.Dirs, controller.RegisterDir{ID: d.ID, Format: d.Format, Clean: d.Clean, Finding: d.Finding,
			Found: d.Found, Sequence: d.Sequence})
	}
	for _, l := range w.Listeners {
		q.Listeners = append(q.Listeners, metadata.Endpoint{Listener: l.Name, Host: l.Host, Port: l.Port})
	}
	if q.Lossy, err = unpackLogs(w.Lossy); err == nil {
		q.Damaged, err = unpackLogs(w.Damaged)
	}
	return q, err
}

func packHeartbeat(h *controller.Heartbeat, wish Wish) []byte {
	w := heartbeat{
		Broker: h.Broker, Epoch: h.Epoch, Incarnation: ID(h.Incarnation), Sequence: h.Sequence, Answered: h.Answered,
		Applied: h.Applied, Ready: h.Ready, Drain: h.Drain, Damaged: packLogs(h.Damaged),
		Voter: wish.Vote, Seeds: wish.Seeds,
	}
	for _, d := range h.Unable {
		w.Unable = append(w.Unable, unable{ID(d.ID), uint8(d.Why)})
	}
	return encode(w)
}

func unpackHeartbeat(p []byte) (h controller.Heartbeat, wish Wish, err error) {
	w, err := decode[heartbeat](p)
	if err != nil {
		return h, wish, err
	}
	h = controller.Heartbeat{
		Broker: w.Broker, Epoch: w.Epoch, Incarnation: w.Incarnation, Sequence: w.Sequence, Answered: w.Answered,
		Applied: w.Applied, Ready: w.Ready, Drain: w.Drain,
	}
	for _, d := range w.Unable {
		x := metadata.UnableDir{ID: d.Dir, Why: metadata.DirFault(d.Why)}
		if !x.Why.Valid() {
			return h, wish, fmt.Errorf("heartbeat of broker %d with the unknown fault %d of a directory", w.Broker, d.Why)
		}
		h.Unable = append(h.Unable, x)
	}
	h.Damaged, err = unpackLogs(w.Damaged)
	return h, Wish{w.Voter, w.Seeds}, err
}

func packAnswer(a controller.HeartbeatAnswer, of leaderInfo) []byte {
	return encode(heartbeatAnswer{a.Sequence, a.Proven, a.Lease.Microseconds(), uint8(a.Liveness), a.Revision, of})
}

func unpackAnswer(p []byte) (a controller.HeartbeatAnswer, of leaderInfo, err error) {
	w, err := decode[heartbeatAnswer](p)
	if err != nil {
		return a, of, err
	}
	const most = int64(time.Hour / time.Microsecond)
	a = controller.HeartbeatAnswer{
		Sequence: w.Sequence, Proven: w.Proven, Revision: w.Revision, Lease: time.Duration(min(max(w.Lease, 0), most)) * time.Microsecond,
	}
	if a.Liveness = metadata.Liveness(w.State); a.Liveness > metadata.Drained {
		return a, of, fmt.Errorf("answer of the controller with the unknown state %d", w.State)
	}
	return a, w.leaderInfo, nil
}

func packResign(broker int32, epoch int64, partitions map[metadata.TopicPartition]int32) []byte {
	w := resignation{broker, epoch, make(map[string][][2]int32)}
	for tp, leaderEpoch := range partitions {
		id := metadata.FormatID(tp.Topic)
		w.Partitions[id] = append(w.Partitions[id], [2]int32{tp.Partition, leaderEpoch})
	}
	return encode(w)
}

func unpackResign(p []byte) (broker int32, epoch int64, list []controller.Resigned, err error) {
	w, err := decode[resignation](p)
	if err != nil {
		return 0, 0, nil, err
	}
	for text, pairs := range w.Partitions {
		id, err := metadata.ParseID(text)
		if err != nil {
			return 0, 0, nil, err
		}
		for _, x := range pairs {
			tp := metadata.TopicPartition{Topic: id, Partition: x[0]}
			list = append(list, controller.Resigned{TopicPartition: tp, Epoch: x[1]})
		}
	}
	return w.Broker, w.Epoch, list, nil
}

func packLogs(list []metadata.TopicPartition) map[string][]int32 {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string][]int32)
	for _, tp := range list {
		id := metadata.FormatID(tp.Topic)
		m[id] = append(m[id], tp.Partition)
	}
	return m
}

// unpackLogs returns the logs in one order, so that equal reports stay equal.
func unpackLogs(m map[string][]int32) (list []metadata.TopicPartition, err error) {
	for _, text := range slices.Sorted(maps.Keys(m)) {
		partitions := m[text]
		id, err := metadata.ParseID(text)
		if err != nil {
			return nil, err
		}
		for _, n := range partitions {
			list = append(list, metadata.TopicPartition{Topic: id, Partition: n})
		}
	}
	return list, nil
}

func encode(v any) []byte {
	p, err := json.Marshal(v)
	if err != nil {
		// A bug, whatever another broker sent: the types above have no values that JSON lacks. They
		// consist of numbers without fractions, booleans and texts, in which bytes that are no
		// UTF-8 are replaced.
		panic(err)
	}
	return p
}

func decode[T any](p []byte) (v T, err error) {
	if len(p) > maxRequest {
		return v, fmt.Errorf("request of %d bytes, at most %d are allowed", len(p), maxRequest)
	}
	if err := json.Unmarshal(p, &v); err != nil {
		return v, fmt.Errorf("request of another broker: %w", err)
	}
	return v, nil
}
