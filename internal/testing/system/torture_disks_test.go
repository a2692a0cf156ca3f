package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// disk makes brokers run on a disk that fails on command, or on the system's again.
func (c *torture) disk(faulty bool, which ...int) {
	for _, i := range which {
		if c.faulty[i] == faulty && c.run[i] != nil {
			continue
		}
		if c.run[i] != nil {
			c.inSync()
			c.end(syscall.SIGTERM, i)
		}
		c.faulty[i] = faulty
		c.launch(i)
	}
	c.await(which...)
}

// order orders a faulty disk to do something.
func (c *torture) order(i int, command string) {
	c.t.Helper()
	if err := c.run[i].console.do(command); err != nil {
		c.t.Fatalf("broker %d: %s: %v", i+1, command, err)
	}
}

// power ends brokers at one time. Of what they had not synced, a random part is lost.
func (c *torture) power(which []int) {
	c.disk(true, which...)
	c.inSync()
	c.measure()
	pause(c.t.Context(), time.Duration(c.random.Int64N(int64(time.Second))))
	for _, i := range which {
		_ = c.run[i].console.do("power") // it does not answer
	}
	for _, i := range which {
		p := c.run[i]
		err := <-p.done
		if p.done <- err; !strings.Contains(p.logged(), "the power is lost: <nil>") {
			c.t.Fatalf("broker %d: the disk could not take back what was not synced: %v\n%s", i+1, err, p.logged())
		}
		c.run[i] = nil
	}
	c.disk(false, which...)
}

// spoils makes the disks of brokers fail, most of them for longer than a session lasts. They
// continue without a restart when the disks work again.
func (c *torture) spoils(command string, which ...int) {
	c.disk(true, which...)
	c.everyoneLeads()
	c.measure()
	for _, i := range which {
		c.order(i, command)
	}
	pause(c.t.Context(), tortureStop)
	for _, i := range which {
		if len(c.run[i].reports()) == 0 {
			c.fail("broker %d does not report that its disk fails\n%s", i+1, c.run[i].logged())
		}
		c.order(i, "heal")
	}
	c.inSync()
	c.tolerates(func() { c.disk(false, which...) })
}

// continues makes the log directory of a broker unusable, which must not stop the writes of a
// partition: another broker leads it. The broker continues without a restart.
func (c *torture) continues(command string, i int) {
	c.disk(true, i)
	c.everyoneLeads()
	c.measure()
	c.order(i, command)
	pause(c.t.Context(), tortureStop)
	c.writes(command)
	c.order(i, "heal")
	c.inSync()
	c.tolerates(func() { c.disk(false, i) })
}

// tolerates accepts that the brokers which end meanwhile have logged errors.
func (c *torture) tolerates(during func()) {
	expected := c.expected
	c.expected = []string{""}
	during()
	c.expected = expected
}

// staleMetadata makes the metadata disk of a broker hang or fail. Such a broker may not lead, since
// another one may have been elected without its knowledge.
func (c *torture) staleMetadata(command string, i int) {
	c.disk(true, i)
	c.everyoneLeads()
	c.measure()
	c.order(i, command)
	c.changesMetadata((i + 1) % len(c.seeds))
	c.refusesAcksOfOne(i)
	c.writes(command)
	c.order(i, "heal")
	c.inSync()
	c.tolerates(func() { c.disk(false, i) })
}

// changesMetadata asks a broker for a change that no client requires: a metadata log hangs or fails
// at the next one.
func (c *torture) changesMetadata(i int) {
	within, cancel := context.WithTimeout(c.t.Context(), tortureAnswer)
	defer cancel()
	_, _ = c.admins[i].CreateTopic(within, 1, int16(c.holders), nil, fmt.Sprint("change-", time.Now().UnixNano()))
}

// sealed returns the sealed segments of a broker by partition directory, oldest first.
func (c *torture) sealed(i int) map[string][]string {
	all := map[string][]string{}
	names, err := filepath.Glob(filepath.Join(c.dirs[i], "d", "logs", tortureTopic+"-*", "*.log"))
	must.OK(c.t, err)
	for _, name := range names {
		all[filepath.Dir(name)] = append(all[filepath.Dir(name)], name)
	}
	for dir, names := range all {
		slices.Sort(names)
		if all[dir] = names[:len(names)-1]; len(all[dir]) == 0 {
			delete(all, dir)
		}
	}
	return all
}

// pick returns a sealed segment of each partition of a broker that has one, with its contents. An
// error means that a segment was removed meanwhile.
func (c *torture) pick(i int) (map[string][]byte, error) {
	picked, sealed := map[string][]byte{}, c.sealed(i)
	for _, dir := range slices.Sorted(maps.Keys(sealed)) {
		name := sealed[dir][c.random.IntN(len(sealed[dir]))]
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if len(text) > 0 {
			picked[name] = text
		}
	}
	return picked, nil
}

