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
	rates Rates
	begun bool // the rates are set
	stay  bool // release has left the rates to other moves
}

func newLimit(adm *kadm.Client, cl *kgo.Client, rate int64) *limit {
	return &limit{adm: adm, cl: cl, rate: rate, named: map[partition]bool{}, rates: Rates{Client: cl, What: "bound the rate of copies",
		Names: []string{leaderRate, followerRate}, Value: strconv.FormatInt(rate, 10)}}
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
		found, moving, err := l.unname(ctx, topics) // so that lists stay short
		if err != nil {
			return err
		}
		if err := l.begin(ctx, found || moving); err != nil {
			return err
		}
	}
	runs, ids, _, err := l.brokers(ctx)
	if err != nil {
		return err
	}
	if err := l.rates.Set(ctx, runs, ids); err != nil {
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

// begin notes the rates that an operator has set, before the first ones of the run. If others are
// moving, or have left names, the rates may be theirs.
func (l *limit) begin(ctx context.Context, others bool) error {
	if l.begun {
		return nil
	}
	if !others {
		_, _, running, err := l.brokers(ctx)
		if err != nil {
			return err
		}
		if err := l.rates.Note(ctx, running); err != nil {
			return err
		}
	}
	l.begun = true
	return nil
}

// release removes the names of replicas of partitions that no longer move. When nothing moves any
// more, the rates are as before.
func (l *limit) release(ctx context.Context, topics map[string]bool, note func(format string, args ...any)) error {
	if len(topics) == 0 {
		return nil
	}
	found, moving, err := l.unname(ctx, topics)
	if err != nil {
		return err
	}
	l.stay = l.rate > 0 && moving
	if !found && l.rate == 0 || moving { // the rates are those of other moves, too
		return nil
	}
	runs, ids, running, err := l.brokers(ctx)
	if err != nil {
		return err
	}
	if !l.begun { // what an interrupted run has left
		if found {
			return l.rates.Remove(ctx, runs, ids)
		}
		note = func(string, ...any) {}
	}
	return l.rates.End(ctx, runs, ids, running, note)
}

// unname removes the names of replicas of partitions that no longer move. It reports whether there
// were any, and whether any partition of the cluster moves.
func (l *limit) unname(ctx context.Context, topics map[string]bool) (found, moves bool, err error) {
	configs, err := l.adm.DescribeTopicConfigs(ctx, slices.Sorted(maps.Keys(topics))...)
	if err != nil {
		return false, false, app.Refused("read the limits of copies", app.BrokerError(err), "")
	}
	moving, err := app.Moves(ctx, l.adm)
	if err != nil {
		return false, false, err
	}
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
			return found, false, err
		}
		if err := l.change(ctx, kadm.DeleteConfig, r.Name, all); err != nil {
			return found, false, err
		}
	}
	return found, len(moving) > 0, nil
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

// brokers returns one that runs, all that are registered, and those of them that are active. The
// others have the rates, too: they would have one for ever, and unsaid.
func (l *limit) brokers(ctx context.Context) (runs int32, ids, running []int32, err error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	all, err := req.RequestWith(ctx, l.cl)
	if err == nil {
		err = kerr.ErrorForCode(all.ErrorCode)
	}
	if err != nil {
		return 0, nil, nil, app.Refused("list brokers", app.BrokerError(err), "")
	}
	for i := range all.Brokers {
		ids = append(ids, all.Brokers[i].NodeID)
		if !all.Brokers[i].IsFenced {
			running = append(running, all.Brokers[i].NodeID)
		}
	}
	return all.ControllerID, ids, running, nil
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
