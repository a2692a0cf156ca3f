package records

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/ctl/app"
)

// commitTime bounds the last commit of a member that was interrupted.
const commitTime = 5 * time.Second

// assigned and revoked are called by the client's goroutine of the group; the
// reader looks at what they noted after its next poll.
func (r *reader) assigned(_ context.Context, _ *kgo.Client, now map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
	r.news = append(r.news, now[r.topic]...)
	for _, p := range now[r.topic] {
		r.own[p] = true
	}
}

func (r *reader) revoked(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = append(r.gone, lost[r.topic]...)
	for _, p := range lost[r.topic] {
		delete(r.own, p)
	}
	r.news = slices.DeleteFunc(r.news, func(p int32) bool { return slices.Contains(lost[r.topic], p) })
}

// offered refuses a broker that does not have the protocol which was asked for:
// the client would join under the other one.
func (r *reader) offered(ctx context.Context) error {
	if r.protocol != nextGen {
		return nil
	}
	brokers, err := r.admin.ApiVersions(ctx)
	if err != nil {
		return app.Refused("consume "+r.topic, app.Words(err), "")
	}
	for _, b := range brokers.Sorted() {
		if newest, ok := b.KeyMaxVersion(int16(kmsg.ConsumerGroupHeartbeat)); b.Err == nil && (!ok || newest < 1) {
			return fmt.Errorf("group %s: broker %d does not offer consumer groups (KIP-848, ConsumerGroupHeartbeat 1); leave --group-protocol out", r.group, b.NodeID)
		}
	}
	return nil
}

// awaits says whether partitions are meant for this member that did not come yet.
// Under the consumer protocol a member begins with none while others still hold
// them; under the classic one the first assignment is whole.
func (r *reader) awaits(ctx context.Context) (bool, error) {
	if r.protocol != nextGen {
		return false, nil
	}
	found, err := r.admin.DescribeConsumerGroups(ctx, r.group)
	if err = errors.Join(err, found[r.group].Err); err != nil {
		return false, app.Refused("group "+r.group, app.Words(err), "")
	}
	id, _ := r.client.GroupMetadata()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range found[r.group].Members {
		if m.MemberID != id {
			continue
		}
		for p := range m.TargetAssignment[r.topic] {
			if !r.own[p] {
				return true, nil
			}
		}
	}
	return false, nil
}

// reassign learns what this member has to read of the partitions that it got,
// and forgets those that it lost.
func (r *reader) reassign(ctx context.Context) error {
	r.mu.Lock()
	news, gone := r.news, r.gone
	r.news, r.gone = nil, nil
	r.mu.Unlock()
	for _, p := range gone {
		delete(r.left, p)
	}
	if len(news) == 0 || r.endless() {
		return nil
	}
	committed, err := r.admin.FetchOffsetsForTopics(ctx, r.group, r.topic)
	if err != nil {
		return app.Refused("offsets of group "+r.group, app.Words(err), "")
	}
	at := map[int32]int64{}
	var begun []int32
	for _, p := range news {
		if o, ok := committed.Lookup(r.topic, p); ok && o.Err == nil && o.At >= 0 {
			at[p] = o.At
		} else if r.lost[p] == nil {
			begun = append(begun, p)
		}
	}
	fresh, err := r.fresh(ctx, begun)
	if err != nil {
		return err
	}
	maps.Copy(at, fresh)
	for p, next := range at {
		x := r.ends[r.topic][p]
		if next = max(next, x.Start); next < x.End && r.lost[p] == nil {
			r.left[p] = span{next, x.End}
		}
	}
	return nil
}

// fresh is where partitions are begun of which the group has committed nothing.
func (r *reader) fresh(ctx context.Context, some []int32) (map[int32]int64, error) {
	own := app.OffsetRanges{r.topic: map[int32]app.OffsetRange{}}
	for _, p := range some {
		own[r.topic][p] = r.ends[r.topic][p]
	}
	return r.find(ctx, own, r.begin)
}

// commit stores how far the member has printed. An interrupt does not keep it
// from that: what was printed would come again.
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
		return app.Refused(fmt.Sprintf("commit for group %s: what was printed last will come again", r.group), err, "")
	}
	return nil
}
