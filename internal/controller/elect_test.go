package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// kinds returns the kinds of refusals, 0 for nil.
func kinds(t *testing.T, errs []error) (list []Kind) {
	t.Helper()
	for _, err := range errs {
		refused := &Error{}
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		list = append(list, refused.Kind)
	}
	return list
}

// A preferred leader is elected if it is in sync and active. The revision shows it.
func TestPreferredLeadersAreElected(t *testing.T) {
	w := three(t)
	c := New(Options{Store: w.store})
	prefer := func(list ...metadata.TopicPartition) []Kind {
		revision, errs := c.ElectPreferred(context.Background(), w.applier, list)
		w.must(w.applier.WaitShown(context.Background(), revision))
		return kinds(t, errs)
	}
	w.want("at first", "1@0 isr [1 2 3] elr []")
	got := prefer(tpA, metadata.TopicPartition{Topic: topicA, Partition: 5}, metadata.TopicPartition{})
	if !slices.Equal(got, []Kind{ElectionNotNeeded, UnknownTopic, UnknownTopic}) {
		t.Error(got)
	}
	w.procs[1].drain = true
	w.pass(2 * time.Second)
	w.want("1 drains", "2@1 isr [2 3] elr []")
	if got := prefer(tpA); got[0] != PreferredLeaderNotAvailable {
		t.Errorf("1 is draining: %v", got)
	}
	w.start(1)
	w.pass(time.Second)
	if got := prefer(tpA); got[0] != PreferredLeaderNotAvailable {
		t.Errorf("1 is not in sync: %v", got)
	}
	p := *w.applier.Image().Partition(tpA)
	p.ISR = []int32{1, 2, 3}
	w.put(metadata.PartitionKey(topicA, 0), p.Encode())
	if got := prefer(tpA, tpA); got[0] != 0 || got[1] != 0 { // the second is refused by the first, and satisfied by it
		t.Errorf("1 is in sync: %v", got)
	}
	w.want("elected", "1@2 isr [1 2 3] elr []")
}

// racing is a store in which another writer changes the partition before each of the first writes.
type racing struct {
	metadata.Store
	w    *world
	left int
}

func (r *racing) Txn(ctx context.Context, txn metadata.Txn) (int64, error) {
	if r.left > 0 {
		r.left--
		p := *r.w.applier.Image().Partition(tpA)
		p.PartitionEpoch++
		r.w.put(metadata.PartitionKey(topicA, 0), p.Encode())
	}
	return r.Store.Txn(ctx, txn)
}

// An election that loses against other writers is decided again, a bounded number of times.
func TestAnElectionThatIsRefusedIsDecidedAgain(t *testing.T) {
	for races, want := range map[int]bool{3: true, 1000: false} {
		w := three(t)
		p := *w.applier.Image().Partition(tpA)
		p.Leader, p.LeaderEpoch = 2, 1
		w.put(metadata.PartitionKey(topicA, 0), p.Encode())
		c := New(Options{Store: &racing{w.store, w, races}})
		_, errs := c.ElectPreferred(context.Background(), w.applier, []metadata.TopicPartition{tpA})
		if elected := w.applier.Image().Partition(tpA).Leader == 1; elected != want || (errs[0] == nil) != want {
			t.Errorf("%d conflicts: elected %t, %v", races, elected, errs[0])
		}
		if !want && !errors.Is(errs[0], metadata.ErrConflict) {
			t.Error(errs[0])
		}
	}
}

// What a store refuses for another reason is an error of each partition.
func TestAnElectionWithoutAStoreFails(t *testing.T) {
	w := three(t)
	p := *w.applier.Image().Partition(tpA)
	p.Leader, p.LeaderEpoch = 2, 1
	w.put(metadata.PartitionKey(topicA, 0), p.Encode())
	c := New(Options{Store: failing{w.store}})
	_, errs := c.ElectPreferred(context.Background(), w.applier, []metadata.TopicPartition{tpA, {}})
	if !errors.Is(errs[0], metadata.ErrUnavailable) || kinds(t, errs[1:])[0] != UnknownTopic {
		t.Errorf("%v", errs)
	}
}

type failing struct{ metadata.Store }

func (failing) Txn(context.Context, metadata.Txn) (int64, error) { return 0, metadata.ErrUnavailable }

