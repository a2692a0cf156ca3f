package stream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/race"
)

// walk is a random history of three brokers that are all in sync, with faults of brokers, disks and
// connections.
type walk struct {
	*world
	rand   *rand.Rand
	leader int32
	epoch  int32
	serial int

	mu     sync.Mutex
	faults *rand.Rand // of frames, guarded by mu
	rate   float64
	acked  []ack
}

// ack is a record that was acknowledged with acks=all.
type ack struct {
	partition int32
	offset    int64
	value     []byte
}

func newWalk(t testing.TB, seed uint64, broken rule) *walk {
	w := &walk{world: newWorld(t, 2), rand: rand.New(rand.NewPCG(seed, 1)), faults: rand.New(rand.NewPCG(seed, 2))}
	w.broken = broken
	w.fault = w.meddle
	if w.rand.IntN(2) == 0 {
		w.options = func(o *Options) { o.Window, o.FollowBytes = 8<<10, 64<<10 }
	}
	return w
}

// meddle loses, repeats or changes a frame.
func (w *walk) meddle(_, _ int32, kind frame.Kind, raw []byte) [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults.Float64() >= w.rate {
		return [][]byte{raw}
	}
	switch w.faults.IntN(4) {
	case 0:
		if kind == frame.DA {
			return nil
		}
	case 1:
		return [][]byte{raw, raw}
	case 2:
		raw = bytes.Clone(raw)
		raw[frame.HeaderSize+w.faults.IntN(len(raw)-frame.HeaderSize)] ^= 1 << w.faults.IntN(8)
	case 3:
		if kind == frame.DA && len(raw) > frame.HeaderSize+frame.DataSize { // a leader that sends damaged records
			raw = bytes.Clone(raw)
			raw[len(raw)-1] ^= 1
			frame.PutHeader(raw, kind, raw[2], raw[3], raw[frame.HeaderSize:])
		}
	}
	return [][]byte{raw}
}

func (w *walk) produce() {
	n := w.nodes[w.leader]
	w.serial++
	value := fmt.Appendf(nil, "%d-%0*d", w.serial, w.rand.IntN(2000), 0)
	b := record.NewBuilder(record.BatchOptions{})
	b.Append(1, nil, value, nil)
	data, err := b.Build()
	must(w.t, err)
	i := w.rand.Int32N(w.parts)
	a := &replica.Append{LeaderEpoch: -1, Acks: replica.AcksAll}
	a.Batches = record.Accepted{Bytes: data, Batches: 1, Records: 1}
	a.Done = func(a *replica.Append) {
		if a.Err == nil && !n.dead.Load() {
			w.mu.Lock()
			w.acked = append(w.acked, ack{i, a.BaseOffset, value})
			w.mu.Unlock()
		}
	}
	n.partition(i).Append(a, nil)
}

// elect makes a broker that runs the leader.
func (w *walk) elect() {
	var up []int32
	for id := range int32(4) {
		if w.nodes[id] != nil {
			up = append(up, id)
		}
	}
	w.leader = up[w.rand.IntN(len(up))]
	w.epoch++
	w.record(func(p *metadata.Partition) { p.Leader, p.LeaderEpoch, p.ISR = w.leader, w.epoch, []int32{1, 2, 3} })
}

func (w *walk) step() {
	switch k := w.rand.IntN(100); {
	case k < 55:
		for range 1 + w.rand.IntN(8) {
			w.produce()
		}
	case k < 63:
		w.elect()
	case k < 70:
		w.cutWires(w.rand.Int32N(4))
	case k < 78 && len(w.nodes) == 3:
		id := 1 + w.rand.Int32N(3)
		for w.leader == id {
			w.elect()
		}
		w.stop(id, w.rand.IntN(3) > 0)
	case k < 86:
		for id := int32(1); id <= 3; id++ {
			if w.nodes[id] == nil {
				w.start(id)
			}
		}
	case k < 90:
		w.mu.Lock()
		w.rate = w.faults.Float64() * 0.2
		w.mu.Unlock()
	default:
		time.Sleep(time.Duration(w.rand.IntN(30)) * time.Millisecond)
	}
	if w.rand.IntN(3) == 0 {
		synctest.Wait()
	}
}

// run runs a walk and returns what is wrong at its end.
func (w *walk) run(steps int) error {
	defer w.close()
	w.leader, w.epoch = 1, 1
	w.assign(1, 1, 1, 2, 3)
	for id := int32(1); id <= 3; id++ {
		w.start(id)
	}
	for range steps {
		w.step()
	}
	w.mu.Lock()
	w.rate = 0
	w.mu.Unlock()
	for id := int32(1); id <= 3; id++ {
		if w.nodes[id] == nil {
			w.start(id)
		}
	}
	w.elect()
	w.cutWires(0)
	return w.judge()
}

// judge returns why the brokers do not have the same logs, or which acknowledged record is missing.
func (w *walk) judge() (err error) {
	for range 2000 {
		synctest.Wait()
		if err = w.difference(w.leader, 1, 2, 3); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for i := range w.parts {
		l := w.nodes[w.leader].partition(i).Log()
		for id := int32(1); id <= 3; id++ {
			if err := same(l, w.nodes[id].partition(i).Log()); err != nil {
				return err
			}
		}
		all, err := batches(l)
		must(w.t, err)
		for _, b := range all {
			must(w.t, b.Each(record.Limits{Bytes: 1 << 20}, func(r record.Record) error {
				found[fmt.Sprintf("%d/%d/%s", i, b.BaseOffset(), r.Value)] = true
				return nil
			}))
		}
	}
	for _, a := range w.acked {
		if !found[fmt.Sprintf("%d/%d/%s", a.partition, a.offset, a.value)] {
			return fmt.Errorf("partition %d lacks the acknowledged record at %d", a.partition, a.offset)
		}
	}
	return nil
}

// walks is how many walks run: CHRONIK_STREAM_WALKS, otherwise few.
func walks(few uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv("CHRONIK_STREAM_WALKS"), 10, 64); err == nil {
		return n
	}
	return few
}

// Whatever happens to connections, brokers and their disks, the logs of a partition become equal,
// and have every record that was acknowledged.
func TestLogsBecomeEqualAfterFaults(t *testing.T) {
	acked := 0
	for seed := range walks(uint64(race.Some(25, 6))) {
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(t, seed, 0)
			if err := w.run(120); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			acked += len(w.acked)
		})
	}
	t.Logf("%d records were acknowledged", acked)
	if acked == 0 {
		t.Error("no record was acknowledged")
	}
}
