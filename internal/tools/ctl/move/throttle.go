package move

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/text"
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
	adm    *kadm.Client
	cl     *kgo.Client
	rate   int64 // 0: none
	note   func(format string, args ...any)
	named  map[partition]bool
	rates  Rates
	begun  bool           // the run sets rates
	others bool           // others were moving when it began, or had left names: the rates may be theirs
	asked  map[int32]bool // active brokers whose rates the run has asked for
	said   map[int32]bool // brokers that were reported as not read
	stay   bool           // release has left the rates to other moves
}

func newLimit(adm *kadm.Client, cl *kgo.Client, rate int64, note func(format string, args ...any)) *limit {
	return &limit{adm: adm, cl: cl, rate: rate, note: note, named: map[partition]bool{}, asked: map[int32]bool{}, said: map[int32]bool{},
		rates: Rates{Client: cl, What: "bound the rate of copies", Names: []string{leaderRate, followerRate},
			Value: strconv.FormatInt(rate, 10)}}
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
		if !l.begun {
			l.begun, l.others = true, found || moving
		}
	}
	runs, ids, running, err := l.brokers(ctx)
	if err != nil {
		return err
	}
	if err := l.read(ctx, ids, running); err != nil {
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

// read notes the rates of brokers before the run changes them, and of others when they become
// active. One that does not answer is asked once: each question lasts until its timeout.
func (l *limit) read(ctx context.Context, ids, running []int32) error {
	maps.DeleteFunc(l.asked, func(id int32, _ bool) bool { return !slices.Contains(running, id) })
	ask := slices.DeleteFunc(slices.Clone(running), func(id int32) bool { return l.asked[id] })
	if err := l.rates.Note(ctx, ask, l.others); err != nil {
		return err
	}
	for _, id := range ask {
		l.asked[id] = true
	}
	l.unread(slices.DeleteFunc(slices.Clone(ids), l.rates.Noted))
	return nil
}

// unread reports brokers whose rates stay as they are, because nothing could restore them.
func (l *limit) unread(ids []int32) {
	var commands []string
	ids = slices.DeleteFunc(ids, func(id int32) bool { return l.said[id] })
	for _, id := range ids {
		l.said[id] = true
		commands = append(commands,
			fmt.Sprintf("chronikctl config set broker %d %s=%d %s=%d", id, leaderRate, l.rate, followerRate, l.rate))
	}
	if len(ids) > 0 {
		l.note("--throttle does not change the rates of broker %s, which cannot be read; to set it there: %s; to remove it: %s",
			text.Numbers(ids), strings.Join(commands, ", "), strings.Join(unsets(ids), ", "))
	}
}

// unsets returns the commands that remove the rates of brokers.
func unsets(ids []int32) (commands []string) {
	for _, id := range ids {
		commands = append(commands, fmt.Sprintf("chronikctl config unset broker %d %s %s", id, leaderRate, followerRate))
	}
	return commands
}

// release removes the names of replicas of partitions that no longer move. When nothing moves any
// more, the rates are as before. The names are last: if the rates fail, the same command finds
// them.
func (l *limit) release(ctx context.Context, topics map[string]bool) error {
	if len(topics) == 0 {
		return nil
	}
	stale, err := l.stale(ctx, topics)
	if err != nil {
		return l.notRead(err)
	}
	found := len(stale.names) > 0
	l.stay = l.rate > 0 && stale.moves && (l.begun || found)
	if !stale.moves { // otherwise the rates are those of other moves, too
		if err := l.end(ctx, found); err != nil {
			return err
		}
	}
	if found {
		_, _, err = l.unname(ctx, topics)
		return err
	}
	return l.notRead(stale.unread)
}

// notRead returns why names were not read at the end, or says it if this run has limited nothing:
// the moves have succeeded.
func (l *limit) notRead(err error) error {
	if err == nil || l.rate > 0 || l.begun {
		return err
	}
	l.note("%v; a former run with --throttle may have left limits there", err)
	return nil
}

// end restores the rates if the run has set any, and otherwise removes what the same command has
// left. It leaves those of another command, which may be an operator's.
func (l *limit) end(ctx context.Context, found bool) error {
	if !l.begun && !found {
		return nil
	}
	runs, ids, running, err := l.brokers(ctx)
	if err != nil {
		return err
	}
	switch {
	case l.begun:
		return l.rates.End(ctx, runs, ids, running, l.note)
	case l.rate > 0:
		read, err := l.rates.Remove(ctx, runs, running)
		if err != nil {
			return err
		}
		l.unread(slices.DeleteFunc(ids, func(id int32) bool { return slices.Contains(read, id) }))
		return nil
	}
	now, err := l.rates.read(ctx, running)
	if err != nil && len(now) == 0 {
		return err
	}
	maps.DeleteFunc(now, func(_ int32, set map[string]string) bool { return len(set) == 0 })
	if len(now) > 0 {
		l.note("the rates of copies stay on the brokers; if a command with --throttle has left them, these remove them: %s",
			strings.Join(unsets(slices.Sorted(maps.Keys(now))), ", "))
	}
	return nil
}

// names are names of replicas that no move needs, by config of a topic. The configs in all have no
// others, and are removed.
type names struct {
	topic     string
	some, all map[string][]string
}

// unname removes the names of replicas of partitions that no longer move. It reports whether there
// were any, and whether any partition of the cluster moves.
func (l *limit) unname(ctx context.Context, topics map[string]bool) (found, moves bool, err error) {
	stale, err := l.stale(ctx, topics)
	if err != nil {
		return false, false, err
	}
	for _, x := range stale.names {
		if err := l.change(ctx, kadm.SubtractConfig, x.topic, x.some); err != nil {
			return true, false, err
		}
		if err := l.change(ctx, kadm.DeleteConfig, x.topic, x.all); err != nil {
			return true, false, err
		}
	}
	return len(stale.names) > 0, stale.moves, stale.unread
}

// leftNames are the names of replicas of partitions that no longer move, and whether any partition
// of the cluster moves. unread is why the names of a topic are not known; nil: they are.
type leftNames struct {
	names  []names
	moves  bool
	unread error
}

// stale returns the names that are left in the configs of topics.
func (l *limit) stale(ctx context.Context, topics map[string]bool) (left leftNames, err error) {
	configs, err := l.adm.DescribeTopicConfigs(ctx, slices.Sorted(maps.Keys(topics))...)
	if err != nil {
		return left, app.Refused("read the limits of copies", app.BrokerError(err), "")
	}
	moving, err := app.Moves(ctx, l.adm)
	if err != nil {
		return left, err
	}
	left.moves = len(moving) > 0
	for _, r := range configs {
		if r.Err != nil && !errors.Is(r.Err, kerr.UnknownTopicOrPartition) && left.unread == nil { // a deleted topic has no names
			left.unread = app.Refused("read the limits of copies ("+r.Name+")", r.Err, r.ErrMessage)
		}
		x := names{r.Name, map[string][]string{}, map[string][]string{}}
		for _, kv := range r.Configs {
			if kv.Key != leaderReplicas && kv.Key != followerReplicas {
				continue
			}
			entries := strings.Split(kv.MaybeValue(), ",")
			for _, entry := range entries {
				partition, _, named := strings.Cut(entry, ":")
				n, err := strconv.ParseInt(strings.TrimSpace(partition), 10, 32)
				if _, goesOn := moving[r.Name][int32(n)]; named && err == nil && !goesOn {
					x.some[kv.Key] = append(x.some[kv.Key], entry)
				}
			}
			if len(x.some[kv.Key]) == len(entries) {
				x.all[kv.Key] = nil
				delete(x.some, kv.Key)
			}
		}
		if len(x.some)+len(x.all) > 0 {
			left.names = append(left.names, x)
		}
	}
	return left, nil
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

// brokers returns one that runs, all that are registered, and those of them that are active.
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
