package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/health"
)

// skew is the tolerated difference between clocks. The broker's answer is exact to a second.
const skew = 5 * time.Second

// clock compares this machine's clock with the broker's, which the admin port returns.
func (x *examination) clock(ctx context.Context) {
	if x.port == nil {
		return
	}
	before := time.Now()
	there, err := x.port.Clock(ctx)
	if err != nil {
		return // Health reports it if the settings name the port
	}
	x.Examined("clocks")
	x.judgeClock(there, before, time.Now())
}

// judgeClock compares the broker's time with the moments before and after its answer.
func (x *examination) judgeClock(there, before, after time.Time) {
	var off time.Duration
	switch {
	case there.Add(time.Second).Before(before):
		off = there.Sub(before)
	case there.After(after):
		off = there.Sub(after)
	}
	if off.Abs() < skew {
		return
	}
	word := "ahead of"
	if off < 0 {
		word = "behind"
	}
	x.Add("clock", health.Warn, "clock",
		fmt.Sprintf("the broker's clock is %v %s this machine's: retention, timestamps and --from with a time depend on it",
			off.Abs().Round(time.Second), word),
		"run NTP (chrony, systemd-timesyncd) on both machines")
}
