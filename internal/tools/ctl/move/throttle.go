package move

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// The topic configs that name the replicas whose copies are bounded, and the broker configs with
// the rates.
const (
	leaderRate       = "leader.replication.throttled.rate"
	followerRate     = "follower.replication.throttled.rate"
	leaderReplicas   = "leader.replication.throttled.replicas"
	followerReplicas = "follower.replication.throttled.replicas"
)

// limit bounds the rate of copies, in Kafka's way: each broker has a rate, which
// counts for the replicas that the topics name. It is in the metadata, so it outlives an
// interruption; release removes what no move needs any more.
type limit struct {
	adm   *kadm.Client
	cl    *kgo.Client
	rate  int64 // 0: none
	named map[partition]bool
	stay  bool // release has left the rates to other moves
}

// ahead is how many moves are named before they begin. All brokers apply each change of a topic's
// configs to all of its partitions, so moves that were named one after the other would delay
// clients. Longer lists could exceed the length that a request permits.
const ahead = 250

// set names the replicas of moves that are about to begin, and of those that follow. What is named
// already, and has not been removed by another command, changes nothing.
func (l *limit) set(ctx context.Context, moves, next []Move) error {
	copying := func(list []Move) []Move {
		return slices.DeleteFunc(slices.Clone(list), func(m Move) bool { return len(m.adds()) == 0 })
	}
	copies := copying(moves)
	if l.rate == 0 || len(copies) == 0 {
		return nil
	}
	if slices.ContainsFunc(copies, func(m Move) bool { return !l.named[m.partition] }) {
		copies = append(copies, copying(next[:min(len(next), ahead)])...)
		topics := map[string]bool{}
		for _, m := range copies {
			topics[m.topic] = true
			l.named[m.partition] = true
		}
		if err := l.release(ctx, topics); err != nil { // so that lists stay short
			return err
		}
	}
	rate := strconv.FormatInt(l.rate, 10)
	if err := l.rates(ctx, kmsg.IncrementalAlterConfigOpSet, &rate); err != nil {
		return err
	}
	byTopic := map[string]map[string][]string{}
	for _, m := range copies {
		if byTopic[m.topic] == nil {
			byTopic[m.topic] = map[string][]string{}
		}
		byTopic[m.topic][leaderReplicas] = append(byTopic[m.topic][leaderReplicas], entries(m.n, m.from)...)
		byTopic[m.topic][followerReplicas] = append(byTopic[m.topic][followerReplicas], entries(m.n, m.adds())...)
	}
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		if err := l.change(ctx, kadm.AppendConfig, topic, byTopic[topic]); err != nil {
			return err
		}
	}
	return nil
}

func entries(partition int32, brokers []int32) (list []string) {
	for _, b := range brokers {
		list = append(list, fmt.Sprintf("%d:%d", partition, b))
	}
	return list
}

// release removes the names of replicas of partitions that no longer move, and the rates when
// nothing moves any more.
func (l *limit) release(ctx context.Context, topics map[string]bool) error {
	if len(topics) == 0 {
		return nil
	}
	configs, err := l.adm.DescribeTopicConfigs(ctx, slices.Sorted(maps.Keys(topics))...)
	if err != nil {
		return app.Refused("read the limits of copies", app.BrokerError(err), "")
	}
	moving, err := app.Moves(ctx, l.adm)
	if err != nil {
		return err
	}
	found := false
	for _, r := range configs {
		gone, all := map[string][]string{}, map[string][]string{}
		for _, kv := range r.Configs {
			if kv.Key != leaderReplicas && kv.Key != followerReplicas {
				continue
			}
			names := strings.Split(kv.MaybeValue(), ",")
			for _, entry := range names {
				partition, _, named := strings.Cut(entry, ":")
				n, err := strconv.ParseInt(strings.TrimSpace(partition), 10, 32)
				if _, goesOn := moving[r.Name][int32(n)]; named && err == nil && !goesOn {
					gone[kv.Key] = append(gone[kv.Key], entry)
				}
			}
			if len(gone[kv.Key]) == len(names) {
				all[kv.Key] = nil
				delete(gone, kv.Key)
			}
		}
		found = found || len(gone)+len(all) > 0
		if err := l.change(ctx, kadm.SubtractConfig, r.Name, gone); err != nil {
			return err
		}
		if err := l.change(ctx, kadm.DeleteConfig, r.Name, all); err != nil {
			return err
		}
	}
	l.stay = l.rate > 0 && len(moving) > 0
	if !found && l.rate == 0 || len(moving) > 0 { // the rates are those of other moves, too
		return nil
	}
	return l.rates(ctx, kmsg.IncrementalAlterConfigOpDelete, nil)
}

// change appends names of replicas to configs of a topic, or removes them or the configs.
func (l *limit) change(ctx context.Context, op kadm.IncrementalOp, topic string, lists map[string][]string) error {
	if len(lists) == 0 {
		return nil
	}
	var changes []kadm.AlterConfig
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		value := strings.Join(lists[name], ",")
		changes = append(changes, kadm.AlterConfig{Op: op, Name: name, Value: &value})
	}
	answers, err := l.adm.AlterTopicConfigs(ctx, changes, topic)
	return refusedLimit("bound the copies of "+topic, answers, err)
}

// rates changes the rates of all registered brokers, also of those that are not active now: they
// would keep a rate for ever, and unsaid.
func (l *limit) rates(ctx context.Context, op kmsg.IncrementalAlterConfigOp, value *string) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	all, err := req.RequestWith(ctx, l.cl)
	if err == nil {
		err = kerr.ErrorForCode(all.ErrorCode)
	}
	if err != nil {
		return app.Refused("list brokers", app.BrokerError(err), "")
	}
	var ids []int32
	for i := range all.Brokers {
		ids = append(ids, all.Brokers[i].NodeID)
	}
	var changes []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for _, name := range []string{leaderRate, followerRate} {
		changes = append(changes, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Op: op, Value: value})
	}
	return AlterBrokers(ctx, l.cl, all.ControllerID, "bound the rate of copies", ids, changes...)
}

// AlterBrokers changes dynamic configs of brokers. It asks one that runs, as the others may be
// down.
func AlterBrokers(ctx context.Context, cl *kgo.Client, runs int32, what string, ids []int32,
	changes ...kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, id := range ids {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.Configs = kmsg.ConfigResourceTypeBroker, fmt.Sprint(id), changes
		req.Resources = append(req.Resources, r)
	}
	answer, err := cl.Broker(int(runs)).RetriableRequest(ctx, req)
	if err != nil {
		return app.Refused(what, app.BrokerError(err), "")
	}
	for _, r := range answer.(*kmsg.IncrementalAlterConfigsResponse).Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return app.Refused(what, app.Needs(app.BrokerError(err), app.OnCluster("alter-configs")), app.OrEmpty(r.ErrorMessage))
		}
	}
	return nil
}

func refusedLimit(what string, answers kadm.AlterConfigsResponses, err error) error {
	if err != nil {
		return app.Refused(what, app.BrokerError(err), "")
	}
	for _, x := range answers {
		if x.Err != nil {
			return app.Refused(what+" ("+x.Name+")", x.Err, x.ErrMessage)
		}
	}
	return nil
}
