package membership

import (
	"encoding/json"
	"fmt"
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

// The requests and responses are JSON; a registration is a controller.RegisterRequest. A receiver
// ignores fields that it does not know.

// JoinRequest asks the metadata leader to add a member, as a learner. A member that is already in
// the group is not an error.
type JoinRequest struct {
	Cluster    string      `json:"cluster"`
	Generation metadata.ID `json:"generation"`
	Member     Member      `json:"member"`
}

type registered struct {
	Epoch int64 `json:"epoch"`
}

type heartbeat struct {
	controller.Heartbeat
	Wish
}

// Wish is what a heartbeat says about votes.
type Wish struct {
	Vote  bool   `json:"voter,omitempty"` // the broker is named in its own cluster.seeds
	Seeds string `json:"seeds,omitempty"` // SeedsHash of these
}

// resignation ends leaderships of a broker. Each list has pairs of a partition and its leader
// epoch.
type resignation struct {
	Broker     int32                      `json:"broker"`
	Epoch      int64                      `json:"epoch"`
	Partitions map[metadata.ID][][2]int32 `json:"partitions"` // by topic
}

type resigned struct {
	Revision int64 `json:"revision"`
}

type heartbeatAnswer struct {
	controller.HeartbeatAnswer
	Lease int64 `json:"leaseMicros"`
	leaderInfo
}

// leaderInfo is what an answer tells a broker of the metadata leader for its findings. No decision
// depends on it.
type leaderInfo struct {
	Wall    int64  `json:"wallMicros"` // the leader's clock, since the Unix epoch
	Version string `json:"version,omitempty"`
}

func packAnswer(a controller.HeartbeatAnswer, of leaderInfo) []byte {
	return encode(heartbeatAnswer{a, a.Lease.Microseconds(), of})
}

func unpackAnswer(p []byte) (a controller.HeartbeatAnswer, of leaderInfo, err error) {
	const most = int64(time.Hour / time.Microsecond)
	w, err := decode[heartbeatAnswer](p)
	a, of = w.HeartbeatAnswer, w.leaderInfo
	a.Lease = time.Duration(min(max(w.Lease, 0), most)) * time.Microsecond
	return a, of, err
}

func packResign(broker int32, epoch int64, partitions map[metadata.TopicPartition]int32) []byte {
	w := resignation{broker, epoch, make(map[metadata.ID][][2]int32)}
	for tp, leaderEpoch := range partitions {
		w.Partitions[tp.Topic] = append(w.Partitions[tp.Topic], [2]int32{tp.Partition, leaderEpoch})
	}
	return encode(w)
}

func (w *resignation) list() (list []controller.Resigned) {
	for id, pairs := range w.Partitions {
		for _, x := range pairs {
			tp := metadata.TopicPartition{Topic: id, Partition: x[0]}
			list = append(list, controller.Resigned{TopicPartition: tp, Epoch: x[1]})
		}
	}
	return list
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
