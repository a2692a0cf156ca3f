package coordinator

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A goroutine that has run a shard also runs the next one. While it ends a run, others may start.
func TestGoroutinesStay(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, _ *fakeLog) {
		for i := range 50 {
			submit(rt, "a").want(t, fmt.Sprint(i+1), nil)
		}
		if n := rt.workers.free.Load(); n < 1 || n > 10 {
			t.Errorf("%d goroutines are free after 50 events", n)
		}
	})
}

// A shard never waits for another one. Of the goroutines that this takes, some stay.
func TestAShardWaitsForNoOther(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, _ *fakeLog) {
		rt.workers.maxFree = 3
		slow := make([]*result, 20)
		for i := range slow {
			p := int32(i + 1)
			rt.Lead(p, 1, &fakeLog{})
			synctest.Wait()
			slow[i] = &result{}
			rt.Submit(p, "freeze 5s", slow[i].done)
		}
		submit(rt, "a").want(t, "1", nil)
		for _, r := range slow {
			r.want(t, "", nil)
		}
		time.Sleep(5 * time.Second) // of the bubble
		for _, r := range slow {
			r.want(t, "thawed", nil)
		}
		if n := rt.workers.free.Load(); n != 3 {
			t.Errorf("%d goroutines are free, not 3", n)
		}
	})
}
