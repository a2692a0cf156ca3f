package txncases

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Names of errors that many cases expect.
const (
	badState   = "INVALID_TXN_STATE"
	badMapping = "INVALID_PRODUCER_ID_MAPPING"
	badEpoch   = "INVALID_PRODUCER_EPOCH"
	badRequest = "INVALID_REQUEST"
	badTimeout = "INVALID_TRANSACTION_TIMEOUT"
	fenced     = "PRODUCER_FENCED"
	concurrent = "CONCURRENT_TRANSACTIONS"
	abortable  = "TRANSACTION_ABORTABLE"
	badOrder   = "OUT_OF_ORDER_SEQUENCE_NUMBER"
	unknown    = "UNKNOWN_TOPIC_OR_PARTITION"
)

// answers are the cases about single requests.
func answers() []kase {
	return []kase{
		{"EndTxn without a transaction", endEmpty},
		{"EndTxn of another client", endOthers},
		{"EndTxn of version 4 repeated", endRepeated},
		{"EndTxn of version 5 repeated", endRepeatedBumped},
		{"InitProducerId refused", initRefused},
		{"InitProducerId of an unknown id", initUnknown},
		{"InitProducerId while a transaction is open", initOngoing},
		{"Produce to a partition that was not added", produceNotAdded},
		{"Produce adds its partition", produceAdds},
		{"Produce refused", produceRefused},
		{"Produce without all acknowledgements", produceAcks},
		{"AddPartitionsToTxn of a client", addPartitions},
		{"AddPartitionsToTxn of a broker", addByBroker},
		{"AddOffsetsToTxn", addOffsets},
		{"TxnOffsetCommit without a transaction", offsetsNotAdded},
		{"TxnOffsetCommit refused", offsetsRefused},
		{"offsets are pending until the end", offsetsPending},
		{"offsets are deleted while they are pending", offsetsDeleted},
		{"WriteTxnMarkers of a tool", markers},
		{"DeleteRecords beyond an open transaction's start", deleteRecords},
		{"a topic is deleted under an open transaction", deleteTopic},
		{"DescribeTransactions and ListTransactions", listing},
		{"an aborted transaction is not shown", abortedIsHidden},
	}
}

func endEmpty(w *world) {
	p := w.start("x")
	w.is("EndTxn v5 commit", w.end(5, p, true), refused(badState))
	w.is("EndTxn v4 commit", w.end(4, p, true).code, badState)
	w.is("EndTxn v4 abort", w.end(4, p, false).code, badState)
	w.is("EndTxn v5 abort", w.end(5, p, false), p.at(1).success())
	w.is("state", w.decided(p.id), fmt.Sprintf("NONE CompleteAbort pid %d epoch %d topics 0", p.pid, p.epoch+1))
	w.is("EndTxn v5 abort, the retry", w.endSoon(5, p, false), p.at(1).success())
	w.is("state", w.decided(p.id), fmt.Sprintf("NONE CompleteAbort pid %d epoch %d topics 0", p.pid, p.epoch+1))
	w.is("EndTxn v5 commit in CompleteAbort", w.end(5, p.at(1), true), refused(badState))
	w.is("EndTxn v5 abort in CompleteAbort", w.end(5, p.at(1), false), p.at(2).success())
	w.is("InitProducerId", w.again(producer{p.id, -1, -1}, 60_000), p.at(3))
	w.is("state", w.decided(p.id), fmt.Sprintf("NONE Empty pid %d epoch %d topics 0", p.pid, p.epoch+3))
}

func endOthers(w *world) {
	p := w.start("x")
	other := p
	other.pid += 77
	w.is("EndTxn v5 of another pid", w.end(5, other, true), refused(badMapping))
	w.is("EndTxn v5, lower epoch", w.end(5, p.at(-1), true), refused(fenced))
	w.is("EndTxn v5, higher epoch", w.end(5, p.at(1), true), refused(fenced))
	for v := int16(0); v <= 4; v++ {
		want := fenced
		if v < 2 {
			want = badEpoch
		}
		w.is(fmt.Sprintf("EndTxn v%d, lower epoch", v), w.end(v, p.at(-1), true).code, want)
	}
	w.coordinator(1, w.prefix+"unknown")
	w.is("EndTxn v5 of an unknown id", w.end(5, producer{w.prefix + "unknown", p.pid, p.epoch}, true), refused(badMapping))
	w.is("EndTxn v5 without an id", w.end(5, producer{"", p.pid, p.epoch}, true), refused(badRequest))
}

