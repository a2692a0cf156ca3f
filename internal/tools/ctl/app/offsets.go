package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// OffsetRange is the range of offsets in a partition, from Start up to, but not including, End.
type OffsetRange struct{ Start, End int64 }

// OffsetRanges maps topics and partitions to their ranges.
type OffsetRanges map[string]map[int32]OffsetRange

// Partitions returns the partitions of a topic, sorted.
func (r OffsetRanges) Partitions(topic string) []int32 { return slices.Sorted(maps.Keys(r[topic])) }

// OffsetFailures maps topics and partitions that the broker did not answer for to an error that
// names the partition.
type OffsetFailures map[string]map[int32]error

// Err returns the error of the first partition in order, or nil.
func (f OffsetFailures) Err() error {
	for _, topic := range slices.Sorted(maps.Keys(f)) {
		for _, p := range slices.Sorted(maps.Keys(f[topic])) {
			return f[topic][p]
		}
	}
	return nil
}

// Add adds the error of a partition.
func (f OffsetFailures) Add(topic string, partition int32, err error) {
	if f[topic] == nil {
		f[topic] = map[int32]error{}
	}
	f[topic][partition] = Refused(PartitionName(topic, partition), err, "")
}

// PartitionName names a partition in messages.
func PartitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s partition %d", topic, partition)
}

// ListOffsets is AskOffsets for callers that need every partition: any failure is an error.
func ListOffsets(ctx context.Context, adm *kadm.Client, wanted map[string][]int32) (OffsetRanges, error) {
	r, failed, err := AskOffsets(ctx, adm, false, wanted)
	if err == nil {
		err = failed.Err()
	}
	return r, err
}

// AskOffsets returns the offsets of the wanted partitions of topics; no partitions means all of the
// topic. With committed, a range ends at the last stable offset. Partitions that the broker does
// not answer for are in the failures only. A topic or partition that does not exist is an error.
func AskOffsets(ctx context.Context, adm *kadm.Client, committed bool, wanted map[string][]int32) (OffsetRanges, OffsetFailures, error) {
	topics := slices.Sorted(maps.Keys(wanted))
	failed := OffsetFailures{}
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err := failed.gather(ctx, adm, starts, err); err != nil {
		return nil, nil, err
	}
	list := adm.ListEndOffsets
	if committed {
		list = adm.ListCommittedOffsets
	}
	ends, err := list(ctx, topics...)
	if err := failed.gather(ctx, adm, ends, err); err != nil {
		return nil, nil, err
	}
	r := OffsetRanges{}
	for _, topic := range topics {
		r[topic] = map[int32]OffsetRange{}
		for p, start := range starts[topic] {
			if end, ok := ends.Lookup(topic, p); ok && failed[topic][p] == nil {
				r[topic][p] = OffsetRange{start.Offset, end.Offset}
			}
		}
		if len(r[topic])+len(failed[topic]) == 0 {
			return nil, nil, Refused(topic, NoTopic(ctx, adm, topic), "")
		}
		if err := selectPartitions(topic, wanted[topic], r[topic], failed[topic]); err != nil {
			return nil, nil, err
		}
	}
	return r, failed, nil
}

// gather adds the partitions that an answer lacks or has errors for. It returns errors about a
// topic or the whole request.
func (f OffsetFailures) gather(ctx context.Context, adm *kadm.Client, l kadm.ListedOffsets, err error) error {
	var shards *kadm.ShardErrors
	switch {
	case errors.As(err, &shards) && !shards.AllFailed:
		for _, s := range shards.Errs { // for example of partitions without a leader
			if req, ok := s.Req.(*kmsg.ListOffsetsRequest); ok {
				f.unanswered(req, s.Err)
			}
		}
	case err != nil:
		return Refused("list offsets", BrokerError(err), "")
	}
	for _, topic := range slices.Sorted(maps.Keys(l)) {
		for p, o := range l[topic] {
			switch {
			case o.Err == nil:
			case p < 0 && errors.Is(o.Err, kerr.UnknownTopicOrPartition):
				return Refused(topic, NoTopic(ctx, adm, topic), "")
			case p < 0:
				return Refused(topic, o.Err, "")
			default:
				f.Add(topic, p, o.Err)
			}
		}
	}
	return nil
}

func (f OffsetFailures) unanswered(req *kmsg.ListOffsetsRequest, err error) {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			f.Add(t.Topic, p.Partition, err)
		}
	}
}

// selectPartitions removes the partitions that are not wanted. A wanted partition that does not
// exist is an error.
func selectPartitions(topic string, wanted []int32, known map[int32]OffsetRange, failed map[int32]error) error {
	if len(wanted) == 0 {
		return nil
	}
	last := len(known) + len(failed) - 1
	for _, p := range wanted {
		_, ok := known[p]
		if !ok && failed[p] == nil {
			return Refused(PartitionName(topic, p), kerr.UnknownTopicOrPartition, fmt.Sprintf("the topic has partitions 0 to %d", last))
		}
	}
	maps.DeleteFunc(known, func(p int32, _ OffsetRange) bool { return !slices.Contains(wanted, p) })
	maps.DeleteFunc(failed, func(p int32, _ error) bool { return !slices.Contains(wanted, p) })
	return nil
}

// Find returns the offset of a position in each partition. It returns an offset in the position
// unchanged, even if the partition does not have it. Partitions that the broker does not answer for
// are in the failures only.
func (r OffsetRanges) Find(ctx context.Context, adm *kadm.Client, at parse.Position) (map[string]map[int32]int64, OffsetFailures, error) {
	var after kadm.ListedOffsets
	failed := OffsetFailures{}
	if at.Kind == parse.FromTime {
		var err error
		after, err = adm.ListOffsetsAfterMilli(ctx, at.Time.UnixMilli(), slices.Sorted(maps.Keys(r))...)
		if err := failed.gather(ctx, adm, after, err); err != nil {
			return nil, nil, err
		}
		for topic, partitions := range failed { // the request was for whole topics
			maps.DeleteFunc(partitions, func(p int32, _ error) bool { _, ok := r[topic][p]; return !ok })
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
				switch {
				case failed[topic][p] != nil:
				case !ok:
					failed.Add(topic, p, fmt.Errorf("the broker did not return the offset of %v", at))
				default:
					found[topic][p] = min(max(o.Offset, x.Start), x.End)
				}
			}
		}
	}
	return found, failed, nil
}

// The special timestamps of ListOffsets about tiered storage (KIP-405, KIP-1005).
const (
	earliestLocal = -4
	latestTiered  = -5
)

// LocalStarts returns where the logs on the leaders' disks begin, which is the start of the log
// unless the object store has older records. Partitions without a leader have an error or are
// missing.
func LocalStarts(ctx context.Context, adm *kadm.Client, topics ...string) (kadm.ListedOffsets, error) {
	return special(ctx, adm, earliestLocal, "start offsets on local disks", topics)
}

// LastTiered returns the last offsets that the object store has, -1 for none.
func LastTiered(ctx context.Context, adm *kadm.Client, topics ...string) (kadm.ListedOffsets, error) {
	return special(ctx, adm, latestTiered, "last offsets in the object store", topics)
}

func special(ctx context.Context, adm *kadm.Client, timestamp int64, what string, topics []string) (kadm.ListedOffsets, error) {
	if len(topics) == 0 { // the client would ask for all
		return nil, nil
	}
	list, err := adm.ListOffsetsAfterMilli(ctx, timestamp, topics...)
	if NoneAnswered(err) {
		return nil, Refused(what, BrokerError(err), "")
	}
	return list, nil
}
