// Command kgo writes and reads records with franz-go's defaults and checks content, positions and
// order. scripts/clients/run.sh runs it against a broker; it speaks the protocol from outside, and
// starts no broker of its own.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 4

// place is the position of an acknowledged record.
type place struct {
	partition int32
	offset    int64
}

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "comma-separated HOST:PORT")
	records := flag.Int("records", 100_000, "number of records for each codec")
	prefix := flag.String("prefix", "kgo", "how the topics' names begin")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	err := all(ctx, strings.Split(*brokers, ","), *prefix, *records)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func all(ctx context.Context, brokers []string, prefix string, n int) error {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name, codec := range codecs {
		topic := prefix + "-" + name
		cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec),
			kgo.RecordDeliveryTimeout(time.Minute))
		if err != nil {
			return err
		}
		err = once(ctx, cl, brokers, topic, n)
		cl.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", topic, err)
		}
	}
	return nil
}

// once creates a topic, writes to it and reads it.
func once(ctx context.Context, cl *kgo.Client, brokers []string, topic string, n int) error {
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, -1, nil, topic); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	at, err := produce(ctx, cl, n)
	if err != nil {
		return err
	}
	from := make(map[int32]kgo.Offset)
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().AtStart()
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return err
	}
	defer reader.Close()
	return consume(ctx, reader, at)
}

// record returns the i-th record.
func record(i int) *kgo.Record {
	return &kgo.Record{
		Key:     fmt.Appendf(nil, "key-%d", i%997),
		Value:   fmt.Appendf(nil, "value number %d %s", i, strings.Repeat("x", i%400)),
		Headers: []kgo.RecordHeader{{Key: "i", Value: fmt.Append(nil, i)}, {Key: "empty", Value: []byte{}}},
	}
}

// produce writes n records and returns the position of each.
func produce(ctx context.Context, cl *kgo.Client, n int) (map[place]int, error) {
	var mu sync.Mutex
	at, failed := make(map[place]int, n), []error(nil)
	for i := range n {
		cl.Produce(ctx, record(i), func(r *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, fmt.Errorf("record %d: %w", i, err))
				return
			}
			at[place{r.Partition, r.Offset}] = i
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return nil, fmt.Errorf("flush: %w", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(failed) > 0 {
		return nil, errors.Join(failed[:min(3, len(failed))]...)
	}
	if len(at) != n {
		return nil, fmt.Errorf("%d records were acknowledged at %d places", n, len(at))
	}
	return at, nil
}

// consume reads as many records as were written and compares them.
func consume(ctx context.Context, cl *kgo.Client, at map[place]int) error {
	next, last := make(map[int32]int64), make(map[string]int)
	for seen := 0; seen < len(at); {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("after %d records: %w", seen, err)
		}
		for it := fetches.RecordIter(); !it.Done(); seen++ {
			r := it.Next()
			if r.Offset != next[r.Partition] {
				return fmt.Errorf("partition %d: offset %d follows %d", r.Partition, r.Offset, next[r.Partition]-1)
			}
			next[r.Partition]++
			i, ok := at[place{r.Partition, r.Offset}]
			if !ok || !same(r, record(i)) {
				return fmt.Errorf("at %d:%d is %q, not record %d", r.Partition, r.Offset, r.Value, i)
			}
			if before, ok := last[string(r.Key)]; ok && before >= i {
				return fmt.Errorf("key %s: record %d after %d", r.Key, i, before)
			}
			last[string(r.Key)] = i
		}
	}
	return nil
}

func same(a, b *kgo.Record) bool {
	if !bytes.Equal(a.Key, b.Key) || !bytes.Equal(a.Value, b.Value) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i, h := range a.Headers {
		if h.Key != b.Headers[i].Key || !bytes.Equal(h.Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}
