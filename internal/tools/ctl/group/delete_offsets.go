package group

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// forget deletes the offsets of topics, or of some of their partitions.
func forget(ctx context.Context, a *app.App, adm *kadm.Client, name string, only map[string][]int32, dryRun bool) error {
	d, err := load(ctx, a, adm, name)
	if err != nil {
		return fmt.Errorf("delete offsets of %w", err)
	}
	if d.Type == typeShare {
		return forgetShared(ctx, a, adm, d, only, dryRun)
	}
	set := kadm.TopicsSet{}
	var losses []string
	var out app.Outcomes
	for _, p := range d.Partitions {
		some, named := only[p.Topic]
		if p.Committed == nil || !named || len(some) > 0 && !slices.Contains(some, p.Partition) {
			continue
		}
		set.Add(p.Topic, p.Partition)
		at := fmt.Sprintf("%s partition %d", p.Topic, p.Partition)
		losses = append(losses, fmt.Sprintf("%s: offset %d", at, *p.Committed))
		if dryRun {
			out.Done(at, "would be forgotten: offset %d", *p.Committed)
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(only)) {
		if len(set[topic]) == 0 {
			out.Failed(topic, fmt.Errorf("delete offsets of group %s: it has none of %s; chronikctl group describe shows those it has",
				name, topic))
		}
	}
	if dryRun || len(losses) == 0 {
		return a.PrintOutcomes(&out)
	}
	if err := a.Confirm(fmt.Sprintf("forget %s of group %s", text.Count(len(losses), "offset"), name), exportFirst, losses); err != nil {
		return err
	}
	answers, err := adm.DeleteOffsets(ctx, name, set)
	if err != nil {
		return app.Refused("delete offsets of group "+name, app.BrokerError(err), "")
	}
	for _, topic := range slices.Sorted(maps.Keys(set)) {
		for _, p := range slices.Sorted(maps.Keys(set[topic])) {
			at := fmt.Sprintf("%s partition %d", topic, p)
			err, ok := answers.Lookup(topic, p)
			if !ok {
				err = kerr.UnknownServerError
			}
			if err != nil {
				out.Refused(at, fmt.Sprintf("delete offset of group %s: %s", name, at), err, "")
				continue
			}
			out.Done(at, "forgotten")
		}
	}
	return a.PrintOutcomes(&out)
}
