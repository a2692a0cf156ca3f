package system

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// check reads the topics to their ends and checks that every acknowledged record is there.
// Producers may continue meanwhile, so there may be more records.
func check(t *testing.T, addr string, topics []string, acked map[spot]string) {
	t.Helper()
	found, values := make(map[spot]string), make(map[string]spot)
	last := make(map[string]int) // by producer, topic and partition
	for _, r := range readAll(t, addr, topics) {
		at, value := spot{r.Topic, r.Partition, r.Offset}, string(r.Value)
		found[at] = value
		if before, twice := values[value]; twice {
			t.Errorf("record %s is at %v and at %v", value, before, at)
		}
		values[value] = at
		id, number, _ := strings.Cut(value, "/")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Errorf("at %v is %q", at, value)
		}
		key := fmt.Sprintf("%s %s %d", id, at.topic, at.partition)
		if before, ok := last[key]; ok && before >= n {
			t.Errorf("producer %s in %s-%d: record %d follows %d", id, at.topic, at.partition, n, before)
		}
		last[key] = n
	}
	lost := 0
	for at, value := range acked {
		if found[at] != value {
			if lost++; lost <= 10 {
				t.Errorf("%s was acknowledged at %v, which has %q; it is at %v", value, at, found[at], values[value])
			}
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged records are lost or moved", lost, len(acked))
	}
}

// readAll returns all records of the existing topics, each partition's in order. Offsets must have
// no gaps.
func readAll(t *testing.T, addr string, topics []string) []*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	must.OK(t, err)
	defer cl.Close()
	there, err := kadm.NewClient(cl).ListTopics(t.Context(), topics...)
	must.OK(t, err)
	var names []string
	from := make(map[string]map[int32]kgo.Offset)
	for name, d := range there {
		if d.Err != nil {
			continue // it has no records yet
		}
		names = append(names, name)
		from[name] = make(map[int32]kgo.Offset)
		for p := range d.Partitions {
			from[name][p] = kgo.NewOffset().AtStart()
		}
	}
	left, total := make(map[string]map[int32]int64), 0
	endOffsets(t, cl, names).Each(func(o kadm.ListedOffset) {
		if left[o.Topic] == nil {
			left[o.Topic] = make(map[int32]int64)
		}
		left[o.Topic][o.Partition] = o.Offset
		total += int(o.Offset)
	})
	cl.AddConsumePartitions(from)
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	all, next := make([]*kgo.Record, 0, total), make(map[string]int64)
	for len(all) < total {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("read %d of %d records: %v", len(all), total, err)
		}
		f.EachRecord(func(r *kgo.Record) {
			key := fmt.Sprintf("%s-%d", r.Topic, r.Partition)
			if r.Offset != next[key] {
				t.Errorf("%s has a gap from offset %d to %d", key, next[key]-1, r.Offset)
			}
			next[key] = r.Offset + 1
			if r.Offset < left[r.Topic][r.Partition] { // later records don't count
				all = append(all, r)
			}
		})
	}
	return all
}

// endOffsets returns the end of every partition.
func endOffsets(t *testing.T, cl *kgo.Client, names []string) kadm.ListedOffsets {
	t.Helper()
	return listed(t, func(ctx context.Context) (kadm.ListedOffsets, error) {
		cl.ForceMetadataRefresh()
		return kadm.NewClient(cl).ListEndOffsets(ctx, names...)
	})
}

// committedBy asks for the offsets of a group until its coordinator has loaded it, and no
// transaction with offsets of it is open: its records are read up to their ends, too.
func committedBy(t *testing.T, admin *kadm.Client, group string) kadm.OffsetResponses {
	t.Helper()
	return listed(t, func(ctx context.Context) (kadm.OffsetResponses, error) {
		return admin.FetchOffsets(kadm.RequireStable(ctx), group)
	})
}

// listed asks for offsets until every partition has an answer: a topic that was just created has no
// leader until its log exists, a new leader does not know the high watermark until its log has
// noted its epoch, and a coordinator loads.
func listed[T interface{ Error() error }](t *testing.T, list func(context.Context) (T, error)) T {
	t.Helper()
	deadline := time.Now().Add(startTime)
	for {
		all, err := list(t.Context())
		if err == nil {
			err = all.Error()
		}
		if err == nil {
			return all
		}
		if !kerr.IsRetriable(err) || time.Now().After(deadline) {
			t.Fatalf("offsets: %v", err)
		}
		pause(t.Context(), 10*time.Millisecond)
	}
}
