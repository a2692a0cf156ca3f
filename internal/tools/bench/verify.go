package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/bench/load"
)

// verifyIdle is how long reading the topic may return nothing.
const verifyIdle = 30 * time.Second

// ErrVerify is returned if the topic cannot be read to its end.
var ErrVerify = errors.New("verify: the topic could not be read to its end")

// verify reads the whole topic and compares it with the acknowledged records.
func verify(ctx context.Context, cluster *load.Cluster, ledger *load.Ledger) (*Verification, error) {
	offsets, err := cluster.Offsets(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if err := readAll(ctx, cluster, offsets, ledger.Found); err != nil {
		return nil, err
	}
	c := ledger.Count()
	return &Verification{
		Acknowledged: c.Acknowledged, Found: c.Found, Lost: c.Lost, Duplicated: c.Duplicated,
		Unacknowledged: c.Sent - c.Acknowledged, Foreign: c.Foreign,
	}, nil
}

// readAll calls found with the value of every record within offsets.
func readAll(ctx context.Context, cluster *load.Cluster, offsets load.Offsets, found func([]byte)) error {
	from, left := make(map[int32]kgo.Offset), make(map[int32]int64)
	for p, end := range offsets.End {
		if end > offsets.Start[p] {
			from[p], left[p] = kgo.NewOffset().At(offsets.Start[p]), end
		}
	}
	if len(left) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(append(load.Reach(cluster.Seeds, cluster.Secure),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{cluster.Topic: from}), kgo.KeepControlRecords())...)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrVerify, err)
	}
	defer cl.Close()
	for len(left) > 0 {
		if err := poll(ctx, cl, left, found); err != nil {
			return err
		}
	}
	return nil
}

// poll reads the next records and removes partitions that are read to their end.
func poll(ctx context.Context, cl *kgo.Client, left map[int32]int64, found func([]byte)) error {
	ctx, stop := context.WithTimeout(ctx, verifyIdle)
	defer stop()
	fetches := cl.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return fmt.Errorf("%w: %d partitions left: %w", ErrVerify, len(left), err)
	}
	fetches.EachRecord(func(r *kgo.Record) {
		end, ok := left[r.Partition]
		if ok && r.Offset < end && !r.Attrs.IsControl() {
			found(r.Value)
		}
		if ok && r.Offset >= end-1 {
			delete(left, r.Partition)
		}
	})
	return nil
}
