package brokers

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/tries"
)

const logDir = "/data/logs"

// ailment makes the log directory of a process fail in some way until heal is called.
type ailment func(p *process) (heal func())

// erring answers EIO to writes and syncs.
func erring(p *process) (heal func()) {
	return p.fs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync, Err: syscall.EIO, When: inLogs}).Off
}

// hanging lets writes and syncs wait.
func hanging(p *process) (heal func()) {
	healed := make(chan struct{})
	rule := p.fs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync, When: inLogs, Before: func(errfs.Call) {
		select {
		case <-healed:
		case <-p.gone:
		}
	}})
	return func() { rule.Off(); close(healed) }
}

func inLogs(c errfs.Call) bool { return strings.HasPrefix(c.Path, logDir+"/") }

// full leaves no room.
func full(p *process) (heal func()) {
	_ = p.fs.SetQuota(logDir, 0, nil) // an error means that its disk is gone
	return p.fs.NoQuota
}

// low leaves less room than the reserve.
func low(p *process) (heal func()) {
	p.low.Store(true)
	return func() { p.low.Store(false) }
}

// ail lets the disk of a broker fail for a time, or until the result is called. The process that
// uses it continues.
func (w *world) ail(id int32, how ailment, d time.Duration) (heal func()) {
	w.mayLose()
	n := w.nodes[id]
	n.mu.Lock()
	p := n.process
	n.mu.Unlock()
	if p == nil {
		return func() {}
	}
	early, heal := context.WithTimeout(context.Background(), d)
	end := how(p)
	w.ending.Go(func() {
		select {
		case <-early.Done():
		case <-p.gone:
		}
		heal()
		end()
		w.note("the disk of %d works", id)
	})
	return heal
}

// diskFaults are the faults of disks that end without a restart.
func diskFaults() []fault {
	some := func(how ailment) func(c *clients, id int32) {
		return func(c *clients, id int32) { c.w.ail(id, how, time.Duration(c.w.random.Int64N(int64(15*time.Second)))) }
	}
	return []fault{
		{"log directory errs for a while", 4, some(erring)},
		{"log directory hangs for a while", 3, some(hanging)},
		{"log directory is full for a while", 3, some(full)},
		{"log directory is low for a while", 4, some(low)},
		{"a start cannot read logs for a while", 2, func(c *clients, id int32) {
			c.w.kill(id)
			c.w.unreadable(id, time.Duration(c.w.random.Int64N(int64(15*time.Second))))
			c.w.start(id)
		}},
	}
}

// leads returns the partitions that a broker leads, as another one shows it.
func (c *clients) leads(broker int32) (list []string, err error) {
	within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	m, err := kadm.NewClient(c.admin).Metadata(within)
	if err != nil {
		return nil, err
	}
	m.Topics.EachPartition(func(p kadm.PartitionDetail) {
		if p.Leader == broker {
			list = append(list, fmt.Sprintf("%s-%d", p.Topic, p.Partition))
		}
	})
	return list, nil
}

// ledByOthers waits until a broker leads nothing.
func (c *clients) ledByOthers(broker int32) {
	var list []string
	if until(patience, func() (none bool) {
		var err error
		list, err = c.leads(broker)
		return err == nil && len(list) == 0
	}) != nil {
		c.w.problem("broker %d cannot write, and leads %v", broker, list)
	}
}

// unreadable lets the next process of a broker, which does not run, get errors for the directories
// of its partitions for a time, or until the result is called.
func (w *world) unreadable(id int32, d time.Duration) (heal func()) {
	early, heal := context.WithTimeout(context.Background(), d)
	n := w.nodes[id]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.arm = func(p *process) {
		rule := p.fs.Add(errfs.Rule{Ops: errfs.List, Err: syscall.EIO, When: ofPartition})
		w.ending.Go(func() {
			select {
			case <-early.Done():
			case <-p.gone:
			}
			heal()
			rule.Off()
			w.note("%d can read its logs", id)
		})
	}
	return heal
}

