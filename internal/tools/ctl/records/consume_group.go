package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// commitTime bounds the last commit of an interrupted member.
const commitTime = 5 * time.Second

// assigned and revoked run on the client's group goroutine. reassign handles their notes after the
// next poll.
func (r *reader) assigned(_ context.Context, _ *kgo.Client, now map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
	for _, p := range flat(now) {
		r.newlyAssigned = append(r.newlyAssigned, p)
		r.assignedNow[p] = true
	}
}

func (r *reader) revoked(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := flat(lost)
	r.newlyRevoked = append(r.newlyRevoked, gone...)
	for _, p := range gone {
		delete(r.assignedNow, p)
	}
	r.newlyAssigned = slices.DeleteFunc(r.newlyAssigned, func(p partition) bool { return slices.Contains(gone, p) })
}

// flat returns the partitions of all topics.
func flat(topics map[string][]int32) (all []partition) {
	for topic, indexes := range topics {
		for _, i := range indexes {
			all = append(all, partition{topic, i})
		}
	}
	return all
}

// checkProtocol returns an error if a broker does not support the requested group protocol. The
// client would otherwise silently join with the other protocol.
func (r *reader) checkProtocol(ctx context.Context) error {
	if r.protocol != nextGen {
		return nil
	}
	brokers, err := r.admin.ApiVersions(ctx)
	if err != nil {
		return app.Refused("consume "+r.title(), app.BrokerError(err), "")
	}
	for _, b := range brokers.Sorted() {
		if newest, ok := b.KeyMaxVersion(int16(kmsg.ConsumerGroupHeartbeat)); b.Err == nil && (!ok || newest < 1) {
			return fmt.Errorf(
				"group %s: broker %d does not offer consumer groups (KIP-848, ConsumerGroupHeartbeat 1); leave --group-protocol out",
				r.group, b.NodeID)
		}
	}
	return nil
}

// awaitsAssignment reports whether the group assigns partitions to this member that have not
// arrived yet. With the consumer protocol a member starts without the partitions that others still
// have; with the classic protocol the first assignment is complete.
func (r *reader) awaitsAssignment(ctx context.Context) (bool, error) {
	if r.protocol != nextGen {
		return false, nil
	}
	found, err := r.admin.DescribeConsumerGroups(ctx, r.group)
	if err = errors.Join(err, found[r.group].Err); err != nil {
		return false, app.Refused("group "+r.group, app.Needs(app.BrokerError(err), app.OnGroup("describe", r.group)), "")
	}
	id, _ := r.client.GroupMetadata()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range found[r.group].Members {
		if m.MemberID != id {
			continue
		}
		for topic, indexes := range m.TargetAssignment {
			for i := range indexes {
				if !r.assignedNow[partition{topic, i}] {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// reassign plans what to read of newly assigned partitions and forgets revoked ones.
func (r *reader) reassign(ctx context.Context) error {
	r.mu.Lock()
	news, gone := r.newlyAssigned, r.newlyRevoked
	r.newlyAssigned, r.newlyRevoked = nil, nil
	r.mu.Unlock()
	for _, p := range gone {
		delete(r.left, p)
	}
	if len(news) == 0 || r.endless() {
		return nil
	}
	committed, err := r.admin.FetchOffsetsForTopics(ctx, r.group, r.topics...)
	if err != nil {
		return app.Refused("offsets of group "+r.group, app.BrokerError(err), "")
	}
	at := map[partition]int64{}
	begun := app.OffsetRanges{}
	for _, p := range news {
		if o, ok := committed.Lookup(p.topic, p.index); ok && o.Err == nil && o.At >= 0 {
			at[p] = o.At
		} else if r.lost[p] == nil {
			if begun[p.topic] == nil {
				begun[p.topic] = map[int32]app.OffsetRange{}
			}
			begun[p.topic][p.index] = r.ends[p.topic][p.index]
		}
	}
	starts, err := r.find(ctx, begun, r.begin)
	if err != nil {
		return err
	}
	for topic, offsets := range starts {
		for i, offset := range offsets {
			at[partition{topic, i}] = offset
		}
	}
	for p, next := range at {
		x := r.ends[p.topic][p.index]
		if next = max(next, x.Start); next < x.End && r.lost[p] == nil {
			r.left[p] = span{next, x.End}
		}
	}
	return nil
}

// commit commits the offsets of the printed records. It does so even after an interrupt; otherwise
// the next member would print them again.
func (r *reader) commit(ctx context.Context) error {
	if len(r.last) == 0 {
		return nil
	}
	var all []*kgo.Record
	for _, rec := range r.last {
		all = append(all, rec)
	}
	clear(r.last)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	if err := r.client.CommitRecords(ctx, all...); err != nil {
		return app.Refused(fmt.Sprintf("commit for group %s: the last printed records will be read again", r.group), err, "")
	}
	return nil
}
