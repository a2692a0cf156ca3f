package replica

import (
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A log whose directory is lost is replaced, but only when the record has the replica in neither
// set, another one is in sync, and the controller knows of the damage.
func TestALogThatIsLostIsMadeAnew(t *testing.T) {
	c, fs := newCluster(), vfs.Memory()
	l := start(t, fs, c)
	tp := c.shared(idA, 2, 0)
	c.register(2, [16]byte{2})
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	must(t, l.storage.Close())
	must(t, fs.RemoveAll("/d/a-0"))

	l = start(t, fs, c)
	must(t, c.apply(t, l.Manager))
	offline := func(why string) {
		t.Helper()
		l.renew()
		if p := l.partition(t, idA, 0); p.Log().Flaw() == nil || p.Log().Offline() == nil || len(l.Renewals()) != 0 {
			t.Errorf("%s: the log is made again", why)
		}
	}
	offline("it is in the ISR")
	must(t, c.change(tp, func(p *metadata.Partition) { p.ISR = []int32{2} }))
	must(t, c.show(t, l.Manager))
	offline("a join may be on its way")
	c.put(metadata.LivenessKey(self), metadata.BrokerState{Liveness: metadata.Active, Damaged: []metadata.TopicPartition{tp}}.Encode())
	must(t, c.change(tp, func(p *metadata.Partition) { p.ISR, p.ELR = []int32{2}, []int32{self} }))
	must(t, c.show(t, l.Manager))
	offline("it is eligible")
	must(t, c.change(tp, func(p *metadata.Partition) { p.ELR = nil }))
	must(t, c.show(t, l.Manager))
	offline("its leader may count what the former log acknowledged")
	waitFor(t, "another epoch", func() bool {
		must(t, c.show(t, l.Manager))
		return c.image.Partition(tp).LeaderEpoch > 0
	})
	old := l.partition(t, idA, 0)
	l.renew()
	waitFor(t, "a new log", func() bool { return l.has(idA, 0) })
	p := l.partition(t, idA, 0)
	if p == old || p.Log().Flaw() != nil || p.Ends().LogEnd != 0 {
		t.Errorf("the new log is %+v, %v", p.Ends(), p.Log().Flaw())
	}
	if r := l.Renewals(); len(r) != 1 || r[0].Partition != 0 || r[0].Leader != 2 || r[0].Want != -1 {
		t.Errorf("renewals: %+v", r)
	}
	must(t, c.change(tp, func(p *metadata.Partition) { p.ISR = []int32{self, 2} }))
	must(t, c.show(t, l.Manager))
	if x := l.Renewed(); x.N != 0 {
		t.Errorf("copied again before it is in sync: %+v", x)
	}
	if l.renew(); len(l.Renewals()) != 0 {
		t.Errorf("renewals of a replica in sync: %+v", l.Renewals())
	}
	if x := l.Renewed(); x.N != 1 || x.Last != "a-0" || x.Why == "" {
		t.Errorf("copied again: %+v", x)
	}
}
