package raftstore

import (
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// A lost voter was replaced, nothing was written since, and then the power fails, and one of the
// other voters of that time loses its directory: the two that are left elect a leader. They must
// not start in the joint state, which needs a majority of the former voters.
func TestACompleteChangeOfVotersSurvivesThePower(t *testing.T) {
	w := newWorld(t, 1, 3, broken{})
	defer func() {
		for _, m := range w.machines {
			m.die()
		}
	}()
	wipe := func(m *machine) {
		m.die()
		m.disk = crashfs.New(w.rand.Uint64())
		m.start()
	}
	changed := func() bool {
		for _, m := range w.machines {
			if m.node == nil || m.node.changing() || m.node.role.Leader == 0 || m.node.applied != w.machines[0].node.applied {
				return false
			}
			for _, v := range m.node.conf.GetVoters() {
				if at := w.byMember[v]; at.node == nil || at.node.member != v {
					return false
				}
			}
		}
		return true
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for range 1000 {
			if w.step(); w.bad != nil {
				t.Fatal(w.bad)
			}
			if w.replaceWiped(); done() {
				return
			}
		}
		t.Fatal(what)
	}
	until("no first leader", func() bool { return w.leader() != nil && changed() })
	wipe(w.machines[0])
	until("the lost voter is not replaced", changed)
	wipe(w.machines[1])
	for _, m := range []*machine{w.machines[0], w.machines[2]} {
		m.die()
		m.disk = m.disk.PowerLossImage(crashfs.DropUnsynced, 1)
		m.start()
	}
	until("the two voters that are left do not elect a leader", func() bool { return w.leader() != nil })
	until("the second lost voter is not replaced", changed)
}
