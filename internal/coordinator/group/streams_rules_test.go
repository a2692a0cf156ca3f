package group

import (
	"testing"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// A member may get a task when no other member has the active one, and no other member of its
// process has any.
func TestStreamsTaskIsFree(t *testing.T) {
	task := assign.Task{Subtopology: "1", Partition: 2}
	active := held{active: map[assign.Task]int32{task: 3}}
	standby := held{standby: map[assign.Task]struct{}{task: {}}}
	for _, c := range []struct {
		owner, process    string
		assigned          held
		revoking          held
		mayRun, mayFollow bool
	}{
		{"b", "one", active, held{}, false, false},
		{"b", "one", held{}, active, false, false},
		{"b", "one", standby, held{}, false, false},
		{"b", "one", held{}, standby, false, false},
		{"b", "two", active, held{}, false, true},
		{"b", "two", held{}, active, false, true},
		{"b", "two", standby, held{}, true, true},
		{"b", "two", held{}, standby, true, true},
		{"a", "one", active, held{}, true, true}, // what it owns itself counts as revoked
		{"a", "one", standby, held{}, true, true},
		{"b", "one", held{}, held{}, true, true},
	} {
		k := newStreams()
		a := k.member("a")
		a.meta.Process = "one"
		o := k.member(c.owner)
		o.meta.Process, o.assigned, o.revoking = c.process, c.assigned, c.revoking
		k.claim(o)
		if run, follow := k.free(a, task, true), k.free(a, task, false); run != c.mayRun || follow != c.mayFollow {
			t.Errorf("%s of process %s has %v, revokes %v: active %v, standby %v", c.owner, c.process, c.assigned, c.revoking, run, follow)
		}
		k.release(o)
		if !k.free(a, task, true) || !k.free(a, task, false) || k.bytes != 0 {
			t.Errorf("%s: not free after the release, %d bytes", c.owner, k.bytes)
		}
	}
}

// A task that must move within a process waits until its old owner has closed it.
func TestStreamsTaskMovesWithinAProcess(t *testing.T) {
	task := assign.Task{Subtopology: "1", Partition: 0}
	k := newStreams()
	k.apply("", format.TargetEpoch{Epoch: 7})
	for id, process := range map[string]string{"a": "one", "b": "one", "c": "two"} {
		k.apply(id, format.StreamsMember{Process: process})
	}
	one := []format.Tasks{{Subtopology: "1", Partitions: []int32{0}, Epochs: []int32{6}}}
	k.apply("b", format.StreamsCurrent{Epoch: 7, State: tasksStable, Assigned: format.TaskLists{Standby: one}})
	k.apply("c", format.StreamsCurrent{Epoch: 7, State: tasksStable, Assigned: format.TaskLists{Active: one}})
	none := streamsBeatOf("", 0)
	for _, target := range []format.StreamsTarget{{Active: one}, {Standby: one}} {
		k.apply("a", target)
		if next := k.step(k.members["a"], 7, none); next.state != tasksUnreleased || next.assigned.count() > 0 {
			t.Errorf("target %v: state %d, %v", target, next.state, next.assigned)
		}
	}
	k.apply("b", format.StreamsCurrent{Epoch: 7, State: tasksStable})
	if next := k.step(k.members["a"], 7, none); next.state != tasksStable || !next.assigned.hasStandby(task) {
		t.Errorf("state %d, %v", next.state, next.assigned)
	}
	k.apply("a", format.StreamsTarget{Active: one})
	if next := k.step(k.members["a"], 7, none); next.state != tasksUnreleased || next.assigned.count() > 0 {
		t.Errorf("c still runs it: state %d, %v", next.state, next.assigned)
	}
	k.apply("c", format.StreamsCurrent{Epoch: 7, State: tasksStable})
	if next := k.step(k.members["a"], 7, none); next.state != tasksStable || next.assigned.active[task] != 7 {
		t.Errorf("state %d, %v", next.state, next.assigned)
	}
}
