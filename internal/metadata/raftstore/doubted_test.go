package raftstore

import (
	"testing"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/simnet"
)

// deliver delivers what arrives in a step, but returns the packets to a machine.
func (w *world) deliver(except *machine) (held []simnet.Packet) {
	for _, p := range w.net.Step() {
		if to := w.machines[p.To]; to != except {
			to.receive(p.Payload)
		} else {
			held = append(held, p)
		}
	}
	return held
}

// An answer to what a leader asked before its disk failed does not show that it still leads: while
// the disk failed, another one was elected.
func TestAnAnswerFromBeforeAFailureConfirmsNothing(t *testing.T) {
	w := newWorld(t, 1, 3, broken{})
	defer func() {
		for _, m := range w.machines {
			m.die()
		}
	}()
	for w.leader() == nil || w.leader().node.confirmed.IsZero() {
		w.step()
	}
	l := w.leader()
	for range heartbeatTicks {
		must.OK(t, l.node.tick()) // it asks whether it leads
	}
	var answers []simnet.Packet
	for range 5 {
		answers = append(answers, w.deliver(l)...)
	}
	if len(l.node.asked) == 0 || len(answers) == 0 {
		t.Fatalf("%d questions and %d answers are on their way", len(l.node.asked), len(answers))
	}
	l.errs.Add(errfs.Rule{Ops: errfs.Datasync, Err: errDisk, Drop: errfs.DropCached})
	w.propose(l)
	if l.node.failed == nil {
		t.Fatal("the leader has not failed")
	}
	for other := (*machine)(nil); other == nil; other = w.leader() {
		w.elapsed += defaultTick
		w.deliver(l)
		for _, m := range w.machines {
			if m != l {
				must.OK(t, m.node.tick())
			}
		}
	}
	l.errs.Clear()
	for l.node.failed != nil {
		must.OK(t, l.node.tick())
	}
	for _, p := range answers {
		l.receive(p.Payload)
	}
	if n := l.node; n.role.Ready || !n.doubted || !n.confirmed.IsZero() {
		t.Errorf("after the answers: ready %t, doubted %t, confirmed at %v", n.role.Ready, n.doubted, n.confirmed)
	}
	must.OK(t, w.bad)
}
