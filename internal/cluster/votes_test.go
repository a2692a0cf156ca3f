package cluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// A broker that has registered as another member has lost the vote of the former one. Of what does
// not answer nothing is known.
func TestVotesOfFormerMembersAreLost(t *testing.T) {
	b := newBook([]string{"a:1", "b:1", "c:1"}, func() uint64 { return 13 },
		func(context.Context, uint16, []byte) ([]byte, error) { return nil, nil })
	b.registered = []listed{
		{Member: membership.Member{Node: 2, ID: 12, Address: "b:1"}},
		{Member: membership.Member{Node: 1, ID: 99, Address: "a:1"}, former: []uint64{11}},
	}
	want := []membership.Vote{{Node: -1}, {Node: 1, Address: "a:1", Lost: true}, {Node: 2, Address: "b:1"}}
	got := b.votes([]uint64{12, 13, 11, 14})
	if len(got) != len(want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

// A change of members that fails for some seconds is why they are not as they must be. Each reason
// is logged once, with its members and brokers.
func TestAChangeOfVotersThatFailsIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, said := observer.New(zap.DebugLevel)
		c := &Cluster{o: Options{Log: zap.New(core)}}
		img, err := metadata.Load([]metadata.KV{
			{Key: metadata.BrokerKey(3), Value: metadata.Broker{Member: 13}.Encode(), ModRevision: 1},
			{Key: metadata.BrokerKey(2), Value: metadata.Broker{Member: 12, Former: []uint64{11}}.Encode(), ModRevision: 1},
		}, 1)
		must.OK(t, err)
		var next membership.Change
		next.Replace.Former, next.Replace.Learner = 11, 13
		each := func(seconds int, failed error) {
			for range seconds {
				c.setVotersWait(img, next, failed)
				time.Sleep(votersEvery)
			}
		}
		each(4, raftstore.ErrNotCaughtUp)
		if said.Len() != 0 {
			t.Errorf("said at once: %+v", said.All())
		}
		each(10, raftstore.ErrNotCaughtUp)
		all := said.TakeAll()
		if len(all) != 1 || all[0].Level != zap.WarnLevel || all[0].ContextMap()["error"] != raftstore.ErrNotCaughtUp.Error() ||
			fmt.Sprint(all[0].ContextMap()["members"], all[0].ContextMap()["brokers"]) != "[11 13] [2 3]" {
			t.Errorf("said: %+v", all)
		}
		each(10, raftstore.ErrNoQuorum)
		if n := said.FilterField(zap.String("error", raftstore.ErrNoQuorum.Error())).Len(); n != 1 || said.Len() != 1 {
			t.Errorf("another reason: %+v", said.All())
		}
		if w := c.votersWait.Load(); w == nil || w.why != raftstore.ErrNoQuorum.Error() || time.Since(w.since) < 24*votersEvery {
			t.Errorf("found %+v", w)
		}
		each(1, nil)
		if w := c.votersWait.Load(); w != nil {
			t.Errorf("after a success: %+v", w)
		}
	})
}