func endRepeated(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	for _, commit := range []bool{true, false} {
		w.is("AddPartitionsToTxn", w.addSoon(3, p, topic), none)
		w.is("EndTxn v4", w.end(4, p, commit).code, none)
		w.oneOf("EndTxn v4 of the other kind, at once", w.end(4, p, !commit).code, badState, concurrent)
		w.is("EndTxn v4, the retry", w.endSoon(4, p, commit).code, none)
		state := "CompleteAbort"
		if commit {
			state = "CompleteCommit"
		}
		w.is("state", w.decided(p.id), fmt.Sprintf("NONE %s pid %d epoch %d topics 0", state, p.pid, p.epoch))
		w.is("EndTxn v4, a late retry", w.end(4, p, commit).code, none)
		w.is("EndTxn v4 of the other kind", w.end(4, p, !commit).code, badState)
	}
}

func endRepeatedBumped(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	for _, commit := range []bool{true, false} {
		w.is("Produce", w.write(12, p, topic, 0, 0), none)
		w.is("EndTxn v5", w.end(5, p, commit), p.at(1).success())
		w.oneOf("EndTxn v5 of the other kind, at once", w.end(5, p, !commit).code, badState, concurrent)
		w.oneOf("EndTxn v5, the retry at once", w.end(5, p, commit), refused(concurrent).String(), p.at(1).success().String())
		w.decided(p.id)
		w.is("EndTxn v5, a late retry", w.end(5, p, commit), p.at(1).success())
		w.is("EndTxn v5 of the other kind", w.end(5, p, !commit), refused(badState))
		p = p.at(1)
		w.is("Produce of the next transaction", w.write(12, p, topic, 0, 0), none)
		w.is("EndTxn v5, a retry in the next transaction", w.end(5, p.at(-1), commit), refused(fenced))
		w.is("EndTxn v5 of the next transaction", w.end(5, p, true), p.at(1).success())
		p = p.at(1)
	}
	w.is("records that are shown", w.shown(topic, 0), 3)
}

func initRefused(w *world) {
	p := w.again(w.start("x"), 60_000)
	for v := int16(3); v <= 5; v++ {
		want := fenced
		if v == 3 {
			want = badEpoch
		}
		q := w.again(p, 60_000) // so that there is a lower epoch
		w.is(fmt.Sprintf("InitProducerId v%d, lower epoch", v), w.init(v, q.at(-2), 60_000).code, want)
		p = q
	}
	other := p
	other.pid += 5
	w.is("another pid", w.init(5, other, 60_000).code, fenced)
	w.is("timeout too large", w.init(5, p, 1<<30).code, badTimeout)
	w.is("timeout 0", w.init(5, producer{w.prefix + "y", -1, -1}, 0).code, badTimeout)
	w.is("pid without epoch", w.init(5, producer{p.id, p.pid, -1}, 60_000).code, badRequest)
	w.is("empty id", w.init(5, producer{"", -1, -1}, 60_000).code, badRequest)
	if !w.peer.Kafka { // which takes it
		w.is("id that is too long", w.init(5, producer{strings.Repeat("x", 2000), -1, -1}, 60_000).code, badRequest)
	}
	w.is("state", w.decided(p.id), fmt.Sprintf("NONE Empty pid %d epoch %d topics 0", p.pid, p.epoch))
}

func initUnknown(w *world) {
	id := w.prefix + "x"
	w.coordinator(1, id)
	p := w.again(producer{id, 777, 3}, 60_000)
	if p.pid == 777 {
		w.Errorf("an unknown id got the producer id that the request names")
	}
	w.is("epoch", p.epoch, 0)
	// The present epoch gives the next one, and the last epoch the present one: it is a retry.
	w.is("with the present epoch", w.again(p, 60_000), p.at(1))
	w.is("with the last epoch", w.again(p, 60_000), p.at(1))
	w.is("without an epoch", w.again(producer{id, -1, -1}, 60_000), p.at(2))
}

