package brokers

import (
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

// waits returns what the requests of a broker wait for; nothing if it does not run.
func (w *world) waits(id int32) (list []view.WaitStep) {
	n := w.nodes[id]
	n.mu.Lock()
	p := n.process
	n.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.over:
	default:
		return nil
	}
	if p.broker == nil {
		return nil
	}
	for _, x := range p.broker.Waits(view.MaxWaits).List {
		list = append(list, x.Steps...)
	}
	return list
}

// While the disk of one broker hangs, it says that its acks wait for its journal, and those of
// another broker, which still has it in sync, wait for that broker.
func TestAcksSayWhichBrokerTheyWaitFor(t *testing.T) {
	history(t, 31, func(w *world, c *clients) {
		heal := w.ail(2, hanging, time.Hour)
		defer heal()
		var last [4][]view.WaitStep
		seen := map[int32]bool{}
		err := until(patience, func() bool {
			for id := range int32(3) {
				id++
				last[id] = w.waits(id)
				seen[id] = seen[id] || slices.ContainsFunc(last[id], func(s view.WaitStep) bool {
					if id == 2 {
						return s.Step == view.StepJournal && s.Dir == logDir
					}
					return s.Step == view.StepReplication && slices.Equal(s.Brokers, []int32{2})
				})
				if slices.ContainsFunc(last[id], func(s view.WaitStep) bool {
					return s.Step == view.StepReplication && s.Partition != "" && slices.Equal(s.Brokers, []int32{id})
				}) {
					w.problem("broker %d says that it waits for itself: %+v", id, last[id])
				}
			}
			return seen[2] && (seen[1] || seen[3])
		})
		if err != nil {
			w.problem("the waits do not name broker 2: %+v", last[1:])
		}
		heal()
		c.inSync()
	})
}
