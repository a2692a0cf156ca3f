package configdef

import (
	"math"
	"strconv"
	"strings"
)

// The names of the broker configs that bound the rate of copies. Only the replicas that topic
// configs name are bounded.
const (
	LeaderRate   = "leader.replication.throttled.rate"
	FollowerRate = "follower.replication.throttled.rate"
	// MoveRate is for logs that move between the directories of a broker.
	MoveRate = "replica.alter.log.dirs.io.max.bytes.per.second"
)

const unlimited = "9223372036854775807"

func throttleDefs() []*Def {
	const words = "*, or a list of PARTITION:BROKER"
	return []*Def{
		topicDef("leader.replication.throttled.replicas", List, "",
			"The replicas for which leader.replication.throttled.rate applies to the broker, as the leader of the partition.",
			bounded(words, throttledReplicas)),
		topicDef("follower.replication.throttled.replicas", List, "",
			"The replicas for which follower.replication.throttled.rate applies to the broker, as a follower.",
			bounded(words, throttledReplicas)),
	}
}

func throttledReplicas(d *Def, v value) error {
	if _, ok := parseThrottled(v.list); !ok {
		return d.invalid(strings.Join(v.list, ","), d.Name+" must be the literal '*' or a list of replicas in the following format: "+
			"[partitionId]:[brokerId],[partitionId]:[brokerId],...")
	}
	return nil
}

// Throttled is a set of replicas of a topic. It never changes.
type Throttled struct {
	all  bool
	some map[[2]int32]bool // partition and broker
}

// Has reports whether the replica of a partition on a broker is in the set.
func (t *Throttled) Has(partition, broker int32) bool {
	return t.all || t.some[[2]int32{partition, broker}]
}

func parseThrottled(list []string) (t Throttled, ok bool) {
	if len(list) == 1 && list[0] == "*" {
		return Throttled{all: true}, true
	}
	for _, s := range list {
		partition, broker, cut := strings.Cut(strings.TrimSpace(s), ":")
		p, err := strconv.ParseInt(partition, 10, 32)
		b, err2 := strconv.ParseInt(broker, 10, 32)
		if !cut || err != nil || err2 != nil || p < 0 || b < 0 {
			return Throttled{}, false
		}
		if t.some == nil {
			t.some = map[[2]int32]bool{}
		}
		t.some[[2]int32{int32(p), int32(b)}] = true
	}
	return t, true
}

func (f *reader) throttled(name string) Throttled {
	t, _ := parseThrottled(f.value(name).list) // it was checked
	return t
}

// CopyRate resolves LeaderRate or FollowerRate. It returns 0 if there is no limit, and at least 1
// otherwise.
func (r *Registry) CopyRate(name string, l Layers) int64 {
	n, err := strconv.ParseInt(r.resolve(r.broker[name], l).Value, 10, 64)
	if err != nil || n == math.MaxInt64 {
		return 0
	}
	return max(n, 1)
}
