package top

import (
	"errors"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/tools/ctl/group"
	"github.com/chronik-io/chronik/internal/tools/ctl/topic"
	"github.com/chronik-io/chronik/internal/view"
)

var opened = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func bytesOf(n int64) *int64 { return &n }

// busy returns a sample after some seconds of a constant load.
func busy(seconds int64) *sample {
	s := &sample{at: opened.Add(time.Duration(seconds) * time.Second), admin: 1,
		brokers: []brokerNow{{id: 1, address: "127.0.0.1:9092", leads: 30}, {id: 2, address: "127.0.0.2:9092", leads: 12}},
		topics: []topic.Total{
			{Topic: "__consumer_offsets", Internal: true, Partitions: 2, Records: 9, Ends: map[int32]int64{0: 5 * seconds, 1: 4},
				Size: bytesOf(900)},
			{Topic: "clicks", Partitions: 1, Records: 100 + 10*seconds, Ends: map[int32]int64{0: 100 + 10*seconds}, Size: bytesOf(2 << 20)},
			{Topic: "orders", Partitions: 2, Records: 20_000 * seconds, Ends: map[int32]int64{0: 10_000 * seconds, 1: 10_000 * seconds}},
		},
		groups: []groupNow{
			{name: "audit", Progress: group.Progress{State: "Stable", Members: 3, Lag: 1000 - 10*seconds, Committed: 50 * seconds}},
			{name: "billing", Progress: group.Progress{State: "Empty", Lag: 70 * seconds, Committed: 7}},
			{name: "lost", Progress: group.Progress{State: "Dead"}, err: errors.New("group lost: no coordinator")},
		},
		loads: map[int32]health.Load{1: {Connections: 3, MemoryBytes: 64 << 20,
			Requests: float64(500 * seconds), CPUSeconds: 0.25 * float64(seconds), BytesIn: float64(seconds << 20),
			BytesOut: float64(seconds << 10), Syncs: float64(100 * seconds), SyncSeconds: 0.3 * float64(seconds)}},
	}
	for id := range uint64(3) {
		c := view.Connection{ID: id, Address: fmt.Sprintf("10.0.0.%d:5000", 1+id/2), ClientID: "shop", Software: "librdkafka",
			Version: "2.3.0",
			Opened:  opened, InFlight: 1,
			Traffic: view.Traffic{Requests: 100 * seconds, BytesIn: 1000 * seconds, BytesOut: 2000 * seconds, RecordsIn: 50 * seconds}}
		if id == 2 {
			c.ClientID, c.Software, c.ThrottledMs = "evil\x1b[2J", "", 100
			c.Requests = 7
		}
		s.connections = append(s.connections, c)
	}
	return s
}