// isrs returns the partitions that have a broker in their ISR, and all partitions.
func (c *clients) isrs(broker int32) (in, all map[string]bool, err error) {
	within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	m, err := kadm.NewClient(c.admin).Metadata(within)
	in, all = map[string]bool{}, map[string]bool{}
	if err == nil {
		m.Topics.EachPartition(func(p kadm.PartitionDetail) {
			name := fmt.Sprintf("%s-%d", p.Topic, p.Partition)
			all[name] = true
			if slices.Contains(p.ISR, broker) {
				in[name] = true
			}
		})
	}
	return in, all, err
}

// A replica that has left the ISR because its disk hangs does not return before the disk answers,
// also if one other replica is all that is left.
func TestAnISRIsSteadyWhileADiskHangs(t *testing.T) {
	history(t, 27, func(w *world, c *clients) {
		time.Sleep(5 * time.Second)
		c.move(1, 2)
		c.inSync()
		heal := w.ail(1, hanging, time.Hour)
		left := map[string]bool{}
		for range tries.Some(200, 100) {
			time.Sleep(300 * time.Millisecond)
			in, all, err := c.isrs(1)
			if err != nil {
				continue
			}
			for p := range all {
				if left[p] && in[p] {
					w.problem("broker 1 is in the ISR of %s again, and its disk hangs", p)
				}
				left[p] = left[p] || !in[p]
			}
		}
		if !left["moved-0"] {
			w.problem("a replica whose disk hangs stays in the ISR of %v", left)
		}
		heal()
		c.inSync()
	})
}

// Disks fail for five seconds, of one broker or of all, and no broker is restarted: everything is
// in sync again, and nothing is lost.
func TestDisksThatFailForSeconds(t *testing.T) {
	for name, how := range map[string]ailment{"EIO": erring, "full": full} {
		for _, n := range []int32{3, 1}[:tries.Some(2, 1)] {
			t.Run(name, func(t *testing.T) {
				history(t, uint64(20+n), failsForSeconds(how, n))
			})
		}
	}
}

// failsForSeconds returns that history, in which the disks of some brokers fail.
func failsForSeconds(how ailment, brokers int32) func(w *world, c *clients) {
	return func(w *world, c *clients) {
		var before []string
		for id := int32(1); id <= 3; id++ {
			before = append(before, w.name(id))
		}
		for id := int32(1); id <= brokers; id++ {
			w.ail(id, how, 5*time.Second)
		}
		time.Sleep(5 * time.Second)
		began := time.Now()
		c.inSync()
		if took := time.Since(began); took > 30*time.Second {
			w.problem("everything is in sync after %v only", took)
		}
		c.progress(10 * time.Second)
		for id := int32(1); id <= 3; id++ {
			if now := w.name(id); now != before[id-1] {
				w.problem("%s was restarted: %s", before[id-1], now)
			}
		}
	}
}

// While a broker's log directory errs, hangs or is low on space, other brokers lead all partitions,
// new ones too: within three seconds, unless it takes longer to see that it hangs. All replicas
// stay in sync if it is only low.
func TestABrokerThatCannotWriteLeadsNothing(t *testing.T) {
	for name, how := range map[string]ailment{"low": low, "hangs": hanging, "EIO": erring} {
		t.Run(name, func(t *testing.T) {
			history(t, 24, func(w *world, c *clients) {
				heal, began := w.ail(1, how, time.Hour), time.Now()
				c.ledByOthers(1)
				if took := time.Since(began); took > 3*time.Second && name != "hangs" {
					w.problem("broker 1 cannot write, and leads for %v", took)
				}
				c.progress(10 * time.Second)
				c.createElsewhere(1)
				if name == "low" {
					c.inSync()
				}
				heal()
				c.inSync()
			})
		})
	}
}

// A start cannot read the logs of a broker, or of all brokers, for some seconds. Meanwhile brokers
// that can read them lead, and then everything is in sync again, without a restart.
func TestLogsThatAStartCannotRead(t *testing.T) {
	for _, n := range []int32{1, 3}[:tries.Some(2, 1)] {
		t.Run(fmt.Sprint(n, " of 3"), func(t *testing.T) { history(t, 41, unreadableAtStarts(n)) })
	}
	t.Run("1 of 1", func(t *testing.T) { historyOf(t, 41, kind{brokers: 1}, unreadableAtStarts(1)) })
}

