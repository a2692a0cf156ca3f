package brokers

import (
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

// waits returns what the requests of a broker wait for; nothing if it does not run.
func (w *world) waits(id int32) (list []view.WaitStep) {
	p := w.process(id)
	if p == nil {
		return nil
	}
	for _, x := range p.broker.Waits(view.MaxWaits).List {
		list = append(list, x.Steps...)
	}
	return list
}

// While the disk of one broker hangs, the others say that their acks wait for that broker, and it
// says that its own wait for its journal. A leader does so until that broker has left the ISR, so
// the disk hangs again for those that have not been seen.
func TestAcksSayWhichBrokerTheyWaitFor(t *testing.T) {
	history(t, 31, func(w *world, c *clients) {
		victim := int32(0) // it leads a partition to which clients write
		if until(patience, func() bool {
			for id := int32(1); id <= 3 && victim == 0; id++ {
				if list, err := c.leads(id); err == nil && slices.Contains(list, topic+"-0") {
					victim = id
				}
			}
			return victim > 0
		}) != nil {
			w.problem("no broker leads a partition of %s", topic)
			return
		}
		var last [4][]view.WaitStep
		seen := map[int32]bool{}
		look := func() bool {
			for id := range int32(3) {
				id++
				last[id] = w.waits(id)
				seen[id] = seen[id] || slices.ContainsFunc(last[id], func(s view.WaitStep) bool {
					if id == victim {
						return s.Step == view.StepJournal && s.Dir == logDir
					}
					return s.Step == view.StepReplication && slices.Equal(s.Brokers, []int32{victim})
				})
				if slices.ContainsFunc(last[id], func(s view.WaitStep) bool {
					return s.Step == view.StepReplication && s.Partition != "" && slices.Equal(s.Brokers, []int32{id})
				}) {
					w.problem("broker %d says that it waits for itself: %+v", id, last[id])
				}
			}
			return seen[1] && seen[2] && seen[3]
		}
		for range 8 {
			heal := w.ail(victim, hanging, time.Hour)
			err := until(20*time.Second, look)
			heal()
			c.inSync()
			if err == nil {
				return
			}
		}
		w.problem("the waits do not name broker %d: seen %v, last %+v", victim, seen, last[1:])
	})
}
