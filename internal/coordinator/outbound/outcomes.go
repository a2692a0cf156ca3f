package outbound

import (
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/series"
)

// mended is for how long no call to a broker must fail before it is logged that they are answered
// again: of several kinds of requests in calls, one alone may fail.
const mended = 10 * time.Second

// Outcomes logs when calls to a broker begin to fail, and why: the link to it may be up, so that
// the state of the link does not tell. Its methods may be called concurrently, and do not block.
type Outcomes struct {
	work *Work
	log  *zap.Logger
	what string
	then string

	failures series.Failures // by broker

	mu   sync.Mutex
	last map[int32]time.Time // failure of a broker whose calls do not work again
}

// NewOutcomes returns Outcomes of the calls of a Work. what is what the calls are about, and then
// what follows a failure, for lines such as "… to a broker fail; they are repeated".
func NewOutcomes(w *Work, log *zap.Logger, what, then string) *Outcomes {
	return &Outcomes{work: w, log: log, what: what, then: then, last: map[int32]time.Time{}}
}

// Note notes the outcome of a call with some requests; err is nil if all have an answer.
func (o *Outcomes) Note(broker int32, requests int, err error) {
	key := strconv.Itoa(int(broker)) + ":"
	switch {
	case o.work.ctx.Err() != nil: // the calls end because the Work does
	case err == nil:
		if o.again(broker) && o.failures.Ended(key) {
			o.log.Info(o.what+" to a broker are answered again", zap.Int32("broker", broker))
		}
	default:
		o.mu.Lock()
		o.last[broker] = time.Now()
		o.mu.Unlock()
		if n, say := o.failures.Failed(key, err); say {
			o.log.Warn(o.what+" to a broker fail; "+o.then, zap.Int32("broker", broker), zap.Int("requests", requests),
				zap.Int("failures", n), zap.Error(err))
		}
	}
}

// again reports whether a call that was answered ends failures.
func (o *Outcomes) again(broker int32) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	last, failed := o.last[broker]
	if !failed || time.Since(last) < mended {
		return false
	}
	delete(o.last, broker)
	return true
}
