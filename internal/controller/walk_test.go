package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// Random sequences of starts, stops, faults, drains, ISR changes and controllers. The decoder of
// records refuses those that contradict themselves, so every record is checked. In addition:
// leader epochs grow, only live brokers lead, what lacks records is never in sync, and when
// everything works again the partition has a leader.
func TestRandomHistoriesOfBrokers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := three(t)
		defer func() { w.applier.Stop(); _ = w.store.Close() }()
		h := history{world: w, rt: rt, last: *w.applier.Image().Partition(tpA)}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			h.act()
			h.check()
		}
		h.heal()
	})
}

type history struct {
	*world
	rt   *rapid.T
	last metadata.Partition
}

func (h *history) pick() int32 { return rapid.Int32Range(1, 3).Draw(h.rt, "broker") }

func (h *history) act() {
	id := h.pick()
	p := h.procs[id]
	switch rapid.IntRange(0, 12).Draw(h.rt, "what") {
	case 0:
		p.up = false
	case 1:
		p.silent = !p.silent
	case 2:
		p.deaf = !p.deaf
	case 3:
		p.drain = true
	case 4:
		if p.failed = [][16]byte{p.Dirs[0].ID}; rapid.Bool().Draw(h.rt, "works again") {
			p.failed = nil
		}
	case 5:
		if p.damaged = []metadata.TopicPartition{tpA}; rapid.Bool().Draw(h.rt, "copied again") {
			p.damaged = nil
		}
	case 6:
		h.restart(id, rapid.SampledFrom([]string{"whole", "lossy", "damaged", "older", "unnoted", "wiped"}).Draw(h.rt, "return"))
	case 7:
		h.newLoop()
		h.lead()
	case 8:
		_, _ = h.loop.Resign(context.Background(), id, p.epoch, []Resigned{{tpA, h.record1().LeaderEpoch}})
	case 9:
		h.grow(id)
	case 11:
		p.stuck = !p.stuck
	case 10:
		h.minISR = rapid.IntRange(1, 3).Draw(h.rt, "minISR")
	default:
		h.pass(rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Second}).Draw(h.rt, "time"))
	}
	h.step()
}

func (h *history) record1() *metadata.Partition { return h.applier.Image().Partition(tpA) }

// restart registers a new process. A wiped one records its new directory, as brokers do.
func (h *history) restart(id int32, how string) {
	dir, placed := h.applier.Image().Placement(id, tpA)
	p := h.start(id, func(q *RegisterRequest) {
		q.Dirs[0].ID = dir
		known, _ := func() (metadata.BrokerDir, bool) { b, _ := h.applier.Image().Broker(id); return b.Dir(dir) }()
		q.Dirs[0].Found, q.Dirs[0].Sequence = known.CheckpointSequence+1, known.CheckpointSequence+2
		switch how {
		case "lossy":
			q.Lossy = []metadata.TopicPartition{tpA}
		case "damaged":
			q.Damaged = []metadata.TopicPartition{tpA}
		case "older":
			q.Dirs[0].Found = max(known.CheckpointSequence, 1) - 1
		case "unnoted": // the registration before this one
			q.Dirs[0].Finding, q.Dirs[0].Found = known.Finding, max(known.CheckpointSequence, 2)-2
		case "wiped":
			q.Dirs[0].ID = metadata.NewID()
		}
	})
	rec := h.record1()
	last := how == "damaged" && !knowledge{img: h.applier.Image()}.of(tpA).hasOther(rec, id) // no other one has what it lacks
	if in := slices.Contains(rec.ISR, id) || slices.Contains(rec.ELR, id); in && how != "whole" && how != "unnoted" && placed && !last {
		h.rt.Fatalf("broker %d is %s and remains in %s", id, how, h.record())
	}
	if how == "wiped" && len(rec.ISR)+len(rec.ELR) > 0 {
		dirs := map[metadata.TopicPartition][16]byte{tpA: p.Dirs[0].ID}
		rev, err := over(h.store).As(p.Incarnation).AssignDirs(context.Background(), id, dirs)
		h.must(err)
		h.must(h.applier.WaitShown(context.Background(), rev))
	}
}

// grow adds a broker to the ISR, as a leader would.
func (h *history) grow(id int32) {
	img := h.applier.Image()
	p := *img.Partition(tpA)
	v := knowledge{img: img}.of(tpA)
	if state, _ := img.Liveness(id); p.Leader < 0 || slices.Contains(p.ISR, id) || state != metadata.Active || !v.Online(id) {
		return
	}
	next := p
	next.ISR = append(slices.Clone(p.ISR), id)
	next.ELR = slices.DeleteFunc(slices.Clone(p.ELR), func(b int32) bool { return b == id || len(next.ISR) >= h.minISR })
	next.PartitionEpoch++
	c := newChange(img, tpA, &p, next)
	rev, err := h.store.Txn(context.Background(), c.txn)
	h.must(err)
	h.must(h.applier.WaitShown(context.Background(), rev))
}

func (h *history) check() {
	if err := h.applier.Err(); err != nil {
		h.rt.Fatalf("an inconsistent record was written: %v", err)
	}
	img, p := h.applier.Image(), *h.record1()
	if p.LeaderEpoch < h.last.LeaderEpoch || p.Leader != h.last.Leader && p.LeaderEpoch == h.last.LeaderEpoch ||
		p.PartitionEpoch < h.last.PartitionEpoch {
		h.rt.Fatalf("%+v after %+v", p, h.last)
	}
	if state, _ := img.Liveness(p.Leader); p.Leader != election.None && (state == metadata.Fenced || state == metadata.Starting) {
		h.rt.Fatalf("broker %d leads and is %v", p.Leader, state)
	}
	v := knowledge{img: img}.of(tpA)
	for _, b := range p.ISR {
		if state, _ := img.Liveness(b); state == metadata.Fenced || v.damaged(b) {
			h.rt.Fatalf("broker %d is in sync, %v, damaged %t", b, state, v.damaged(b))
		}
	}
	h.last = p
}

// heal restarts what does not work, whole, and waits.
func (h *history) heal() {
	for id := int32(1); id <= 3; id++ {
		h.restart(id, "whole")
	}
	h.pass(12 * time.Second)
	h.check()
	if p := h.record1(); p.Leader == election.None && !(len(p.ISR)+len(p.ELR) == 0 && (p.Last.Lossy || p.Last.IsZero())) {
		dir, _ := h.applier.Image().Placement(p.Last.Broker, tpA)
		if dir == p.Last.Dir || p.Last.IsZero() {
			h.rt.Fatalf("no leader although everything works: %s", h.record())
		}
	}
}
