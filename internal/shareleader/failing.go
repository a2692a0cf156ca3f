package shareleader

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/series"
)

// maxFailed bounds the share partitions whose failed load is remembered, and failedTime is for how
// long: a member that fetches tries again within seconds.
const (
	maxFailed  = 1000
	failedTime = time.Minute
)

// lasting is from when on loads have failed for too long for a reason that is usual for a moment.
const lasting = time.Minute

// failedLoad is why a share partition has ended that could not be loaded: since is the first such
// end without a load between, at the last one.
type failedLoad struct {
	why       *kerr.Error
	since, at time.Duration
}

// surveyed reports whether operators should know of a failure: most others end on their own. The
// time since the last one does not count, since no member may have tried.
func (f *failedLoad) surveyed() bool {
	return f.why == kerr.KafkaStorageError || f.at-f.since >= lasting
}

// noteLoad remembers that the state of a share partition cannot be loaded, and returns for how long
// that has been so; false: too many others are remembered.
func (l *Leader) noteLoad(p *Partition, why *kerr.Error) (lasted time.Duration, noted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	f, known := l.failed[p.key]
	switch {
	case !known && (len(l.failed) >= maxFailed || why != kerr.KafkaStorageError && len(l.failed) >= maxFailed/2):
		return 0, false // clients choose what has no state
	case !known || now-f.at > failedTime:
		f = failedLoad{since: now}
	}
	f.why, f.at = why, now
	l.failed[p.key] = f
	return now - f.since, true
}

// fail ends p because its state cannot be loaded. The next fetch of a member tries again.
func (p *Partition) fail(code *kerr.Error, why error) {
	if lasted, noted := p.l.noteLoad(p, code); noted {
		p.sayFailed(why, lasted)
	}
	p.end(loadError(code))
}

// reloadLater repeats a load; why is nil if its coordinator did not answer, which others report.
func (p *Partition) reloadLater(why error) {
	if p.unloaded = why; why != nil {
		p.sayFailed(why, p.l.now()-p.loadAt)
	}
	p.later(p.peek)
}

// sayFailed logs why a load has failed.
func (p *Partition) sayFailed(why error, lasted time.Duration) {
	if passing(why) && lasted < lasting {
		return
	}
	if n, say := p.l.failures.Failed(seriesOf(p.key), why); say {
		p.l.opt.Logger.Warn("the state of a share partition cannot be loaded, which is tried again", p.named(),
			zap.Int("failures", n), zap.Error(why))
	}
}

// wasLoaded ends what noteLoad and sayFailed have begun.
func (p *Partition) wasLoaded() {
	p.unloaded = nil
	p.l.mu.Lock()
	delete(p.l.failed, p.key)
	p.l.mu.Unlock()
	if p.l.failures.Ended(seriesOf(p.key)) {
		p.l.opt.Logger.Info("the state of a share partition is loaded again", p.named())
	}
}

// seriesOf returns the key of the failures of a share partition, which is the prefix of no other.
func seriesOf(k format.Key) string { return series.Key(k.String(), "") }

// passing reports whether an error of a load is usual for a moment: after an election, or while
// topics and groups are created and deleted.
func passing(err error) bool {
	for _, x := range []error{kerr.InvalidRequest, kerr.UnknownTopicOrPartition, kerr.FencedLeaderEpoch, kerr.FencedStateEpoch,
		kerr.UnknownLeaderEpoch, errLedLater, replica.ErrOffsetNotAvailable, replica.ErrFencedEpoch} {
		if errors.Is(err, x) {
			return true
		}
	}
	return false
}

// errLedLater is why a load waits for other metadata.
var errLedLater = errors.New("its stored state has a later leader epoch than the metadata of this broker")

// refusal returns the error for a code of a share coordinator: the text of some codes is about
// clients.
func refusal(code *kerr.Error) error {
	switch code {
	case kerr.InvalidRequest:
		return &refused{"its share coordinator has no state of it", code}
	case kerr.UnknownTopicOrPartition:
		return &refused{"its share coordinator knows no such topic or partition", code}
	case kerr.KafkaStorageError:
		return &refused{"records of its stored state are missing or invalid", code}
	}
	return &refused{"its share coordinator refuses the load", code}
}

// refused is the answer of a share coordinator to a load.
type refused struct {
	text string
	code *kerr.Error
}

func (r *refused) Error() string { return fmt.Sprintf("%s (%s)", r.text, r.code.Message) }

func (r *refused) Unwrap() error { return r.code }

// named names p in a line of the log.
func (p *Partition) named() zap.Field {
	topic := fmt.Sprintf("%x", p.key.Topic)
	if name := p.l.opt.TopicName; name != nil {
		topic = name(p.key.Topic)
	}
	return zap.Dict("share partition", zap.String("group", p.key.Group), zap.String("topic", topic),
		zap.Int32("partition", p.key.Partition))
}
