package observe

import (
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

// key identifies a group of partitions without a leader.
func key(l *view.Leaderless) string {
	return fmt.Sprint(l.Why, " ", text.Numbers(l.Brokers), l.Sole, l.Lossless)
}

// leaderless returns why a partition has no leader; its name is not added.
func leaderless(img *metadata.Image, tp metadata.TopicPartition, p *metadata.Partition) view.Leaderless {
	could := slices.Concat(p.ISR, p.ELR)
	if len(could) == 0 {
		switch {
		case p.Last.IsZero() && img.Recovered().UnixMilli() > 0:
			return view.Leaderless{Why: view.Recovered, Brokers: without(img, p.Replicas, tp),
				Lossless: img.FeatureLevel() >= metadata.LedLevel}
		case p.Last.IsZero():
			return view.Leaderless{Why: view.ForDirectory, Brokers: p.Replicas}
		case p.Last.Lossy:
			return view.Leaderless{Why: view.Lossy, Brokers: absent(img, p.Replicas)}
		}
		could = []int32{p.Last.Broker}
	}
	slices.Sort(could)
	there := slices.DeleteFunc(slices.Clone(could), func(id int32) bool { return !active(img, id) || !hasLog(img, id, tp) })
	switch {
	case len(there) == 1 && len(could) > 1 && !img.Compared(there[0], tp):
		return view.Leaderless{Why: view.Comparison, Brokers: slices.DeleteFunc(could, func(id int32) bool { return id == there[0] })}
	case len(there) > 0:
		return view.Leaderless{Why: view.Elected, Brokers: could}
	}
	if away := absent(img, could); len(away) > 0 {
		return view.Leaderless{Why: view.ForBrokers, Brokers: away, Sole: len(away) == len(p.Replicas)}
	}
	return view.Leaderless{Why: view.ForDirectory, Brokers: could, Sole: len(p.Replicas) == 1 && len(img.Brokers()) > 1}
}

func active(img *metadata.Image, broker int32) bool {
	state, _ := img.Liveness(broker)
	return state == metadata.Active
}

func absent(img *metadata.Image, brokers []int32) (list []int32) {
	for _, id := range brokers {
		if !active(img, id) {
			list = append(list, id)
		}
	}
	return list
}

// without returns the brokers whose replica cannot take part in an election.
func without(img *metadata.Image, brokers []int32, tp metadata.TopicPartition) (list []int32) {
	for _, id := range brokers {
		if !active(img, id) || !hasLog(img, id, tp) {
			list = append(list, id)
		}
	}
	return list
}

// hasLog reports whether the log directory with a broker's replica is registered and works, and the
// log is intact.
func hasLog(img *metadata.Image, broker int32, tp metadata.TopicPartition) bool {
	dir, placed := img.Placement(broker, tp)
	b, ok := img.Broker(broker)
	if !placed || !ok {
		return false
	}
	if p := img.Partition(tp); !p.Last.IsZero() && p.Last.Broker == broker && p.Last.Dir != dir {
		return false
	}
	state, _ := img.State(broker)
	works, _ := b.Able(&state, dir)
	return works && !slices.Contains(state.Damaged, tp)
}
