package replica

import (
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A follower is compared when its log has all that was committed when it subscribed. What another
// leader named before does not count.
func TestAFollowerIsComparedWhenItHasWhatWasCommitted(t *testing.T) {
	p := lone(t, vfs.Memory())
	follow(p, 2, 1, []int32{1, 2}, []int32{1, 2})
	must(t, p.Follow(1))
	if p.Compared() {
		t.Error("before its leader has named an offset")
	}
	p.CompareTo(1, 2)
	p.CompareTo(0, 0) // of a former leader
	if p.Compared() {
		t.Error("an empty log that lacks two records")
	}
	must(t, p.Follow(1))
	must(t, copied(t, p, 1, 0, 0))
	must(t, copied(t, p, 1, 1, 0))
	waitFor(t, "the records are durable", func() bool { return p.log.AckEnd() == 2 })
	if p.Compared() {
		t.Error("with what was named before it subscribed again")
	}
	p.CompareTo(1, 3)
	if p.Compared() {
		t.Error("a log that lacks one record")
	}
	p.CompareTo(1, 2)
	if !p.Compared() {
		t.Error("a log that lacks nothing")
	}
}

// A leader names its high watermark, or the start of its epoch if that is higher: what it had then
// may be committed.
func TestALeaderNamesWhatIsCommitted(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 1, []int32{1, 2}, []int32{1})
	awaitNote(t, p)
	must(t, begin(t, p, AcksAll, 3).wait(t))
	named := func() int64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.wholeLocked()
	}
	if got := named(); got != 3 {
		t.Errorf("committed to 3 in an epoch that began at 0: %d", got)
	}
	lead(p, 2, []int32{1, 2}, []int32{1, 2})
	must(t, begin(t, p, AcksLeader, 2).wait(t))
	if got := named(); got != 3 {
		t.Errorf("an epoch that began at 3: %d", got)
	}
	if !p.Compared() {
		t.Error("a leader has what counts")
	}
}

// The logs that are not compared are members of the ISR with others. They are not listed if the
// metadata name none.
func TestLogsThatAreNotCompared(t *testing.T) {
	c := newCluster()
	l := start(t, vfs.Memory(), c)
	m := l.Manager
	c.shared(idA, 2, 1)
	must(t, c.apply(t, m))
	must(t, c.apply(t, m)) // the placements
	tp := metadata.TopicPartition{Topic: idA}
	check := func(what string, state metadata.BrokerState, most int, all bool, want ...metadata.TopicPartition) {
		t.Helper()
		state.Liveness = metadata.Active
		c.put(metadata.LivenessKey(self), state.Encode())
		must(t, c.apply(t, m))
		if got, list := m.Uncompared(c.image, most); got != all || !slices.Equal(list, want) {
			t.Errorf("%s: %t, %v", what, got, list)
		}
	}
	some := metadata.BrokerState{Uncompared: true}
	check("none is named", metadata.BrokerState{}, 1, false)
	check("a log that follows", some, 1, false, tp)
	check("too many", some, 0, true)
	check("it is named", metadata.BrokerState{UncomparedLogs: []metadata.TopicPartition{tp}}, 1, false, tp)
	check("another one is named", metadata.BrokerState{UncomparedLogs: []metadata.TopicPartition{{Topic: idB}}}, 1, false)
	p := l.partition(t, idA, 0)
	must(t, p.Follow(1))
	p.CompareTo(1, 0)
	check("a leader has compared it", some, 1, false)
}
