package app

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Throttle is what the quotas of brokers do to a command. It is a hook of its clients.
type Throttle struct {
	mu    sync.Mutex
	pause time.Duration // of the pauses that answers asked for, the one that ends last
	until time.Time
}

var _ kgo.HookBrokerThrottle = (*Throttle)(nil)

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (t *Throttle) OnBrokerThrottle(_ kgo.BrokerMetadata, wait time.Duration, _ bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := time.Now().Add(wait); until.After(t.until) {
		t.pause, t.until = wait, until
	}
}

// Explain returns err with the quota as its cause if an answer did not come in time, and one before
// had asked for a pause that has not ended yet. Until then a broker reads no request of the client,
// on none of its connections.
func (t *Throttle) Explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil || !unanswered(err) || !time.Now().Before(t.until) {
		return err
	}
	return &throttled{err, t.pause}
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
