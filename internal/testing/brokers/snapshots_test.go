package brokers

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/testing/tries"
	"github.com/chronik-io/chronik/internal/vfs"
)

// archived is a cluster that takes a snapshot each second.
var archived = kind{tiered: true, more: []string{"snapshot.interval.ms=1000", "snapshot.keep=1000"}}

const (
	chains = "chains"
	// links are the partitions of the topic; each chain has the next one, too.
	links = 6
)

// chained lets each client write a record to one partition, and when it is acknowledged, to the
// next one. So no snapshot may have more records of the second than of the first. What brokers send
// each other is held up for a while, so that they are frozen at different times. Leaders
// acknowledge alone: the clients do not wait for this.
func chained(w *world, c *clients) {
	ctx, stop := context.WithCancel(c.ctx)
	first := c.create(chains, links, 3)
	for i := 0; i+1 < len(first); i += 2 {
		c.work.Go(func() {
			cl := w.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.DisableIdempotentWrite(),
				kgo.RequiredAcks(kgo.LeaderAck()))
			defer cl.Close()
			for n := 0; ctx.Err() == nil; n++ {
				for _, p := range first[i : i+2] {
					if err := cl.ProduceSync(context.Background(), p.record(fmt.Sprint(n))).FirstErr(); err != nil {
						w.problem("record %d of %v: %v", n, p, err)
						return
					}
				}
			}
		})
	}
	random := c.random(870)
	for until := time.Now().Add(chainTime()); time.Now().Before(until); {
		from, to := ip(1+random.Int32N(3)), ip(1+random.Int32N(3))
		w.net.Cut(from, to, from != to)
		time.Sleep(60 * time.Millisecond)
		w.net.Cut(from, to, false)
		time.Sleep(time.Duration(random.Int64N(int64(60 * time.Millisecond))))
	}
	stop()
	w.judgeSnapshots(first)
}

// chainTime is how long clients write chains: at least one snapshot is taken in 2.5 s.
func chainTime() time.Duration { return time.Duration(tries.Some(15, 10)) * time.Second }

// judgeSnapshots compares the ends of the partitions of each chain in all snapshots of the store.
func (w *world) judgeSnapshots(parts []*partition) {
	ctx, count, longest := context.Background(), 0, int64(0)
	store, err := dirstore.Open(vfs.OS(), w.store)
	if err != nil {
		w.Fatal(err)
	}
	err = store.List(ctx, "", func(in objects.Info) error {
		id, name, _ := strings.Cut(in.Name, "/")
		n, err := format.Parse(name)
		if err != nil || n.Kind != objects.Index {
			return nil
		}
		cluster, err := hex.DecodeString(id)
		if err != nil {
			return err
		}
		x, err := format.ReadSnapshot(ctx, store, id+"/", [16]byte(cluster), format.Previous{Number: n.Number, Nonce: n.Nonce})
		if err != nil {
			return err
		}
		ends := map[int32]int64{}
		for _, p := range x.Partitions {
			if p.ID.Topic == parts[0].id {
				ends[p.ID.Partition] = p.End
			}
		}
		count++
		for i := int32(0); i+1 < int32(len(parts)); i += 2 {
			if longest = max(longest, ends[i]); ends[i+1] > ends[i] {
				w.problem("snapshot %d has %d records of %v, each of which was written after one of %v, of which it has %d", n.Number, ends[i+1],
					parts[i+1], parts[i], ends[i])
			}
		}
		return nil
	})
	if err != nil || count < int(chainTime()/(2500*time.Millisecond)) || longest < 100 {
		w.problem("%d snapshots, with chains of up to %d records: %v", count, longest, err)
	}
}

// Each snapshot has the causes of all that it has, although brokers are frozen one after the other.
func TestSnapshotsHaveTheCausesOfRecords(t *testing.T) {
	historyOf(t, 31, archived, chained)
}
