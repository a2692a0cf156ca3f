package brokers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/testing/tries"
)

// otherLogs is the second log directory of brokers that have two.
const otherLogs = "/data/more"

// moveLogs moves some logs of a broker to its other log directory.
func (c *clients) moveLogs(id int32) {
	a := kadm.NewClient(c.admin)
	within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	dirs, err := a.DescribeBrokerLogDirs(within, id, nil)
	if err != nil {
		c.w.note("no log moves: %v", err)
		return
	}
	req := kadm.AlterReplicaLogDirsReq{}
	for dir, to := range map[string]string{logDir: otherLogs, otherLogs: logDir} {
		set := kadm.TopicsSet{}
		dirs[dir].Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if c.w.random.IntN(2) == 0 {
				set.Add(p.Topic, p.Partition)
			}
		})
		req.Add(to, set)
	}
	_, err = a.AlterBrokerReplicaLogDirs(within, id, req)
	c.w.note("broker %d moves %v: %v", id, req, err)
}

// Logs move between the directories of their brokers while these are killed, lose power, are cut
// off and are stopped, at any moment of a move. Nothing is lost, and the moves come to an end.
func TestLogsMoveBetweenDirectories(t *testing.T) {
	moves := fault{"move logs", 0, (*clients).moveLogs}
	for seed := range uint64(tries.Some(4, 1)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			historyOf(t, 60+seed, kind{dirs: 2, brokers: []int32{0, 1}[seed%2]}, func(w *world, c *clients) {
				for range 12 {
					id := 1 + w.random.Int32N(w.size())
					w.note("%s: %d", moves.name, id)
					moves.do(c, id)
					time.Sleep(time.Duration(w.random.Int64N(int64(100 * time.Millisecond))))
					switch w.random.IntN(5) {
					case 0:
						w.kill(id)
					case 1:
						w.powerLoss(id, w.mode())
					case 2:
						w.stop(id)
					case 3:
						w.isolate(id)
					}
					time.Sleep(time.Duration(w.random.Int64N(int64(4 * time.Second))))
					w.heal()
				}
				w.heal()
				if until(patience, func() bool { return c.movesDone() }) != nil {
					w.problem("logs move for ever")
				}
			})
		})
	}
}

// movesDone reports whether all brokers answer, and no log moves.
func (c *clients) movesDone() bool {
	within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	done := true
	for id := range c.w.size() {
		dirs, err := kadm.NewClient(c.admin).DescribeBrokerLogDirs(within, id+1, nil)
		done = done && err == nil
		dirs.Each(func(d kadm.DescribedLogDir) {
			d.Topics.Each(func(p kadm.DescribedLogDirPartition) { done = done && !p.IsFuture })
		})
	}
	return done
}