func initOngoing(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	w.is("Produce", w.write(12, p, topic, 0, 0), none)
	// chronik may answer after the abort, instead of making the client come back.
	w.oneOf("InitProducerId", w.init(5, p, 60_000), refused(concurrent).String(), p.at(1).success().String())
	w.is("InitProducerId again", w.again(p, 60_000), p.at(1))
	w.is("Produce of the old epoch", w.produceAs(12, p.id, topic, 0, batch(p, 1, true, "late")), badEpoch)
	// chronik answers the second request without a record: the state is that of the abort, and a
	// late EndTxn may be the repetition of the one that aborted.
	w.is("EndTxn of the old epoch", w.end(5, p, true), refused(w.differs(fenced, badState)))
	w.is("state", w.decided(p.id), fmt.Sprintf("NONE %s pid %d epoch %d topics 0", w.differs("Empty", "CompleteAbort"), p.pid, p.epoch+1))
	w.is("records that are shown", w.shown(topic, 0), 0)
}

func produceNotAdded(w *world) {
	a, b := w.topic("a", 1), w.topic("b", 1)
	p := w.start("x")
	for v := int16(3); v <= 11; v++ {
		want := badState
		if v == 11 {
			want = abortable
		}
		w.is(fmt.Sprintf("Produce v%d", v), w.produceAs(v, p.id, a, 0, batch(p, 0, true, "v")), want)
	}
	w.is("Produce v12 to another partition", w.write(12, p, b, 0, 0), none)
	w.is("Produce v11, while a transaction is open", w.produceAs(11, p.id, a, 0, batch(p, 0, true, "v")), abortable)
	w.is("AddPartitionsToTxn", w.add(3, p, a), none)
	w.is("Produce v11, now", w.produceAs(11, p.id, a, 0, batch(p, 0, true, "v")), none)
	w.is("EndTxn", w.end(4, p, true).code, none)
	w.is("records that are shown", []int{w.shown(a, 0), w.shown(b, 0)}, []int{1, 1})
}

func produceAdds(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	w.is("Produce", w.produceAs(12, p.id, topic, 0, batch(p, 0, true, "v")), none)
	w.is("state", w.describe(p.id), fmt.Sprintf("NONE Ongoing pid %d epoch %d topics 1", p.pid, p.epoch))
	w.is("producer", w.producing(topic, p), fmt.Sprintf("epoch %d sequence 0 coordinator -1 start 0", p.epoch))
	w.is("offsets", w.offsets(topic), "end 1 stable 0")
	w.is("the same batch", w.produceAs(12, p.id, topic, 0, batch(p, 0, true, "v")), none)
	w.is("a gap", w.produceAs(12, p.id, topic, 0, batch(p, 5, true, "v")), badOrder)
	w.is("offsets", w.offsets(topic), "end 1 stable 0")
	w.is("EndTxn", w.end(5, p, true), p.at(1).success())
	// The next transaction follows at once, although the markers of this one may be on their way.
	w.oneOf("state", w.describe(p.id).state, "PrepareCommit", "CompleteCommit")
	q := p.at(1)
	w.is("Produce of the next transaction", w.write(12, q, topic, 0, 0), none)
	w.is("state", w.describe(p.id), fmt.Sprintf("NONE Ongoing pid %d epoch %d topics 1", q.pid, q.epoch))
	w.is("EndTxn with the old epoch", w.end(5, p, false), refused(fenced))
	w.is("Produce with the old epoch", w.produceAs(12, p.id, topic, 0, batch(p, 1, true, "late")), badEpoch)
	w.is("offsets", w.offsets(topic), "end 3 stable 2")
	w.is("EndTxn of the next", w.end(5, q, true), q.at(1).success())
	w.is("records that are shown", w.shown(topic, 0), 2)
	w.is("offsets", w.offsets(topic), "end 4 stable 4")
}

