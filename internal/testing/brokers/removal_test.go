package brokers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/check"
)

// keys is the number of keys of the compacted topic.
const keys = 5

// trimmed creates a topic whose log starts above 0.
func (c *clients) trimmed() *partition { return c.create("trimmed", 1, 3, "segment.ms=2000")[0] }

// compacted creates a topic whose log has holes.
func (c *clients) compacted() *partition {
	p := c.create("compacted", 1, 3, "cleanup.policy=compact", "segment.ms=1000", "min.cleanable.dirty.ratio=0.01")[0]
	p.key = func(value string) string {
		n, err := strconv.Atoi(value[strings.LastIndexByte(value, '-')+1:])
		if err != nil {
			c.w.problem("%v: %v", p, err)
		}
		return strconv.Itoa(n % keys)
	}
	p.history.Compacts(p.key)
	return p
}

// record returns a record of the partition.
func (p *partition) record(value string) *kgo.Record {
	r := &kgo.Record{Topic: p.topic, Partition: p.index, Value: []byte(value)}
	if p.key != nil {
		r.Key = []byte(p.key(value))
	}
	return r
}

// trim deletes the records of a partition that are older than some that readers may have.
func (c *clients) trim(p *partition) {
	random := c.random(870)
	cl := c.w.client(kgo.RequestRetries(0))
	defer cl.Close()
	a := kadm.NewClient(cl)
	for c.pace(random, 5*time.Second) {
		below := p.history.Known() - random.Int64N(20)
		if below <= 0 {
			continue
		}
		c.deleteBelow(a, p, below, 10*time.Second)
	}
}

// A leader deletes records while the followers stand still, and dies: what it acknowledged does not
// come back with the next leader.
func TestDeletedRecordsDoNotComeBack(t *testing.T) { history(t, 44, deletedAlone) }

// deletedAlone is that history.
func deletedAlone(w *world, c *clients) {
	p := c.parts[slices.IndexFunc(c.parts, func(p *partition) bool { return p.topic == "trimmed" })]
	if until(patience, func() bool { return p.history.Known() > 50 }) != nil {
		w.problem("%v has few records", p)
	}
	leader := int32(0)
	var followers []func()
	for id := int32(1); id <= 3; id++ {
		if list, err := c.leads(id); err == nil && slices.Contains(list, fmt.Sprint(p)) {
			leader = id
		}
	}
	for id := int32(1); id <= 3; id++ {
		if id != leader {
			followers = append(followers, w.pause(id, time.Hour))
		}
	}
	c.deleteBelow(kadm.NewClient(c.admin), p, p.history.Known(), 2*time.Second)
	w.kill(leader)
	for _, resume := range followers {
		resume()
	}
	for id := int32(1); id <= 3; id++ {
		if id == leader {
			continue
		}
		var list []check.Record
		var err error
		if until(patience, func() bool { list, _, err = c.log(id, p); return err == nil }) != nil {
			w.problem("%v at broker %d: %v", p, id, err)
		}
		for _, r := range list {
			p.history.Read(r)
		}
	}
}

// deleteBelow deletes the records of a partition below an offset, and waits for the answer at most
// a time.
func (c *clients) deleteBelow(a *kadm.Client, p *partition, below int64, most time.Duration) {
	within, cancel := context.WithTimeout(c.ctx, most)
	defer cancel()
	offsets := kadm.Offsets{}
	offsets.AddOffset(p.topic, p.index, below, -1)
	acked := p.history.Deleting(below)
	rs, err := a.DeleteRecords(within, offsets)
	if one, ok := rs.Lookup(p.topic, p.index); err == nil && ok && one.Err == nil {
		acked()
	}
}

// logStart returns the start of a partition's log, as its leader shows it.
func (c *clients) logStart(p *partition) (int64, error) {
	within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	all, err := kadm.NewClient(c.admin).ListStartOffsets(within, p.topic)
	if err != nil {
		return 0, err
	}
	o, _ := all.Lookup(p.topic, p.index)
	return o.Offset, o.Err
}
