package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// BenchmarkHeartbeat measures one heartbeat in a group of ten, without the runtime.
func BenchmarkHeartbeat(b *testing.B) {
	b.Run("classic", func(b *testing.B) {
		w := newWorld(b)
		leader, _, gen := w.two()
		req := kmsg.NewPtrHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.Generation = 4, "g", leader, gen
		handle(b, w, req)
	})
	b.Run("consumer", func(b *testing.B) {
		w := newWorld(b)
		w.topic("t", 100)
		var all []*client
		for i := range 10 {
			all = append(all, w.newClient(fmt.Sprint("m", i), "t"))
		}
		stabilize(w, all...)
		handle(b, w, heartbeatOf("m3", all[3].epoch))
	})
	b.Run("streams", func(b *testing.B) {
		w, all := manyStreams(b, 100, 1000)
		handle(b, w, streamsBeatOf("m3", all[3].epoch))
	})
}

// manyStreams makes a stable streams group whose members have the tasks of a word count.
func manyStreams(t fataler, members int, partitions int32) (*world, []*streamsClient) {
	w := newWorld(t, quick(func(c *StreamsConfig) { c.InitialDelay, c.Standbys = 3*time.Second, 1 }))
	for _, name := range []string{"in", "r", "c"} {
		w.topic(name, partitions)
	}
	var all []*streamsClient
	for i := range members {
		all = append(all, w.newStreamsClient(fmt.Sprint("m", i), wordCount()))
	}
	w.advance(3 * time.Second)
	for round := 1; w.state("g") != "Stable"; round++ {
		for _, c := range all {
			if code := c.beat(); code != 0 || round > 5 {
				t.Fatalf("round %d: code %d, %s", round, code, w.state("g"))
			}
		}
	}
	return w, all
}

// BenchmarkBigStreamsGroup measures a rebalance of 100 members over 1,000 tasks, of which half have
// a standby task: the shard's total time from the first join until the group is stable, and after a
// member has left.
func BenchmarkBigStreamsGroup(b *testing.B) {
	for b.Loop() {
		w, all := manyStreams(b, 100, 500)
		is(b, w.streamsBeat(streamsBeatOf("m99", -1)).Response.ErrorCode, nil)
		for round := 0; round == 0 || w.state("g") != "Stable"; round++ {
			for _, c := range all[:99] {
				is(b, c.beat(), nil)
			}
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	w := newWorld(b)
	w.topic("t", 1)
	handle(b, w, commitOf("", -1, "t", 7))
}

func handle(b *testing.B, w *world, req kmsg.Request) {
	b.Helper()
	b.ReportAllocs()
	var out coordinator.Effects
	e := request(req)
	for b.Loop() {
		out = coordinator.Effects{Records: out.Records[:0], Replies: out.Replies[:0], Timers: out.Timers[:0]}
		w.shard.Handle(w.now, 1, e, &out)
	}
}

// BenchmarkBigGroup measures a rebalance of 500 members over 1,000 partitions: the shard's total
// time from the first join until the group is stable.
func BenchmarkBigGroup(b *testing.B) {
	const members, partitions = 500, 1000
	b.Run("classic", func(b *testing.B) {
		for b.Loop() {
			w := newWorld(b, func(c *Config) { c.InitialDelay = 3 * time.Second })
			w.topic("t", partitions)
			var olds []*oldClient
			for range members {
				olds = append(olds, &oldClient{w: w, topics: []string{"t"}, generation: -1})
			}
			for done := false; !done; w.advance(time.Second) {
				done = true
				for _, o := range olds {
					o.step()
					done = done && o.has.Count() == partitions/members
				}
			}
		}
	})
	b.Run("consumer", func(b *testing.B) {
		for b.Loop() {
			w := newWorld(b)
			w.topic("t", partitions)
			var all []*client
			for i := range members {
				all = append(all, w.newClient(fmt.Sprint("m", i), "t"))
			}
			rounds := 0
			for done := false; !done; rounds++ {
				done = true
				for _, c := range all {
					c.beat()
				}
				for _, c := range all {
					done = done && c.has.Count() == partitions/members
				}
			}
			b.ReportMetric(float64(rounds), "rounds")
			b.ReportMetric(float64(len(w.log)), "records")
		}
	})
}