func unreadableAtStarts(n int32) func(w *world, c *clients) {
	return func(w *world, c *clients) {
		time.Sleep(10 * time.Second)
		var heal []func()
		former := map[string]bool{}
		for id := int32(1); id <= w.size(); id++ {
			w.kill(id)
			if id > n {
				continue
			}
			heal = append(heal, w.unreadable(id, time.Hour))
			infos, _ := w.nodes[id].disk.List(logDir)
			for _, in := range infos {
				former[in.Name] = true
			}
		}
		for id := int32(1); id <= w.size(); id++ {
			w.start(id)
		}
		if n < w.size() && until(patience, func() bool { return !c.leadsAny(1, former) }) != nil {
			w.problem("broker 1 leads what it cannot read")
		}
		time.Sleep(10 * time.Second)
		before := w.name(1)
		for _, end := range heal {
			end()
		}
		began := time.Now()
		c.inSync()
		if took := time.Since(began); took > time.Minute {
			w.problem("everything is in sync after %v only", took)
		}
		c.progress(10 * time.Second)
		if now := w.name(1); now != before {
			w.problem("%s was restarted: %s", before, now)
		}
	}
}

// leadsAny reports whether a broker leads one of some partitions, or no broker says so.
func (c *clients) leadsAny(broker int32, partitions map[string]bool) bool {
	list, err := c.leads(broker)
	return err != nil || slices.ContainsFunc(list, func(p string) bool { return partitions[p] })
}

// ofPartition reports whether a call is about the directory of a partition.
func ofPartition(c errfs.Call) bool {
	at, name := path.Split(c.Path)
	return path.Clean(at) == logDir && strings.Contains(name, "-")
}

// createElsewhere creates a topic of which a broker can lead nothing, though it is the first
// replica of a partition.
func (c *clients) createElsewhere(id int32) {
	made := c.create(fmt.Sprintf("elsewhere-%d", id), 3, 3)
	c.w.note("%d partitions are made", len(made))
	c.ledByOthers(id)
}

// The directories of partitions are removed while their brokers use them, on one broker or on two
// at once. Another replica is whole and leads, and what was removed is copied again, without a
// restart.
func TestFilesThatAreRemovedFromRunningBrokers(t *testing.T) {
	for _, n := range []int32{2, 1}[:tries.Some(2, 1)] {
		t.Run(fmt.Sprint("on ", n), func(t *testing.T) {
			history(t, 47, func(w *world, c *clients) {
				time.Sleep(10 * time.Second)
				c.inSync()
				before := []string{w.name(1), w.name(2)}
				var removed []string
				if until(10*time.Minute, func() bool {
					infos, _ := w.nodes[3].disk.List(logDir)
					for _, in := range infos {
						dir := path.Join(logDir, in.Name)
						if strings.Contains(in.Name, "-") && w.segments(1, dir) > 0 && w.segments(2, dir) > 0 {
							removed = append(removed, dir)
						}
					}
					return len(removed) > 0
				}) != nil {
					w.problem("no partition has segments on both brokers")
				}
				for _, dir := range removed {
					for id := int32(1); id <= n; id++ {
						w.remove(w.nodes[id].disk, dir)
					}
				}
				w.note("%d directories are removed from %d brokers", len(removed), n)
				if until(3*time.Minute, func() bool {
					for _, dir := range removed {
						for id := int32(1); id <= n; id++ {
							if w.segments(id, dir) == 0 {
								return false
							}
						}
					}
					return true
				}) != nil {
					w.problem("the files are not there again")
				}
				c.inSync()
				c.progress(10 * time.Second)
				if now := []string{w.name(1), w.name(2)}; !slices.Equal(now, before) {
					w.problem("%v were restarted: %v", before, now)
				}
			})
		})
	}
}

// segments returns how many segments a broker has in the directory of a partition.
func (w *world) segments(id int32, dir string) (n int) {
	infos, _ := w.nodes[id].disk.List(dir)
	for _, in := range infos {
		if strings.HasSuffix(in.Name, ".log") && in.Size > 0 {
			n++
		}
	}
	return n
}
