package txncases

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func offsetsNotAdded(w *world) {
	topic, group := w.topic("t", 1), w.prefix+"g"
	p := w.start("x")
	w.group(group, topic)
	for v := int16(0); v <= 4; v++ {
		want := badState
		if v == 4 {
			want = abortable
		}
		w.is(fmt.Sprintf("v%d", v), w.offset(v, p, group, outsider, topic, 5), want)
	}
	w.is("v5 adds", w.offset(5, p, group, outsider, topic, 5), none)
	w.is("v4 to another group", w.offset(4, p, w.prefix+"h", outsider, topic, 5), abortable)
	w.is("EndTxn", w.end(5, p, true), p.at(1).success())
	w.decided(p.id)
	w.is("OffsetFetch", w.committed(group, topic, true), "NONE 5")
}

func offsetsRefused(w *world) {
	topic, group := w.topic("t", 1), w.prefix+"g"
	p := w.again(w.start("x"), 60_000)
	w.group(group, topic)
	w.is("generation of an unknown group", w.offset(5, p, group, member{"m", 3}, topic, 5), "ILLEGAL_GENERATION")
	w.is("offset", w.offset(5, p, group, outsider, topic, 5), none)
	w.is("unknown member", w.offset(5, p, group, member{"m", 1}, topic, 5), "UNKNOWN_MEMBER_ID")
	w.is("unknown topic", w.offset(5, p, group, outsider, w.prefix+"unknown", 5), unknown)
	w.is("lower epoch", w.offset(5, p.at(-1), group, outsider, topic, 6), badEpoch)
	w.is("higher epoch", w.offset(5, p.at(1), group, outsider, topic, 6), badEpoch)
	w.is("EndTxn", w.end(5, p, true), p.at(1).success())
	w.decided(p.id)
	w.is("OffsetFetch", w.committed(group, topic, true), "NONE 5")
}

func offsetsPending(w *world) {
	topic, group := w.topic("t", 1), w.prefix+"g"
	p := w.start("x")
	w.group(group, topic)
	for i, commit := range []bool{true, false, true} {
		before := "NONE -1"
		if i > 0 {
			before = "NONE 1" // of the first transaction: the second one is aborted
		}
		var got string
		w.until("the next transaction can begin", func() bool {
			got = w.offset(5, p, group, outsider, topic, int64(i+1))
			return !transient(got)
		})
		w.is("TxnOffsetCommit", got, none)
		w.is("OffsetFetch, not stable", w.committed(group, topic, false), before)
		w.is("OffsetFetch, stable", w.committed(group, topic, true)[:len("UNSTABLE_OFFSET_COMMIT")], "UNSTABLE_OFFSET_COMMIT")
		w.is("EndTxn", w.end(5, p, commit), p.at(1).success())
		w.decided(p.id)
		after := before
		if commit {
			after = fmt.Sprintf("NONE %d", i+1)
		}
		w.is("OffsetFetch", w.committed(group, topic, true), after)
		p = p.at(1)
	}
}

func offsetsDeleted(w *world) {
	topic, group := w.topic("t", 1), w.prefix+"g"
	p := w.start("x")
	w.group(group, topic)
	w.is("TxnOffsetCommit", w.offset(5, p, group, outsider, topic, 5), none)
	d := kmsg.NewPtrOffsetDeleteRequest()
	d.Group = group
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
	d.Topics = append(d.Topics, t)
	x := ask[*kmsg.OffsetDeleteResponse](w, d, 0)
	got := code(x.ErrorCode)
	if x.ErrorCode == 0 {
		got = code(x.Topics[0].Partitions[0].ErrorCode)
	}
	w.is("OffsetDelete", got, w.differs(none, "GROUP_SUBSCRIBED_TO_TOPIC"))
	g := kmsg.NewPtrDeleteGroupsRequest()
	g.Groups = []string{group}
	w.is("DeleteGroups", code(ask[*kmsg.DeleteGroupsResponse](w, g, 2).Groups[0].ErrorCode), w.differs(none, "NON_EMPTY_GROUP"))
	w.is("EndTxn", w.end(5, p, true), p.at(1).success())
	w.decided(p.id)
	w.is("OffsetFetch", w.committed(group, topic, true), w.differs("NONE -1", "NONE 5"))
}

func markers(w *world) {
	topic := w.topic("t", 1)
	p := w.again(w.start("x"), 60_000)
	w.is("Produce", w.write(12, p, topic, 0, 0), none)
	w.is("lower epoch", w.marker(1, p.at(-1), false, 0, topic, 0), badEpoch)
	w.is("unknown partition", w.marker(1, p, false, 0, topic, 9), unknown)
	w.is("unknown pid", w.marker(1, producer{"", p.pid + 100_000, 0}, false, 0, topic, 0), none)
	w.is("v2, the same epoch", w.marker(2, p, false, w.foreign(5), topic, 0), badEpoch)
	w.is("producer", w.producing(topic, p), fmt.Sprintf("epoch %d sequence 0 coordinator -1 start 0", p.epoch))
	// In Kafka a tool can raise the coordinator's epoch and so lock out the real coordinator.
	w.is("a coordinator epoch that no coordinator has", w.marker(1, p, false, 5, topic, 0), w.differs(none, badRequest))
	if w.peer.Kafka {
		w.is("older coordinator", w.marker(1, p, false, 4, topic, 0), "TRANSACTION_COORDINATOR_FENCED")
		return
	}
	// One of a later epoch would fence the producer, and then the coordinator's own marker.
	w.is("an epoch that no producer has", w.marker(1, p.at(2), false, 0, topic, 0), badRequest)
	// Control batches between the records of the coordinator would keep it from loading them.
	w.is("a marker for the coordinator's topic", w.marker(1, p, false, 0, "__transaction_state", 0), "INVALID_TOPIC_EXCEPTION")
	w.is("the coordinator's topic in a transaction", w.addAsBroker(4, p, false, "__transaction_state"), unknown)
	w.is("EndTxn", w.end(5, p, true), p.at(1).success())
	w.decided(p.id)
	w.is("records that are shown", w.shown(topic, 0), 1)
}

// foreign returns a coordinator epoch for a marker that is refused for its producer epoch. chronik
// checks the coordinator epoch of a tool first.
func (w *world) foreign(epoch int32) int32 {
	if w.peer.Kafka {
		return epoch
	}
	return 0
}
