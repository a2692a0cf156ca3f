package brokers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// A loss of power takes records that a share group has finished, as the profile of their topic
// permits, but not what the group's coordinator on another broker has stored. The records that get
// their offsets are delivered.
func TestAShareGroupGetsRecordsAtTheOffsetsOfLostOnes(t *testing.T) {
	lost := int64(0)
	for seed := uint64(1); seed < 20 && lost == 0 && !t.Failed(); seed++ { // the coordinator may be on the same broker
		cryptotest.SetGlobalRandom(t, seed)
		synctest.Test(t, func(t *testing.T) {
			w := newWorkers(t, seed, kind{profile: "os", more: []string{
				"share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1"}})
			if until(patience, w.allRun) != nil {
				t.Fatal("not all brokers serve")
			}
			lost = w.finishAfterLoss()
			for _, p := range w.wrong() {
				t.Error(p)
			}
		})
	}
	if t.Logf("%d records were lost", lost); lost == 0 {
		t.Error("no record was lost")
	}
}

// finishAfterLoss returns how many records were lost.
func (w *workers) finishAfterLoss() (lost int64) {
	cl := w.client(w.direct())
	defer cl.Close()
	admin := kadm.NewClient(cl)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if until(patience, func() bool { _, err := admin.CreateTopic(ctx, 1, 1, nil, "jobs"); return err == nil }) != nil {
		w.Fatal("no topic")
	}
	w.configure(ctx, cl, "share.auto.offset.reset", "earliest")
	made := 0
	produce := func(n int) (all []string) {
		for range n {
			v := fmt.Sprint("job-", made)
			made, all = made+1, append(all, v)
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "jobs", Value: []byte(v)}).FirstErr(); err != nil {
				w.problem("%s: %v", v, err)
			}
		}
		return all
	}
	end := func() (at int64) {
		if until(patience, func() bool {
			list, err := admin.ListEndOffsets(ctx, "jobs")
			at = 0
			list.Each(func(o kadm.ListedOffset) { at += o.Offset })
			return err == nil && list.Error() == nil && len(list["jobs"]) == 1
		}) != nil {
			w.problem("no end offset")
		}
		return at
	}
	var work sync.WaitGroup
	for range 2 {
		m := w.member()
		work.Go(func() {
			defer m.cl.Close()
			m.run(ctx)
		})
	}
	for i := 0; i < 4 && lost == 0; i++ {
		all := produce(60)
		if until(time.Minute, func() bool { return w.missing(all) == 0 }) != nil {
			w.problem("%d of %d records were not delivered", w.missing(all), len(all))
			return lost
		}
		before := end()
		for id := range w.size() {
			w.powerLoss(id+1, crashfs.DropUnsynced)
		}
		for id := range w.size() {
			if w.process(id+1) == nil {
				w.start(id + 1)
			}
		}
		if until(patience, w.allRun) != nil {
			w.problem("not all brokers serve")
			return lost
		}
		lost += before - end()
	}
	all := produce(100)
	if until(time.Minute, func() bool { return w.missing(all) == 0 }) != nil {
		w.problem("%d of %d records at the offsets of lost ones were not delivered", w.missing(all), len(all))
	}
	stop()
	work.Wait()
	return lost
}
