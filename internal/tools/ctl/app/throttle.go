package app

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Throttle is what the quotas of brokers did to a command. It is a hook of its clients.
type Throttle struct {
	longest atomic.Int64 // the longest wait that an answer asked for
}

var _ kgo.HookBrokerThrottle = (*Throttle)(nil)

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (t *Throttle) OnBrokerThrottle(_ kgo.BrokerMetadata, wait time.Duration, _ bool) {
	for {
		known := t.longest.Load()
		if int64(wait) <= known || t.longest.CompareAndSwap(known, int64(wait)) {
			return
		}
	}
}

// Explain returns err with the quota as its cause if the answer did not come in time, and one
// before had asked the client to wait. The broker reads no request until its client's turn comes.
func (t *Throttle) Explain(err error) error {
	wait := time.Duration(t.longest.Load())
	if err == nil || wait == 0 || !unanswered(err) {
		return err
	}
	return &throttled{err, wait}
}

// throttled is the error of an answer that a quota holds up.
type throttled struct {
	err  error
	wait time.Duration
}

func (e *throttled) Unwrap() error { return e.err }

func (e *throttled) Error() string {
	return fmt.Sprintf("a quota lets this client wait, an answer before asked for a pause of %v: %v", e.wait, e.err)
}

// QuotaRemedy returns the remedy for an error of Throttle.Explain, and "" for others.
func QuotaRemedy(err error) string {
	if !errors.As(err, new(*throttled)) {
		return ""
	}
	return "`chronikctl quota explain USER chronikctl` shows the quotas of this client: raise request_percentage, or remove it with " +
		"`chronikctl quota remove`; --timeout allows more time"
}
