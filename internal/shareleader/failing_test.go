package shareleader

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

// observed returns lines of the log as text, and an option that writes them.
func observed() (lines func() string, option func(*Options)) {
	core, logs := observer.New(zap.InfoLevel)
	return func() string {
			var all []string
			for _, e := range logs.TakeAll() {
				text := e.Level.String() + ": " + e.Message
				for _, key := range []string{"share partition", "error"} {
					if x, has := e.ContextMap()[key]; has {
						text += fmt.Sprint(", ", x)
					}
				}
				all = append(all, text)
			}
			return strings.Join(all, "; ")
		}, func(o *Options) {
			o.Logger = zap.New(core)
			o.TopicName = func(id [16]byte) string { return fmt.Sprint("topic ", id[0]) }
		}
}

const of = ", map[group:g partition:0 topic:topic 1]"

// A state that is gone is usual for a moment. One that stays away is said while members ask for it.
func TestAStateThatStaysAwayIsSaid(t *testing.T) {
	lines, option := observed()
	check(t, 1, func(w *world) string {
		w.put(1, false)
		w.desk.Delete(w.key)
		a := w.join(w.leader(), "a")
		ask := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				a.fetch(1)
			}
		}
		ask(lasting - time.Second)
		before, shown := lines(), w.surveyed()
		ask(2 * time.Second)
		after, lasts := lines(), w.surveyed()
		ask(time.Minute)
		more := strings.Count(lines(), "warn")
		w.desk.Initialize(w.key, 2, 0)
		got := show(a.fetch(1))
		again, loaded := lines(), w.surveyed()
		const why = "its share coordinator has no state of it (INVALID_REQUEST)"
		return differ(before, "", shown, "1 of g, 0 partitions",
			after, "warn: the state of a share partition cannot be loaded, which is tried again"+of+", "+why,
			lasts, "1 of g, 1 partitions; failed true, loaded false, loading 1m1s, full 0s, writing 0s: "+why,
			more < 8, true, got, "0-0:1", again, "info: the state of a share partition is loaded again"+of,
			strings.Contains(loaded, "failed true"), false)
	}, option)
}

// A log that cannot be searched delays the load, and is said at once but not with each try.
func TestALogThatCannotBeSearchedIsSaid(t *testing.T) {
	lines, option := observed()
	check(t, 1, func(w *world) string {
		w.put(1, false)
		fails := func(err error) {
			w.leader().view.mu.Lock()
			w.leader().view.fails = err
			w.leader().view.mu.Unlock()
		}
		fails(replica.ErrOffsetNotAvailable)
		a := w.join(w.leader(), "a")
		f := a.begin(1, nil)
		time.Sleep(time.Second)
		elected := lines()
		fails(fmt.Errorf("read: %w", syscall.EIO))
		time.Sleep(2 * time.Second)
		first, shown := lines(), w.surveyed()
		time.Sleep(time.Hour)
		more := strings.Count(lines(), "warn")
		fails(nil)
		time.Sleep(2 * time.Second)
		f.stop()
		return differ(elected, "", strings.HasPrefix(first, "warn: the state of a share partition cannot be loaded, which is tried again"+
			of+", read: input/output error"), true, shown, "1 of g, 1 partitions; failed false, loaded false, loading 3s, full 0s, "+
			"writing 0s: read: input/output error", more < 12, true, lines(),
			"info: the state of a share partition is loaded again"+of, show(f.taken), "0-0:1")
	}, option)
}

// Clients that ask for what has no state take no room from states that cannot be used. Each share
// partition has a series of its own.
func TestManyAbsentStatesHideNoOther(t *testing.T) {
	_, option := observed()
	check(t, 1, func(w *world) string {
		l := w.leader().Leader
		noted := func(index int32, why *kerr.Error) bool {
			_, noted := l.noteLoad(&Partition{key: format.Key{Group: "g", Partition: index}}, why)
			return noted
		}
		for i := range int32(maxFailed) {
			noted(i, kerr.InvalidRequest)
		}
		absent, unusable := noted(maxFailed, kerr.InvalidRequest), noted(maxFailed+1, kerr.KafkaStorageError)
		parts := [2]*Partition{{l: l, key: format.Key{Group: "g", Partition: 1}}, {l: l, key: format.Key{Group: "g", Partition: 12}}}
		for _, p := range parts {
			p.sayFailed(refusal(kerr.KafkaStorageError), 0)
		}
		parts[0].wasLoaded()
		return differ(absent, false, unusable, true, l.failures.Ended(seriesOf(parts[0].key)), false,
			l.failures.Ended(seriesOf(parts[1].key)), true)
	}, option)
}

// Two failures half a minute apart have not lasted a minute, however long ago they were: another
// broker may lead, or no member fetches.
func TestFailuresThatEndedAreNotSurveyed(t *testing.T) {
	_, option := observed()
	check(t, 1, func(w *world) string {
		l := w.leader().Leader
		p := &Partition{l: l, key: format.Key{Group: "g", Partition: 1}}
		l.noteLoad(p, kerr.InvalidRequest)
		time.Sleep(lasting / 2)
		l.noteLoad(p, kerr.InvalidRequest)
		time.Sleep(lasting - time.Second)
		ended := len(l.Survey().Partitions)
		l.noteLoad(p, kerr.InvalidRequest)
		return differ(ended, 0, len(l.Survey().Partitions), 1)
	}, option)
}

// The coordinator's silence is the matter of those who call it.
func TestACoordinatorWithoutAnAnswerIsNoReason(t *testing.T) {
	lines, option := observed()
	check(t, 1, func(w *world) string {
		w.desk.Deliver(func(_ sharetest.Kind, _, _, lose func()) { lose() })
		a := w.join(w.leader(), "a")
		f := a.begin(1, nil)
		time.Sleep(2 * lasting)
		f.stop()
		return differ(lines(), "", w.surveyed(), "1 of g, 1 partitions; failed false, loaded false, loading 2m0s, full 0s, writing 0s")
	}, option)
}
