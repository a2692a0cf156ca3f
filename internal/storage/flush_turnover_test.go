package storage

import (
	"testing"
	"time"
)

// Writes that the page cache holds for two minutes stay there; faster ones do not.
func TestTurnover(t *testing.T) {
	const second, memory = 1 << 20, 120 << 20 // at 1 MiB/s it lasts for two minutes
	now := time.Unix(0, 0)
	run := func(m *turnover, perSecond int) (fast bool) {
		for range 50 {
			now = now.Add(100 * time.Millisecond)
			fast = m.count(perSecond/10, now)
		}
		return fast
	}
	m := &turnover{memory: memory, since: now}
	if m.count(1<<30, now.Add(time.Millisecond)) {
		t.Error("a single write is taken for a load")
	}
	m = &turnover{memory: memory, since: now}
	for _, step := range []struct {
		perSecond int
		fast      bool
	}{{second / 2, false}, {second * 2, true}, {second / 2, false}} {
		if fast := run(m, step.perSecond); fast != step.fast {
			t.Errorf("%d bytes a second: fast is %v", step.perSecond, fast)
		}
	}
	if run(&turnover{since: now}, 1<<40) {
		t.Error("a memory of unknown size is turned over")
	}
}
