package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/sorts"
)

// Assignment names the replicas of one partition, the preferred leader first.
type Assignment struct {
	Partition int32
	Brokers   []int32
}

// candidate is a registered broker, which may get replicas.
type candidate struct {
	id    int32
	rack  string
	fit   fitness
	state []metadata.Compare // that its state and its configs are as they were read
	used  bool               // the transaction has these conditions
}

// fitness is how well a broker can take new replicas. Those on brokers of the best fitness are in
// sync and lead; a broker of another one gets replicas only if there are too few others.
type fitness int

const (
	// able: it is active, and a log directory of it takes records.
	able fitness = iota
	// slow: it is active, and its log directories hang or are low on space, or other brokers cannot
	// connect to it.
	slow
	// unfit: it is not active, or no log directory of it works.
	unfit
	// drained: an operator has moved its replicas away, and has not ended that. It gets none.
	drained
	// voter: it has no log directories, so it gets no replicas.
	voter
)

// takes reports whether a broker may get replicas. All that counts brokers for replicas asks it.
func (f fitness) takes() bool { return f < drained }

// fitnessOf returns how well a registered broker in a state, with these dynamic configs, can take
// new replicas. All that places replicas asks it.
func fitnessOf(b *metadata.Broker, state *metadata.BrokerState, configs map[string]string) fitness {
	works, writes := b.Able(state, [16]byte{})
	switch {
	case b.Votes():
		return voter
	case isDrained(configs):
		return drained
	case state.Liveness != metadata.Active || !works:
		return unfit
	case !writes:
		return slow
	}
	return able
}

// isDrained reports whether a broker with these dynamic configs is drained.
func isDrained(configs map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(configs[configdef.TakesReplicas]), "false")
}

// candidates returns the registered brokers, ascending.
func (c *Controller) candidates(ctx context.Context) ([]candidate, error) {
	kvs, _, err := c.opts.Store.Range(ctx, metadata.BrokerPrefix)
	if err != nil {
		return nil, err
	}
	list, shunned := make([]candidate, 0, len(kvs)), c.known(nil).shunned
	for _, kv := range kvs {
		b, err := metadata.DecodeBroker(kv)
		if err != nil {
			return nil, err
		}
		if kv, err = c.get(ctx, metadata.LivenessKey(b.ID)); err != nil {
			return nil, err
		}
		state, err := metadata.DecodeState(kv)
		if err != nil {
			return nil, err
		}
		own, err := c.get(ctx, metadata.BrokerConfigKey(b.ID))
		if err != nil {
			return nil, err
		}
		configs, err := metadata.DecodeConfigs(own)
		if err != nil {
			return nil, err
		}
		fit := fitnessOf(&b, &state, configs)
		if slices.Contains(shunned, b.ID) {
			fit = max(fit, slow)
		}
		list = append(list, candidate{id: b.ID, rack: b.Rack, fit: fit, state: []metadata.Compare{unchanged(kv), unchanged(own)}})
	}
	sorts.Sort(list, func(a, b candidate) int { return int(a.id) - int(b.id) })
	return list, nil
}

// spread assigns replicas to partitions: the leaders are assigned round-robin to the brokers of the
// best fitness. Each follower is in a rack that the partition does not have yet, if there is one,
// otherwise on any other broker; of several, the one with the fewest replicas of this assignment,
// and then the next one after the leader. Brokers that are less fit get replicas only if there are
// too few others. The error is an *Error.
func spread(brokers []candidate, partitions int32, rf int) ([][]int32, error) {
	order, fit := slices.DeleteFunc(slices.Clone(brokers), func(b candidate) bool { return !b.fit.takes() }), 0
	if rf > len(order) {
		return nil, refuse(InvalidReplicationFactor, "Unable to replicate the partition %d time(s): The target replication factor of %d "+
			"cannot be reached because only %d broker(s) are registered.%s", rf, rf, len(order), others(brokers))
	}
	sorts.SortStable(order, func(a, b candidate) int { return int(a.fit - b.fit) })
	for fit < len(order) && order[fit].fit == order[0].fit {
		fit++
	}
	if fit == 0 || order[0].fit == unfit {
		return nil, refuse(InvalidReplicationFactor, "Unable to replicate the partition %d time(s): All brokers are currently fenced, "+
			"or have no log directory that works.%s", rf, others(brokers))
	}
	// The leaders count before the first follower is chosen: otherwise a broker that leads late
	// gets followers early, and more replicas than others.
	start, load := rand.IntN(fit), make([]int, len(order))
	for i := range int(partitions) {
		load[(start+i)%fit]++
	}
	out := make([][]int32, partitions)
	for i := range out {
		leader := (start + i) % fit
		chosen := []int{leader}
		for len(chosen) < rf {
			next := nextReplica(order, chosen, load)
			load[next]++
			chosen = append(chosen, next)
		}
		for _, at := range chosen {
			out[i] = append(out[i], order[at].id)
		}
	}
	return out, nil
}

