package app

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
)

// LogSize is the size of a partition's log in bytes.
type LogSize struct {
	All      int64 // of all replicas that brokers report
	Log      int64 // of the largest replica
	Replicas int   // that brokers report
}

// LogSizes returns the sizes of partitions by topic, without those that no broker reports: they are
// only additional information.
func LogSizes(ctx context.Context, adm *kadm.Client, set kadm.TopicsSet) map[string]map[int32]LogSize {
	dirs, err := adm.DescribeAllLogDirs(ctx, set)
	if RequestFailed(err) != nil {
		return nil
	}
	found := map[string]map[int32]LogSize{}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if d.Err != nil || p.IsFuture {
				return
			}
			if found[p.Topic] == nil {
				found[p.Topic] = map[int32]LogSize{}
			}
			x := found[p.Topic][p.Partition]
			found[p.Topic][p.Partition] = LogSize{All: x.All + p.Size, Log: max(x.Log, p.Size), Replicas: x.Replicas + 1}
		})
	})
	return found
}