func produceRefused(w *world) {
	a, b, c := w.topic("a", 1), w.topic("b", 1), w.topic("c", 1)
	p := w.start("x").at(0)
	p = w.again(p, 60_000) // so that there is a lower epoch
	other := w.start("y")
	w.is("Produce", w.produceAs(12, p.id, a, 0, batch(p, 0, true, "v")), none)
	w.is("a plain batch of the same pid", w.produceAs(12, "", a, 0, batch(p, 1, false, "v")), badState)
	w.is("no id", w.produceAs(12, "", a, 0, batch(p, 1, true, "v")), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
	w.is("the id of another", w.produceAs(12, other.id, b, 0, batch(p, 0, true, "v")), badMapping)
	w.is("an unknown id", w.produceAs(12, w.prefix+"nope", b, 0, batch(p, 0, true, "v")), badMapping)
	w.is("higher epoch", w.produceAs(12, p.id, b, 0, batch(p.at(1), 0, true, "v")), badEpoch)
	w.is("lower epoch, a new partition", w.produceAs(12, p.id, b, 0, batch(p.at(-1), 0, true, "v")), badEpoch)
	w.is("sequence 3 in a new partition", w.produceAs(12, p.id, c, 0, batch(p, 3, true, "v")), badOrder)
	w.is("EndTxn", w.end(5, p, true), p.at(1).success())
	w.is("records that are shown", []int{w.shown(a, 0), w.shown(b, 0), w.shown(c, 0)}, []int{1, 0, 0})
}

func produceAcks(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	want := w.differs(none, "INVALID_REQUIRED_ACKS")
	w.is("Produce", w.produceAcks(12, p.id, topic, 0, batch(p, 0, true, "v"), 1), want)
}

func addPartitions(w *world) {
	a, b := w.topic("a", 1), w.topic("b", 1)
	p := w.again(w.start("x"), 60_000)
	w.is("unknown topic", w.add(3, p, a, w.prefix+"unknown"), "OPERATION_NOT_ATTEMPTED UNKNOWN_TOPIC_OR_PARTITION")
	w.is("state", w.describe(p.id).state, "Empty")
	for v := int16(0); v <= 3; v++ {
		want := fenced
		if v < 2 {
			want = badEpoch
		}
		w.is(fmt.Sprintf("v%d, lower epoch", v), w.add(v, p.at(-1), a), want)
		w.is(fmt.Sprintf("v%d", v), w.add(v, p, a, b), "NONE NONE")
	}
	other := p
	other.pid += 9
	w.is("another pid", w.add(3, other, a), badMapping)
	w.is("state", w.describe(p.id), fmt.Sprintf("NONE Ongoing pid %d epoch %d topics 2", p.pid, p.epoch))
	w.is("no topics", w.add(3, p), "")
	w.is("EndTxn", w.end(4, p, true).code, none)
	w.decided(p.id)
	w.is("end of a partition without records", w.offsets(a), "end 1 stable 1")
}

func addByBroker(w *world) {
	topic := w.topic("t", 1)
	p := w.again(w.start("x"), 60_000)
	for v := int16(4); v <= 5; v++ {
		w.is(fmt.Sprintf("v%d verifies, not added", v), w.addAsBroker(v, p, true, topic), abortable)
	}
	w.is("adds", w.addAsBroker(5, p, false, topic), none)
	w.is("adds again", w.addAsBroker(5, p, false, topic), none)
	w.is("verifies", w.addAsBroker(5, p, true, topic), none)
	w.is("adds, lower epoch", w.addAsBroker(5, p.at(-1), false, topic), fenced)
	w.is("EndTxn", w.end(4, p, true).code, none)
	w.decided(p.id)
	w.is("verifies after the end", w.addAsBroker(5, p, true, topic), abortable)
}

func addOffsets(w *world) {
	topic, group := w.topic("t", 1), w.prefix+"g"
	p := w.again(w.start("x"), 60_000)
	w.group(group, topic)
	other := p
	other.pid += 9
	w.is("another pid", w.addOffsets(3, other, group), badMapping)
	for v := int16(0); v <= 4; v++ {
		want := fenced
		if v < 2 {
			want = badEpoch
		}
		w.is(fmt.Sprintf("v%d, lower epoch", v), w.addOffsets(v, p.at(-1), group), want)
		w.is(fmt.Sprintf("v%d", v), w.addOffsets(v, p, group), none)
	}
	for v := int16(0); v <= 4; v++ {
		w.is(fmt.Sprintf("TxnOffsetCommit v%d", v), w.offset(v, p, group, outsider, topic, int64(v)), none)
	}
	w.is("EndTxn", w.end(4, p, true).code, none)
	w.decided(p.id)
	w.is("OffsetFetch", w.committed(group, topic, true), "NONE 4")
}

func deleteRecords(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	w.is("Produce", w.write(12, p, topic, 0, 0), none)
	w.is("Produce, plain", w.produceAs(12, "", topic, 0, batch(producer{"", -1, -1}, -1, false, "v")), none)
	r := kmsg.NewPtrDeleteRecordsRequest()
	t := kmsg.NewDeleteRecordsRequestTopic()
	q := kmsg.NewDeleteRecordsRequestTopicPartition()
	w.is("offsets", w.offsets(topic), "end 2 stable 0")
	q.Offset = 1
	t.Topic, t.Partitions = topic, append(t.Partitions, q)
	r.Topics, r.TimeoutMillis = append(r.Topics, t), 60_000
	got := ask[*kmsg.DeleteRecordsResponse](w, r, 2).Topics[0].Partitions[0]
	w.is("DeleteRecords", fmt.Sprint(code(got.ErrorCode), got.LowWatermark), "NONE1")
	w.is("offsets", w.offsets(topic), "end 2 stable 1")
	w.is("EndTxn", w.end(5, p, true), p.at(1).success())
	w.decided(p.id)
	w.is("offsets", w.offsets(topic), "end 3 stable 3")
}

func deleteTopic(w *world) {
	a, b := w.topic("a", 1), w.topic("b", 1)
	p := w.start("x")
	w.is("Produce", w.write(12, p, a, 0, 0), none)
	w.is("Produce", w.write(12, p, b, 0, 0), none)
	r := kmsg.NewPtrDeleteTopicsRequest()
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &b
	r.Topics, r.TimeoutMillis = append(r.Topics, t), 60_000
	w.is("DeleteTopics", code(ask[*kmsg.DeleteTopicsResponse](w, r, 6).Topics[0].ErrorCode), none)
	w.is("EndTxn", w.end(5, p, true), p.at(1).success())
	w.is("state", w.decided(p.id), fmt.Sprintf("NONE CompleteCommit pid %d epoch %d topics 0", p.pid, p.epoch+1))
	w.is("offsets", w.offsets(a), "end 2 stable 2")
}

func listing(w *world) {
	topic := w.topic("t", 1)
	open, empty := w.start("open"), w.start("empty")
	w.is("Produce", w.write(12, open, topic, 0, 0), none)
	w.is("unknown id", w.describe(w.prefix+"unknown").code, "TRANSACTIONAL_ID_NOT_FOUND")
	list := func(version int16, change func(*kmsg.ListTransactionsRequest)) string {
		r := kmsg.NewPtrListTransactionsRequest()
		r.DurationFilterMillis = -1
		change(r)
		got := ask[*kmsg.ListTransactionsResponse](w, r, version)
		text := code(got.ErrorCode)
		for _, t := range got.TransactionStates {
			switch t.TransactionalID {
			case open.id, empty.id:
				text += fmt.Sprintf(" %s %s pid %t", t.TransactionalID[len(w.prefix):], t.TransactionState,
					t.ProducerID == open.pid || t.ProducerID == empty.pid)
			}
		}
		return fmt.Sprint(text, got.UnknownStateFilters)
	}
	only := "NONE open Ongoing pid true[]"
	w.is("by state", list(0, func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Ongoing"} }), only)
	w.is("by an unknown state", list(1, func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Nonsense", "Ongoing"} }),
		"NONE open Ongoing pid true[Nonsense]")
	w.is("by pid", list(1, func(r *kmsg.ListTransactionsRequest) { r.ProducerIDFilters = []int64{open.pid} }), only)
	w.is("by duration", list(1, func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 1 << 50 }), "NONE[]")
	pattern := func(text string) func(*kmsg.ListTransactionsRequest) {
		return func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = &text }
	}
	w.is("by pattern", list(2, pattern(w.prefix+"o.*")), only)
	w.is("by a bad pattern", list(2, pattern("(")), "INVALID_REGULAR_EXPRESSION[]")
	w.is("EndTxn", w.end(5, open, false), open.at(1).success())
}

func abortedIsHidden(w *world) {
	topic := w.topic("t", 1)
	p, q := w.start("x"), w.start("y")
	// Two transactions at once in one partition, of which one is aborted.
	for i := range int32(5) {
		w.is("Produce", w.write(12, p, topic, 0, i), none)
		w.is("Produce", w.write(12, q, topic, 0, i), none)
	}
	w.is("offsets", w.offsets(topic), "end 10 stable 0")
	w.is("EndTxn", w.end(5, q, true), q.at(1).success())
	w.decided(q.id)
	w.is("offsets", w.offsets(topic), "end 11 stable 0")
	w.is("EndTxn", w.end(5, p, false), p.at(1).success())
	w.is("records that are shown", w.shown(topic, 0), 5)
	w.is("offsets", w.offsets(topic), "end 12 stable 12")
}
