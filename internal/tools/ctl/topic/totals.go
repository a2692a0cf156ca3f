package topic

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Total is what a topic holds at one moment, for comparison with a later one.
type Total struct {
	Topic      string
	Internal   bool
	Partitions int
	Records    int64           // offsets between start and end: an upper bound
	Ends       map[int32]int64 // end offsets of the partitions, if known
	Size       *int64          // bytes of all replicas; nil if unknown
}

// Totals returns the totals of all topics, including internal ones, sorted by name. The list is nil
// only with an error.
func Totals(ctx context.Context, adm *kadm.Client) ([]Total, error) {
	topics, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, app.Refused("list topics", app.BrokerError(err), "")
	}
	if len(topics) == 0 {
		return []Total{}, nil
	}
	f, err := askHoldings(ctx, adm, topics.Sorted())
	if err != nil {
		return nil, err
	}
	var all []Total
	for _, t := range topics.Sorted() {
		d := f.describe(t)
		x := Total{Topic: t.Topic, Internal: t.IsInternal, Partitions: len(d.Partitions), Records: d.Records, Size: d.Size,
			Ends: map[int32]int64{}}
		for _, p := range d.Partitions {
			if p.End != nil {
				x.Ends[p.Partition] = *p.End
			}
		}
		all = append(all, x)
	}
	return all, nil
}