// awaitSealed waits until every partition of a broker has a sealed segment, and returns one of
// each. A broker that runs may remove them later.
func (c *torture) awaitSealed(i int) (picked map[string][]byte) {
	c.eventually("sealed segments", func(context.Context) string {
		var err error
		if picked, err = c.pick(i); err != nil {
			return err.Error()
		}
		if len(picked) < torturePartitions {
			return fmt.Sprintf("%d of %d partitions have one", len(picked), torturePartitions)
		}
		return ""
	})
	return picked
}

// stopSealed stops brokers that have sealed segments, and returns some that they still have then.
func (c *torture) stopSealed(which ...int) map[string][]byte {
	for _, i := range which {
		c.awaitSealed(i)
	}
	c.end(syscall.SIGTERM, which...)
	all := map[string][]byte{}
	for _, i := range which {
		picked, err := c.pick(i)
		must.OK(c.t, err)
		maps.Copy(all, picked)
	}
	return all
}

// rots changes a bit in a sealed segment of each partition of a broker, often in the header of a
// batch. It runs meanwhile, or is stopped. It finds the damage without a reader. It corrects what
// only one value can be, and copies the other logs again.
func (c *torture) rots(i int, running bool) {
	c.inSync()
	var picked map[string][]byte
	if running {
		picked = c.awaitSealed(i)
	} else {
		picked = c.stopSealed(i)
	}
	where := map[string]string{}
	for name, text := range picked {
		at := c.rotten(text)
		was := text[at]
		text[at] ^= 1 << c.random.IntN(8)
		where[name] = fmt.Sprintf("byte %d was %#x and is %#x", at, was, text[at])
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteAt(text[at:at+1], int64(at))
			err = errors.Join(err, f.Close())
		}
		if running && errors.Is(err, fs.ErrNotExist) { // retention was faster
			delete(picked, name)
			continue
		}
		must.OK(c.t, err)
	}
	c.tolerates(func() {
		if !running {
			c.launch(i)
			c.await(i)
		}
		c.eventually("the damaged segments are replaced", func(context.Context) string {
			for name, damaged := range picked {
				if text, err := os.ReadFile(name); err == nil && bytes.Equal(text, damaged) {
					return name + " is as damaged as before: " + where[name]
				}
			}
			return ""
		})
		c.inSync()
		c.again(syscall.SIGTERM, []int{i}) // its log has the errors that this fault caused
	})
	c.inSync()
}

// rotten returns a position in the text of a segment: every second time in the header of a batch.
func (c *torture) rotten(text []byte) int {
	var headers []int
	for p := text; ; {
		_, rest, err := record.Next(p)
		if err != nil {
			break
		}
		headers, p = append(headers, len(text)-len(p)), rest
	}
	if len(headers) == 0 || c.random.IntN(2) == 0 {
		return c.random.IntN(len(text))
	}
	return headers[c.random.IntN(len(headers))] + c.random.IntN(record.HeaderSize)
}

// cutsShort cuts a sealed segment of each partition of brokers short while they are stopped. Each
// log is whole on one broker at least.
func (c *torture) cutsShort(which []int) {
	c.inSync()
	for name, text := range c.stopSealed(which...) {
		must.OK(c.t, os.Truncate(name, c.random.Int64N(int64(len(text)))))
	}
	c.copiesAgain(which)
}

// removesLog removes the directory of a partition of a broker that is stopped.
func (c *torture) removesLog(i int) {
	c.inSync()
	dirs, err := filepath.Glob(filepath.Join(c.dirs[i], "d", "logs", tortureTopic+"-*"))
	if err != nil || len(dirs) == 0 {
		c.t.Fatalf("no directories of partitions: %v", err)
	}
	c.end(syscall.SIGTERM, i)
	must.OK(c.t, os.RemoveAll(dirs[c.random.IntN(len(dirs))]))
	c.copiesAgain([]int{i})
}

// copiesAgain starts brokers whose logs are not whole. They copy them from another one.
func (c *torture) copiesAgain(which []int) {
	c.tolerates(func() {
		c.launch(which...)
		c.await(which...)
		c.inSync()
		c.again(syscall.SIGTERM, which)
	})
	c.inSync()
}

// lags makes the syncs of a broker slow. It leaves the in-sync replicas, and comes back.
func (c *torture) lags(order []int) {
	i := order[0]
	c.disk(true, i)
	c.inSync()
	c.measure()
	c.order(i, "slow 4s")
	c.isr(fmt.Sprintf("without broker %d", i+1), func(isr []int32) bool { return !slices.Contains(isr, int32(i+1)) })
	c.order(i, "heal")
	c.inSync()
	c.tolerates(func() { c.disk(false, i) }) // it has reported that its disk hangs
}

// losesQuorum lets two of three metadata logs hang. Records are acknowledged by all replicas in
// sync all the time, but not by the leader alone, because another one may lead.
func (c *torture) losesQuorum(order []int) {
	c.disk(true, order[:2]...)
	c.inSync()
	c.measure()
	for _, i := range order[:2] {
		c.order(i, "metadata-hangs")
	}
	c.changesMetadata(order[2])
	c.refusesAcksOfOne(order...)
	c.writes("the metadata lost its quorum")
	for _, i := range order[:2] {
		c.order(i, "heal")
	}
	c.inSync()
	for _, i := range order[:2] {
		c.disk(false, i)
	}
}
