package controller

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
)

// Assignment names the replicas of one partition, the preferred leader first.
type Assignment struct {
	Partition int32
	Brokers   []int32
}

// candidate is a registered broker, which may get replicas.
type candidate struct {
	id     int32
	rack   string
	active bool
	state  metadata.Compare // that its state is as it was read
	used   bool             // the transaction has that condition
}

// candidates returns the registered brokers, ascending.
func (c *Controller) candidates(ctx context.Context) ([]candidate, error) {
	kvs, _, err := c.opts.Store.Range(ctx, metadata.BrokerPrefix)
	if err != nil {
		return nil, err
	}
	list := make([]candidate, 0, len(kvs))
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
		list = append(list, candidate{id: b.ID, rack: b.Rack, active: state.Liveness == metadata.Active, state: unchanged(kv)})
	}
	slices.SortFunc(list, func(a, b candidate) int { return int(a.id) - int(b.id) })
	return list, nil
}

func idsOf(list []candidate) []int32 {
	ids := make([]int32, len(list))
	for i, b := range list {
		ids[i] = b.id
	}
	return ids
}

// spread assigns replicas to partitions: the leaders are assigned round-robin to the active
// brokers. Each follower is in a rack that the partition does not have yet, if there is one,
// otherwise on any other broker; of several, the one with the fewest replicas of this assignment,
// and then the next one after the leader. Brokers that are not active get replicas only if there
// are too few others. The error is an *Error.
func spread(brokers []candidate, partitions int32, rf int) ([][]int32, error) {
	if rf > len(brokers) {
		return nil, refuse(InvalidReplicationFactor, "Unable to replicate the partition %d time(s): The target replication factor of %d "+
			"cannot be reached because only %d broker(s) are registered.", rf, rf, len(brokers))
	}
	order, active := slices.Clone(brokers), 0
	slices.SortStableFunc(order, func(a, b candidate) int { return rank(a) - rank(b) })
	for active < len(order) && order[active].active {
		active++
	}
	if active == 0 {
		return nil, refuse(InvalidReplicationFactor, "Unable to replicate the partition %d time(s): All brokers are currently fenced.", rf)
	}
	start, load := rand.IntN(active), make([]int, len(order))
	out := make([][]int32, partitions)
	for i := range out {
		leader := (start + i) % active
		chosen := []int{leader}
		for len(chosen) < rf {
			chosen = append(chosen, nextReplica(order, active, chosen, load))
		}
		for _, at := range chosen {
			load[at]++
			out[i] = append(out[i], order[at].id)
		}
	}
	return out, nil
}

func rank(c candidate) int {
	if c.active {
		return 0
	}
	return 1
}

// nextReplica returns the index of the next replica of a partition whose leader is chosen[0]. The
// first entries of order are active.
func nextReplica(order []candidate, active int, chosen, load []int) int {
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
		if at >= active {
			score += 2 * (MaxPartitions + 1)
		}
		if best < 0 || score < bestScore {
			best, bestScore = at, score
		}
	}
	return best
}

// checkReplicas refuses an invalid manual assignment of one partition. rf is the replication factor
// of the earlier partitions, 0 for the first.
func checkReplicas(replicas, brokers []int32, rf int) error {
	const head = "The manual partition assignment includes "
	if len(replicas) == 0 {
		return refuse(InvalidReplicaAssignment, head+"an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, b := range sorted {
		if !slices.Contains(brokers, b) {
			return refuse(InvalidReplicaAssignment, head+"broker %d, but no such broker is registered.", b)
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

// addPartitions adds new partitions to a transaction, numbered from first on. Their active replicas
// are in sync, and the first of them leads; each must have one. The transaction requires that the
// state of their brokers has not changed: a broker that is fenced meanwhile would remain leader.
func addPartitions(txn *metadata.Txn, id [16]byte, first int32, replicas [][]int32, brokers []candidate) {
	for i, list := range replicas {
		p := metadata.Partition{Replicas: list}
		for _, b := range list {
			at, _ := slices.BinarySearchFunc(brokers, b, func(c candidate, id int32) int { return int(c.id) - int(id) })
			if brokers[at].active {
				p.ISR = append(p.ISR, b)
			}
			if !brokers[at].used {
				brokers[at].used, txn.If = true, append(txn.If, brokers[at].state)
			}
		}
		p.Leader = p.ISR[0]
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.PartitionKey(id, first+int32(i)), Value: p.Encode()})
	}
}

// checkActive refuses a manual assignment of a partition to brokers none of which is active.
func checkActive(replicas []int32, brokers []candidate) error {
	for _, b := range brokers {
		if b.active && slices.Contains(replicas, b.id) {
			return nil
		}
	}
	return refuse(InvalidReplicaAssignment,
		"All brokers specified in the manual partition assignment are fenced or in controlled shutdown.")
}
