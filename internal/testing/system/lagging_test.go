package system

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

const (
	laggingPartitions = 50
	laggingByDefault  = 4000 // records; CHRONIK_LAGGING sets another number
)

// Consumers that lag behind on 50 partitions, with batches of a few bytes next to batches larger
// than a fetch limit, read every record once and in order: while records are produced, after a
// restart, and after a kill.
func TestLaggingConsumersWithSmallFetchesReadEveryRecordOnce(t *testing.T) {
	t.Parallel() // it waits for the disk and for processes most of the time
	records := laggingByDefault
	if n, err := strconv.Atoi(os.Getenv("CHRONIK_LAGGING")); err == nil {
		records = n
	}
	dir := t.TempDir()
	addr, err := ports.Loopback()
	must.OK(t, err)
	p := restart(t, dir, addr)
	topics := laggingTopics(t, addr)
	produced := make(chan []int64, 1)
	go func() { produced <- produceMixed(t, addr, topics, records) }()
	readLagging(t, addr, topics, 1<<10, nil) // during the production, as far as records exist
	want := <-produced
	for _, limit := range []int32{1, 700, 8 << 10, 100 << 10} {
		readLagging(t, addr, topics, limit, want)
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Fatalf("stop: %v\n%s", err, p.logged())
	}
	p = restart(t, dir, addr)
	readLagging(t, addr, topics, 700, want)
	kill(t, p)
	restart(t, dir, addr)
	readLagging(t, addr, topics, 8<<10, want)
}

// laggingTopics creates a topic for each of three profiles, 50 partitions in total, with small
// segments.
func laggingTopics(t *testing.T, addr string) []string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	must.OK(t, err)
	defer cl.Close()
	profiles, left := []string{"sync", "interval", "os"}, int32(laggingPartitions)
	for i, profile := range profiles {
		n := left / int32(len(profiles)-i)
		left -= n
		configs := map[string]*string{"chronik.durability.profile": &profile, "segment.bytes": kadm.StringPtr("1048576")}
		if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), n, 1, configs, "lagging-"+profile); err != nil {
			t.Fatal(err)
		}
		profiles[i] = "lagging-" + profile
	}
	return profiles
}

// produceMixed numbers records per partition and returns the number of records in each partition.
// The partitions of topic i start at i*laggingPartitions.
func produceMixed(t *testing.T, addr string, topics []string, records int) []int64 {
	counts := make([]int64, len(topics)*laggingPartitions)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		t.Error(err)
		return counts
	}
	defer cl.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range records {
		topic := rng.IntN(len(topics))
		partition := rng.IntN(laggingPartitions / len(topics))
		if rng.IntN(2) == 0 {
			partition %= 3 // some have several segments
		}
		size := rng.IntN(300)
		if rng.IntN(4) == 0 {
			size = rng.IntN(60 << 10)
		}
		at := topic*laggingPartitions + partition
		value := fmt.Appendf(nil, "%d:", counts[at])
		counts[at]++
		r := &kgo.Record{Topic: topics[topic], Partition: int32(partition), Value: append(value, bytes.Repeat([]byte{'v'}, size)...)}
		cl.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		if n == records-1 || rng.IntN(30) == 0 { // batches of one record next to larger ones
			if err := cl.Flush(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	return counts
}

// readLagging reads the topics from their start with fetches of at most limit bytes per partition
// and a little more in total. It fails the test unless each partition's records arrive in order,
// once each. Without want, it reads only briefly.
func readLagging(t *testing.T, addr string, topics []string, limit int32, want []int64) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxPartitionBytes(limit), kgo.FetchMaxBytes(4*limit+1000), kgo.FetchMaxWait(100*time.Millisecond))
	must.OK(t, err)
	defer cl.Close()
	left, all := int64(0), time.Second
	for _, n := range want {
		left, all = left+n, 2*time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), all)
	defer cancel()
	next := make([]int64, len(topics)*laggingPartitions)
	for want == nil || left > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		fetches.EachError(func(topic string, partition int32, err error) { t.Fatalf("%s-%d: %v", topic, partition, err) })
		fetches.EachRecord(func(r *kgo.Record) {
			at := int(r.Partition)
			for i, topic := range topics {
				if topic == r.Topic {
					at += i * laggingPartitions
				}
			}
			number, _, _ := strings.Cut(string(r.Value), ":")
			if number != strconv.FormatInt(next[at], 10) {
				t.Fatalf("%s-%d at offset %d: record %s, expected %d, with fetches of %d bytes", r.Topic, r.Partition, r.Offset, number,
					next[at], limit)
			}
			next[at]++
			left--
		})
	}
	if want != nil && left != 0 {
		t.Fatalf("%d records are missing with fetches of %d bytes: %v of %v", left, limit, next, want)
	}
}
