package brokers

import (
	"testing"
	"time"
)

// Names of topics, of a group and of transactional ids have the largest valid length while brokers
// end, a disk is replaced, and replicas and logs move. Topics are created and deleted.
func TestTheLongestNames(t *testing.T) {
	historyOf(t, 49, kind{long: true, dirs: 2}, func(w *world, c *clients) {
		for id := int32(1); id <= w.size(); id++ {
			c.move(id, 1+id%w.size())
			c.moveLogs(id)
			time.Sleep(2 * time.Second)
			w.powerLoss(id, w.mode())
			w.start(id)
			c.inSync()
			w.wipe(id)
			w.start(id)
			c.inSync()
			c.consumes()
		}
	})
}
