package metadata

import "context"

// coalesceBytes bounds the events that the applier combines into one Image, except that a single
// transaction may be larger.
const coalesceBytes = 1 << 20

// size estimates the memory that the events of a batch use, in bytes.
func (b *Batch) size() int {
	n := 0
	for i := range b.Events {
		n += len(b.Events[i].Key) + len(b.Events[i].Value) + 64
	}
	return n
}

// gather adds to batches what the watcher has without waiting, up to about coalesceBytes. Any error
// of the watcher is left to the next call of Next, which returns it again.
func gather(watch Watcher, batches []Batch) []Batch {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for size := batches[0].size(); size < coalesceBytes; {
		b, err := watch.Next(ended)
		if err != nil {
			return batches
		}
		batches = append(batches, b)
		size += b.size()
	}
	return batches
}

// position is the position of an event in a list of batches.
type position struct{ batch, event int }

// lastEvents returns the position of the last event of each key. It returns nil if there is one
// batch, in which every event counts.
func lastEvents(batches []Batch) map[string]position {
	if len(batches) < 2 {
		return nil
	}
	last := map[string]position{}
	for i := range batches {
		for j := range batches[i].Events {
			last[batches[i].Events[j].Key] = position{i, j}
		}
	}
	return last
}
