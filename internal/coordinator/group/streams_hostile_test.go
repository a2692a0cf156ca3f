package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A topology may name more topics than an index of a copartition group can say.
func TestStreamsTopologyWithMoreTopicsThanIndexes(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxRequest = 1 << 20 })
	names := make([]string, 40_000)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	is(t, w.streamsBeat(streamsJoin("a", simple(names...))).Response.ErrorCode, kerr.StreamsInvalidTopology)
	repartitions := simple("in")
	for _, name := range names {
		s := &repartitions.Subtopologies[0]
		s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, kmsg.TopicInfo{Topic: name})
	}
	is(t, w.streamsBeat(streamsJoin("a", repartitions)).Response.ErrorCode, kerr.StreamsInvalidTopology)
}

// The response with a member's new tasks may be lost. Then the member reports the tasks that it
// runs, and receives the new ones again.
func TestStreamsTasksAreToldAgain(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	a, b := w.newStreamsClient("a", simple("in")), w.newStreamsClient("b", simple("in"))
	is(t, a.beat(), nil)
	is(t, a.beat(), nil)
	is(t, w.streamsBeat(streamsBeatOf("b", b.epoch)).Response.ErrorCode, nil) // its response is lost
	is(t, b.beat(), nil)
	b.expect("epoch 3: 0_1")
	is(t, b.beat(), nil)
	if b.last.Response.ActiveTasks != nil {
		t.Errorf("told what it has reported: %+v", b.last.Response.ActiveTasks)
	}
	is(t, w.streamsBeat(streamsBeatOf("b", -1)).Response.ErrorCode, nil)
	is(t, w.streamsBeat(streamsBeatOf("a", a.epoch)).Response.ErrorCode, nil) // lost, with an epoch
	is(t, a.beat(), nil)
	a.expect("epoch 4: 0_0 0_1")
}

// A source topic that is deleted and created with fewer partitions while the application runs does
// not make the members' reports invalid, which would end the application.
func TestStreamsReportOfTasksThatHaveGone(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 4)
	a := w.newStreamsClient("a", simple("in"))
	w.topic("in", 2)
	is(t, a.beat(), nil)
	a.expect("epoch 2: 0_0 0_1")
	is(t, a.beat(), nil)
	a.expect("epoch 3: 0_0 0_1")
	is(t, w.streamsBeat(ownTasks(streamsBeatOf("a", 3), "0", 3)).Response.ErrorCode, kerr.InvalidRequest)
	w.replays()
}

// A coordinator whose clock is behind that of its predecessor waits no longer than an interval.
func TestStreamsTargetWithAClockBehind(t *testing.T) {
	w := newWorld(t, quick(func(c *StreamsConfig) { c.Interval = time.Second }))
	w.topic("in", 2)
	a := w.newStreamsClient("a", simple("in"))
	w.now = w.now.Add(-time.Hour)
	w.start()
	b := w.newStreamsClient("b", simple("in"))
	w.advance(time.Second)
	is(t, a.beat(), nil)
	is(t, a.beat(), nil)
	is(t, b.beat(), nil)
	b.expect("epoch 3: 0_1")
}
