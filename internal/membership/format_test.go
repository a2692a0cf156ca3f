package membership

import (
	"fmt"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/golden"
)

// Exact texts of the messages, so that no change of the format goes unnoticed.
func TestFormatIsFixed(t *testing.T) {
	tp := metadata.TopicPartition{Topic: [16]byte{1}, Partition: 7}
	self := Member{Node: 3, ID: 1 << 63, Address: "h:9093"}
	got := fmt.Sprintf("state %s\n\njoin %s\n\nregister %s\n\nheartbeat %s\n\nanswer %s\n\nresign %s\n\nresigned %s\n",
		encode(State{Name: "c", Self: self, Cluster: "id", Generation: metadata.ID{1}, Logs: "id", Seeds: "s", Seen: "f", Leader: self,
			Votes: []Vote{{Node: 1, Address: "a:1", Lost: true, Connected: true}}}),
		encode(JoinRequest{Cluster: "id", Generation: metadata.ID{1}, Member: self}),
		encode(&controller.RegisterRequest{
			Broker: 3, Member: 1 << 63, ClusterID: "id", Incarnation: [16]byte{9}, Seen: 12, Rack: "r",
			Dirs:      []controller.RegisterDir{{ID: [16]byte{4}, Format: 1, Finding: [16]byte{5}, Found: 5, Sequence: 1<<64 - 1}},
			Listeners: []metadata.Endpoint{{Listener: "default", Host: "::1", Port: 9092}},
			Features:  metadata.Features{Min: 1, Max: 2}, Lossy: []metadata.TopicPartition{tp}, Damaged: []metadata.TopicPartition{tp},
		}),
		encode(heartbeat{controller.Heartbeat{
			Broker: 3, Epoch: 7, Incarnation: [16]byte{9}, Sequence: 1<<64 - 1, Answered: 2, Applied: 8, Ready: true, Drain: true,
			Unable: []metadata.UnableDir{{ID: [16]byte{4}, Why: metadata.DirHung}}, Damaged: []metadata.TopicPartition{tp},
			Unreached: []int32{1, 2},
		}, Wish{Vote: true, Seeds: "s"}}),
		packAnswer(controller.HeartbeatAnswer{Sequence: 5, Proven: 4, Lease: 3 * time.Second, Liveness: metadata.Draining, Revision: 6,
			Shunned: []int32{1}}, leaderInfo{Wall: 1_700_000_000_000_001, Version: "1.2"}),
		packResign(3, 7, map[metadata.TopicPartition]int32{tp: 11}), encode(resigned{Revision: 6}))
	golden.File(t, "testdata/messages.json", got, "go test ./internal/membership -run FormatIsFixed")
}