// others tells which brokers get no replicas, and why.
func others(brokers []candidate) (told string) {
	var voters, left []int32
	for i := range brokers {
		switch brokers[i].fit {
		case voter:
			voters = append(voters, brokers[i].id)
		case drained:
			left = append(left, brokers[i].id)
		}
	}
	if len(voters) > 0 {
		told = fmt.Sprintf(" Not counted: broker(s) %s, which only vote.", numbers(voters, ","))
	}
	if len(left) > 0 {
		told += fmt.Sprintf(" Not counted: broker(s) %s, which are drained; chronikctl broker drain %s --end gives them replicas again.",
			numbers(left, ","), numbers(left, " "))
	}
	return told
}

func numbers(ids []int32, separator string) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", separator)
}

// nextReplica returns the index of the next replica of a partition whose leader is chosen[0].
func nextReplica(order []candidate, chosen, load []int) int {
	best, bestScore := -1, 0
	for k := 1; k < len(order); k++ {
		at := (chosen[0] + k) % len(order)
		if slices.Contains(chosen, at) {
			continue
		}
		score := load[at] // at most MaxPartitions
		if slices.ContainsFunc(chosen, func(c int) bool { return order[c].rack == order[at].rack }) {
			score += MaxPartitions + 1
		}
		score += 2 * int(order[at].fit) * (MaxPartitions + 1)
		if best < 0 || score < bestScore {
			best, bestScore = at, score
		}
	}
	return best
}

// checkReplicas refuses an invalid manual assignment of one partition. had are the replicas that it
// has: they may stay on a drained broker. rf is the replication factor of the earlier partitions, 0
// for the first.
func checkReplicas(replicas, had []int32, brokers []candidate, rf int) error {
	const head = "The manual partition assignment includes "
	if len(replicas) == 0 {
		return refuse(InvalidReplicaAssignment, head+"an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, b := range sorted {
		at := slices.IndexFunc(brokers, func(c candidate) bool { return c.id == b })
		if at < 0 {
			return refuse(InvalidReplicaAssignment, head+"broker %d, but no such broker is registered.", b)
		}
		if brokers[at].fit == voter {
			return refuse(InvalidReplicaAssignment, head+"broker %d, which has no log directories: it only votes.", b)
		}
		if brokers[at].fit == drained && !slices.Contains(had, b) {
			return refuse(InvalidReplicaAssignment,
				head+"broker %d, which is drained: chronikctl broker drain %d --end gives it replicas again.", b, b)
		}
		if i > 0 && sorted[i-1] == b {
			return refuse(InvalidReplicaAssignment, head+"the broker %d more than once.", b)
		}
	}
	if rf > 0 && rf != len(replicas) {
		return refuse(InvalidReplicaAssignment, head+"a partition with %d replica(s), but this is not consistent with previous "+
			"partitions, which have %d replica(s).", len(replicas), rf)
	}
	return nil
}

// addPartitions adds new partitions to a transaction, numbered from first on. Of their replicas,
// those on brokers of the best fitness are in sync, and the first of them leads; the others join
// when they have a log. Each must have one that is not unfit. The transaction requires that the
// state of their brokers has not changed: a broker that is fenced meanwhile would remain leader.
func addPartitions(txn *metadata.Txn, id [16]byte, first int32, replicas [][]int32, brokers []candidate) {
	for i, list := range replicas {
		p, best := metadata.Partition{Replicas: list}, unfit
		for _, b := range list {
			at, _ := slices.BinarySearchFunc(brokers, b, func(c candidate, id int32) int { return int(c.id) - int(id) })
			c := &brokers[at]
			if c.fit < best {
				best, p.ISR = c.fit, nil
			}
			if c.fit == best && best != unfit {
				p.ISR = append(p.ISR, b)
			}
			if !c.used {
				c.used, txn.If = true, append(txn.If, c.state...)
			}
		}
		p.Leader = p.ISR[0]
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.PartitionKey(id, first+int32(i)), Value: p.Encode()})
	}
}

// checkFit refuses a manual assignment of a partition to brokers all of which are unfit.
func checkFit(replicas []int32, brokers []candidate) error {
	for _, b := range brokers {
		if b.fit != unfit && slices.Contains(replicas, b.id) {
			return nil
		}
	}
	return refuse(InvalidReplicaAssignment,
		"All brokers specified in the manual partition assignment are fenced or in controlled shutdown, or have no log directory that works.")
}