// An operator may accept that records are lost: of the active replicas, the one with the most
// records leads, although the topic does not permit it. It is logged. A partition with a leader is
// left alone.
func TestAnOperatorElectsUncleanly(t *testing.T) {
	w := three(t)
	core, logs := observer.New(zap.WarnLevel)
	w.loop.opt.Log = zap.New(core)
	unclean := func(list ...metadata.TopicPartition) []Kind {
		revision, errs := w.loop.ElectUnclean(context.Background(), list)
		w.must(w.applier.WaitShown(context.Background(), revision))
		return kinds(t, errs)
	}
	if got := unclean(tpA); got[0] != ElectionNotNeeded {
		t.Errorf("it has a leader: %v", got)
	}
	for _, id := range []int32{3, 1, 2} {
		w.procs[id].up = false
		w.pass(4 * time.Second)
	}
	w.want("all are away", "-1@2 isr [] elr [1 2]")
	if got := unclean(tpA, metadata.TopicPartition{}); got[0] != EligibleLeadersNotAvailable || got[1] != UnknownTopic {
		t.Errorf("no replica is active: %v", got)
	}
	w.start(3)
	w.pass(time.Minute)
	w.want("a replica that may lack records is back", "-1@2 isr [] elr [1 2]")
	if got := unclean(tpA); got[0] != EligibleLeadersNotAvailable {
		t.Errorf("it has not reported its log: %v", got)
	}
	w.reports = map[int32]election.LogState{3: {End: 5}}
	w.use(failing{w.store})
	if _, errs := w.loop.ElectUnclean(t.Context(), []metadata.TopicPartition{tpA}); !errors.Is(errs[0], metadata.ErrUnavailable) {
		t.Errorf("an election that was not written: %v", errs)
	}
	w.use(w.store)
	if got := unclean(tpA); got[0] != 0 {
		t.Errorf("%v", got)
	}
	w.want("elected", "3@3 isr [3] elr []")
	p := w.applier.Image().Partition(tpA)
	chosen := logs.FilterMessageSnippet("choosing a leader").All() // also in vain
	if p.Unclean != 3 || len(chosen) != 2 || chosen[1].ContextMap()["permitted_by"] != "an operator" ||
		fmt.Sprint(chosen[1].ContextMap()["not_compared"]) != "[1 2]" {
		t.Errorf("unclean epoch %d, %+v", p.Unclean, logs.All())
	}
}

// Only the controller elects uncleanly, and only a bounded number at a time.
func TestUncleanElectionsAreRefused(t *testing.T) {
	w := three(t)
	many := make([]metadata.TopicPartition, MaxPartitions+1)
	if _, errs := w.loop.ElectUnclean(context.Background(), many); kinds(t, errs)[0] != InvalidRequest {
		t.Error(errs[0])
	}
	w.loop.end()
	if _, errs := w.loop.ElectUnclean(context.Background(), []metadata.TopicPartition{tpA}); !errors.Is(errs[0], ErrNotController) {
		t.Error(errs[0])
	}
}

// A loss stays until an operator confirms it. A new loss is one again, and an epoch that is only
// raised is none.
func TestLossesAreConfirmed(t *testing.T) {
	w := three(t)
	c := New(Options{Store: w.store})
	confirm := func() Kind {
		revision, errs := c.ConfirmLosses(context.Background(), w.applier, []metadata.TopicPartition{tpA})
		w.must(w.applier.WaitShown(context.Background(), revision))
		return kinds(t, errs)[0]
	}
	lost := func(want bool) {
		t.Helper()
		if p := w.applier.Image().Partition(tpA); p.Lost() != want {
			t.Errorf("%+v: lost %t", p, p.Lost())
		}
	}
	lose := func() {
		p := *w.applier.Image().Partition(tpA)
		p.LeaderEpoch++
		p.Unclean = p.LeaderEpoch
		w.put(metadata.PartitionKey(topicA, 0), p.Encode())
	}
	raise := func(seen int32) {
		epoch := w.applier.Image().Partition(tpA).LeaderEpoch
		revision, err := c.RaiseEpochs(context.Background(), map[metadata.TopicPartition]metadata.Raise{
			tpA: {From: epoch, Seen: epoch + seen, Lossy: true}})
		w.must(err)
		w.must(w.applier.WaitShown(context.Background(), revision))
	}
	if kind := confirm(); kind != ElectionNotNeeded {
		t.Errorf("without a loss: %v", kind)
	}
	lose()
	lost(true)
	raise(1)
	lost(true)
	if kind := confirm(); kind != InvalidFeature {
		t.Errorf("with brokers of an older version: %v", kind)
	}
	lost(true)
	cluster := metadata.NewCluster("c", w.applier.Image().Generation())
	w.put(metadata.ClusterKey, cluster.Encode())
	if kind := confirm(); kind != 0 {
		t.Errorf("with a loss: %v", kind)
	}
	lost(false)
	raise(1)
	lost(false)
	raise(0) // without a gap, as one that has lost records leads again
	lost(true)
	confirm()
	lose()
	lost(true)
}
