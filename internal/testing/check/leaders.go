package check

import (
	"fmt"
	"sync"
)

// Leaders is the history of who led partitions, as brokers named them. Its methods may be called
// concurrently.
type Leaders struct {
	mu       sync.Mutex
	leader   map[epochOf]int32
	seen     map[seenBy]int32 // the last leader epoch
	problems []string
}

type epochOf struct {
	partition string
	epoch     int32
}

type seenBy struct{ process, partition string }

// Named notes that a broker process named the leader of a partition in a leader epoch; leader is
// negative if it named none. The epochs must come in the order in which the process answered.
func (l *Leaders) Named(process, partition string, epoch, leader int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader == nil {
		l.leader, l.seen = map[epochOf]int32{}, map[seenBy]int32{}
	}
	by := seenBy{process, partition}
	if last := l.seen[by]; epoch < last {
		l.problems = append(l.problems, fmt.Sprintf("epochs: %s named epoch %d of %s after epoch %d", process, epoch, partition, last))
	}
	l.seen[by] = epoch
	if leader < 0 {
		return // a broker without a lease names none
	}
	of := epochOf{partition, epoch}
	if was, ok := l.leader[of]; ok && was != leader {
		l.problems = append(l.problems, fmt.Sprintf("leaders: broker %d and broker %d led %s in epoch %d", was, leader, partition, epoch))
	}
	l.leader[of] = leader
}

// Problems returns what contradicts the promise:
//
//	epochs   a process that named an earlier leader epoch after a later one
//	leaders  two brokers that led in one epoch
func (l *Leaders) Problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.problems...)
}
