// Package offsets asks a broker which offsets partitions hold and where in them
// a position is.
//
// It promises that a partition whose offsets are not known is an error that
// names it, never a zero. The commands that read, trim or reset call it; it
// changes nothing.
package offsets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/ctl/cli"
	"github.com/chronik-io/chronik/internal/ctl/parse"
)

// Range is what a partition holds: Start up to, and without, End.
type Range struct{ Start, End int64 }

// Ranges are the partitions of topics.
type Ranges map[string]map[int32]Range

// Partitions are the partitions of a topic, sorted.
func (r Ranges) Partitions(topic string) []int32 { return slices.Sorted(maps.Keys(r[topic])) }

// List asks for the whole topics. With committed a range ends where an open
// transaction begins.
func List(ctx context.Context, adm *kadm.Client, committed bool, topics ...string) (Ranges, error) {
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err := first(ctx, adm, starts, err); err != nil {
		return nil, err
	}
	list := adm.ListEndOffsets
	if committed {
		list = adm.ListCommittedOffsets
	}
	ends, err := list(ctx, topics...)
	if err := first(ctx, adm, ends, err); err != nil {
		return nil, err
	}
	r := Ranges{}
	for _, topic := range topics {
		r[topic] = map[int32]Range{}
		for p, start := range starts[topic] {
			if end, ok := ends.Lookup(topic, p); ok {
				r[topic][p] = Range{start.Offset, end.Offset}
			}
		}
		if len(r[topic]) == 0 {
			return nil, cli.Refused(topic, cli.NoTopic(ctx, adm, topic), "")
		}
	}
	return r, nil
}

// first is the first partition's error in an answer.
func first(ctx context.Context, adm *kadm.Client, l kadm.ListedOffsets, err error) error {
	if err != nil {
		return cli.Refused("list offsets", cli.Words(err), "")
	}
	for _, topic := range slices.Sorted(maps.Keys(l)) {
		for _, p := range slices.Sorted(maps.Keys(l[topic])) {
			switch o := l[topic][p]; {
			case o.Err == nil:
			case p < 0 && errors.Is(o.Err, kerr.UnknownTopicOrPartition):
				return cli.Refused(topic, cli.NoTopic(ctx, adm, topic), "")
			case p < 0:
				return cli.Refused(topic, o.Err, "")
			default:
				return cli.Refused(fmt.Sprintf("%s partition %d", topic, p), o.Err, "")
			}
		}
	}
	return nil
}

// Keep leaves only these partitions of a topic, all where there are none; one
// that does not exist is an error.
func (r Ranges) Keep(topic string, partitions []int32) error {
	for _, p := range partitions {
		if _, ok := r[topic][p]; !ok {
			return cli.Refused(fmt.Sprintf("%s partition %d", topic, p), kerr.UnknownTopicOrPartition,
				fmt.Sprintf("the topic has partitions 0 to %d", len(r[topic])-1))
		}
	}
	if len(partitions) > 0 {
		maps.DeleteFunc(r[topic], func(p int32, _ Range) bool { return !slices.Contains(partitions, p) })
	}
	return nil
}

// Find is where a position is in each partition. An offset that stands in the
// position is taken as it is, whether the partition has it or not.
func (r Ranges) Find(ctx context.Context, adm *kadm.Client, at parse.Position) (map[string]map[int32]int64, error) {
	var after kadm.ListedOffsets
	if at.Kind == parse.FromTime {
		var err error
		after, err = adm.ListOffsetsAfterMilli(ctx, at.Time.UnixMilli(), slices.Sorted(maps.Keys(r))...)
		if err := first(ctx, adm, after, err); err != nil {
			return nil, err
		}
	}
	found := map[string]map[int32]int64{}
	for topic, partitions := range r {
		found[topic] = map[int32]int64{}
		for p, x := range partitions {
			switch at.Kind {
			case parse.Earliest:
				found[topic][p] = x.Start
			case parse.Latest:
				found[topic][p] = x.End
			case parse.BeforeN:
				found[topic][p] = max(x.Start, x.End-at.Offset)
			case parse.At:
				found[topic][p] = at.Offset
			case parse.FromTime:
				o, ok := after.Lookup(topic, p)
				if !ok {
					return nil, fmt.Errorf("%s partition %d: the broker did not say where %v is", topic, p, at)
				}
				found[topic][p] = min(max(o.Offset, x.Start), x.End)
			}
		}
	}
	return found, nil
}
