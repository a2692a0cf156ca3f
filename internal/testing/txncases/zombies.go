package txncases

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// zombies are the cases about requests that come too late and transactions that no client ends.
func zombies() []kase {
	return []kase{
		{"late produce after an abort, TV2", lateAfterAbort},
		{"late produce after an abort, TV1", lateAfterAbortOld},
		{"late requests after a timeout, TV2", func(w *world) { lateAfterTimeout(w, true) }},
		{"late requests after a timeout, TV1", func(w *world) { lateAfterTimeout(w, false) }},
		{"an older instance", olderInstance},
		{"a client that died is replaced", deadClient},
		{"a marker arrives twice, TV1", func(w *world) { markerTwice(w, 1) }},
		{"a marker arrives twice, TV2", func(w *world) { markerTwice(w, 2) }},
		{"a hanging transaction is found and aborted", hanging},
		{"a topic is created again in a transaction, TV1", func(w *world) { createdAgain(w, 11, 4) }},
		{"a topic is created again in a transaction, TV2", func(w *world) { createdAgain(w, 12, 5) }},
		{"a topic is deleted, created and used again in a transaction, TV1", func(w *world) { usedAgain(w, 11, 4) }},
		{"a topic is deleted, created and used again in a transaction, TV2", func(w *world) { usedAgain(w, 12, 5) }},
	}
}

// long are the cases with tens of thousands of requests.
func long() []kase {
	return []kase{{"late requests after the epoch's wrap", wrap}}
}

func lateAfterAbort(w *world) {
	topic, other := w.topic("t", 1), w.topic("u", 1)
	p := w.start("x")
	w.is("Produce", w.write(12, p, topic, 0, 0), none)
	w.is("EndTxn", w.end(5, p, false), p.at(1).success())
	// Before the marker it joins the transaction that is aborted.
	w.oneOf("late to the same partition", w.produceAs(12, p.id, topic, 0, batch(p, 1, true, "late")), none, badEpoch)
	w.is("late to another one", w.produceAs(12, p.id, other, 0, batch(p, 0, true, "late")), badEpoch)
	w.decided(p.id)
	w.is("late after the marker", w.produceAs(12, p.id, topic, 0, batch(p, 1, true, "late")), badEpoch)
	w.is("late as the first batch", w.produceAs(12, p.id, topic, 0, batch(p, 0, true, "late")), badEpoch)
	w.is("late offsets", w.offset(5, p, w.prefix+"g", outsider, topic, 1), badEpoch)
	w.is("records that are shown", []int{w.shown(topic, 0), w.shown(other, 0)}, []int{0, 0})
}

func lateAfterAbortOld(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	w.is("AddPartitionsToTxn", w.add(3, p, topic), none)
	w.is("Produce", w.produceAs(11, p.id, topic, 0, batch(p, 0, true, "v")), none)
	w.is("EndTxn", w.end(4, p, false).code, none)
	w.decided(p.id)
	w.is("late", w.produceAs(11, p.id, topic, 0, batch(p, 1, true, "late")), abortable)
	w.is("late, by an old client", w.produceAs(10, p.id, topic, 0, batch(p, 1, true, "late")), badState)
	w.is("state", w.describe(p.id).state, "CompleteAbort")
	w.is("offsets", w.offsets(topic), "end 2 stable 2")
	w.is("records that are shown", w.shown(topic, 0), 0)
}

func lateAfterTimeout(w *world, bumps bool) {
	topic := w.topic("t", 1)
	p := w.startFor("x", int32(age.Milliseconds()))
	produce, end := int16(11), int16(4)
	if bumps {
		produce, end = 12, 5
	} else {
		w.is("AddPartitionsToTxn", w.add(3, p, topic), none)
	}
	w.is("Produce", w.write(produce, p, topic, 0, 0), none)
	w.is("offsets", w.offsets(topic), "end 1 stable 0")
	w.until("the transaction is aborted by its timeout", func() bool { return w.describe(p.id).state == "CompleteAbort" })
	w.is("epoch", w.describe(p.id).epoch, p.epoch+1)
	w.is("offsets", w.offsets(topic), "end 2 stable 2")
	if bumps { // for the coordinator it may be the repetition of the EndTxn that gave the epoch
		w.is("late EndTxn, commit", w.end(end, p, true), refused(badState))
		w.is("late EndTxn, abort", w.end(end, p, false), p.at(1).success())
	} else {
		w.is("late EndTxn", w.end(end, p, true).code, fenced)
	}
	w.is("late Produce", w.produceAs(produce, p.id, topic, 0, batch(p, 1, true, "late")), badEpoch)
	w.is("late AddPartitionsToTxn", w.add(3, p, topic), fenced)
	w.is("late TxnOffsetCommit", w.offset(5, p, w.prefix+"g", outsider, topic, 1), badEpoch)
	q := w.again(p, 60_000)
	if q.pid != p.pid || q.epoch <= p.epoch {
		w.Errorf("the producer continues as pid %d epoch %d after pid %d epoch %d", q.pid, q.epoch, p.pid, p.epoch)
	}
	w.is("Produce of the one that came back", w.write(12, q, topic, 0, 0), none)
	w.is("EndTxn", w.end(5, q, true), q.at(1).success())
	w.is("records that are shown", w.shown(topic, 0), 1)
}

func olderInstance(w *world) {
	topic, group := w.topic("t", 1), w.prefix+"g"
	older := w.start("x")
	w.is("Produce", w.write(12, older, topic, 0, 0), none)
	newer := w.again(producer{older.id, -1, -1}, 60_000)
	w.group(group, topic)
	late := func() {
		w.Helper()
		w.is("Produce of the older", w.produceAs(12, older.id, topic, 0, batch(older, 1, true, "late")), badEpoch)
		w.is("AddPartitionsToTxn of the older", w.add(3, older, topic), fenced)
		w.is("AddOffsetsToTxn of the older", w.addOffsets(3, older, group), fenced)
		w.is("TxnOffsetCommit of the older", w.offset(5, older, group, outsider, topic, 1), badEpoch)
	}
	late()
	w.is("EndTxn of the older", w.end(5, older, true), refused(fenced))
	w.is("Produce of the newer", w.write(12, newer, topic, 0, 0), none)
	late()
	w.is("EndTxn of the older", w.end(5, older, true), refused(fenced))
	w.is("EndTxn v4 of the older", w.end(4, older, true).code, fenced)
	w.is("state", w.describe(newer.id), fmt.Sprintf("NONE Ongoing pid %d epoch %d topics 1", newer.pid, newer.epoch))
	w.is("EndTxn of the newer", w.end(5, newer, true), newer.at(1).success())
	w.is("records that are shown", w.shown(topic, 0), 1)
	w.is("OffsetFetch", w.committed(group, topic, true), "NONE -1")
}

// deadClient dies in each phase, as far as the broker can see it.
func deadClient(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	var commits int
	for _, phase := range []string{"nothing", "produced", "commit sent", "commit answered"} {
		if phase != "nothing" {
			w.is("Produce", w.write(12, p, topic, 0, 0), none)
		}
		switch phase {
		case "commit sent":
			w.send(endTxn(p, true), 5)
		case "commit answered":
			w.is("EndTxn", w.end(5, p, true), p.at(1).success())
			commits++
		}
		w.hangUp()
		next := w.again(producer{p.id, -1, -1}, 60_000)
		if next.pid != p.pid || next.epoch <= p.epoch {
			w.Errorf("%s: pid %d epoch %d was replaced by pid %d epoch %d", phase, p.pid, p.epoch, next.pid, next.epoch)
		}
		if phase == "commit sent" { // it was committed if it came first
			commits = w.shown(topic, 0)
		}
		w.is(phase+": records that are shown", w.shown(topic, 0), commits)
		p = next
	}
}

func markerTwice(w *world, version int16) {
	topic := w.topic("t", 1)
	p := w.start("x")
	w.is("Produce", w.write(12, p, topic, 0, 0), none)
	w.is("EndTxn", w.end(5, p, true), p.at(1).success())
	w.decided(p.id)
	coordinator := w.producing(topic, p.at(1)).coordinator
	// The marker of the commit again, and when the next transaction is open.
	again := w.marker(version, p.at(1), true, coordinator, topic, 0)
	w.is("the same marker again", again, none)
	w.oneOf("offsets", w.offsets(topic), "end 2 stable 2", "end 3 stable 3") // it may be stored again
	q := p.at(1)
	w.is("Produce of the next transaction", w.write(12, q, topic, 0, 0), none)
	if version >= 2 {
		high, _ := w.ends(topic, 0)
		w.is("the same marker in the next transaction", w.marker(version, q, true, coordinator, topic, 0), badEpoch)
		w.is("offsets", w.offsets(topic), fmt.Sprintf("end %d stable %d", high, high-1))
	}
	w.is("EndTxn", w.end(5, q, false), q.at(1).success())
	w.is("records that are shown", w.shown(topic, 0), 1)
}

// verification switches whether a partition asks the coordinator before the first batch of a
// transaction of TV1. chronik refuses to do without.
func (w *world) verification(on string) {
	w.Helper()
	name := "transaction.partition.verification.enable"
	w.is("IncrementalAlterConfigs", w.alter(kmsg.ConfigResourceTypeBroker, "", name, on), w.differs(none, badRequest))
	if !w.peer.Kafka {
		return
	}
	d := kmsg.NewPtrDescribeConfigsRequest()
	ask := func() string {
		dr := kmsg.NewDescribeConfigsRequestResource()
		dr.ResourceType, dr.ResourceName, dr.ConfigNames = kmsg.ConfigResourceTypeBroker, w.node(), []string{name}
		d.Resources = []kmsg.DescribeConfigsRequestResource{dr}
		got := ask[*kmsg.DescribeConfigsResponse](w, d, 4).Resources[0]
		if got.ErrorCode != 0 || len(got.Configs) == 0 || got.Configs[0].Value == nil {
			return ""
		}
		return *got.Configs[0].Value
	}
	w.until(name+" is "+on, func() bool { return ask() == on })
}

// node returns the broker's id.
func (w *world) node() string {
	w.Helper()
	return fmt.Sprint(ask[*kmsg.MetadataResponse](w, kmsg.NewPtrMetadataRequest(), 12).Brokers[0].NodeID)
}

// hanging makes a transaction that no coordinator knows, as brokers without verification let
// happen, and ends it as an administrator does. chronik's is one that its client does not end.
func hanging(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	w.verification("false")
	got := w.produceAs(11, p.id, topic, 0, batch(p, 0, true, "hangs"))
	w.is("Produce without verification", got, w.differs(none, abortable))
	if w.peer.Kafka {
		w.verification("true")
	} else {
		w.is("Produce", w.write(12, p, topic, 0, 0), none)
	}
	w.is("state", w.describe(p.id).state, w.differs("Empty", "Ongoing"))
	w.is("offsets", w.offsets(topic), "end 1 stable 0")
	found := w.producing(topic, p)
	w.is("producer", found, fmt.Sprintf("epoch %d sequence 0 coordinator -1 start 0", p.epoch))
	w.is("WriteTxnMarkers", w.marker(1, p, false, max(found.coordinator, 0), topic, 0), none)
	w.is("offsets", w.offsets(topic), "end 2 stable 2")
	w.is("records that are shown", w.shown(topic, 0), 0)
	w.is("producer", w.producing(topic, p).start, -1)
}

// lastEpoch is the largest one that is handed out.
const lastEpoch = 32766

// wrap takes the epoch to its end and ends a transaction there.
func wrap(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	for p.epoch < lastEpoch {
		next := w.init(5, producer{p.id, -1, -1}, 60_000)
		if next != p.at(1).success() {
			w.Fatalf("InitProducerId after epoch %d: %v", p.epoch, next)
		}
		p = p.at(1)
	}
	w.is("Produce", w.write(12, p, topic, 0, 0), none)
	ended := w.end(5, p, true)
	w.is("EndTxn", ended.code, none)
	if ended.pid == p.pid || ended.epoch != 0 {
		w.Errorf("after epoch %d of pid %d the producer is pid %d epoch %d", p.epoch, p.pid, ended.pid, ended.epoch)
	}
	next := producer{p.id, ended.pid, ended.epoch}
	w.decided(p.id)
	w.is("the retry of EndTxn", w.endSoon(5, p, true), next.success())
	w.is("late Produce", w.produceAs(12, p.id, topic, 0, batch(p, 1, true, "late")), badEpoch)
	w.is("late TxnOffsetCommit", w.offset(5, p, w.prefix+"g", outsider, topic, 1), badMapping)
	w.is("Produce of the new pid", w.write(12, next, topic, 0, 0), none)
	w.is("late EndTxn", w.end(5, p, true).code, badMapping)
	w.is("EndTxn of the new pid", w.end(5, next, true), next.at(1).success())
	w.is("records that are shown", w.shown(topic, 0), 2)
}

// createdAgain ends a transaction that wrote to a topic of the same name which is gone. The topic
// that has the name now has another one's transaction.
func createdAgain(w *world, produce, end int16) {
	topic, other := w.topic("t", 1), w.topic("u", 1)
	p, q := w.start("x"), w.start("y")
	if produce < 12 {
		w.is("AddPartitionsToTxn", w.add(3, p, topic, other), none+" "+none)
	}
	w.is("Produce", w.write(produce, p, topic, 0, 0), none)
	w.is("Produce to another one", w.write(produce, p, other, 0, 0), none)
	w.delete(topic)
	w.is("the name", w.topic("t", 1), topic)
	w.is("Produce of another one", w.write(12, q, topic, 0, 0), none)
	w.is("EndTxn", w.end(end, p, true).code, none)
	w.decided(p.id)
	w.is("records of the other topic", w.shown(other, 0), 1)
	// Kafka's markers have only the topic's name.
	w.is("offsets", w.offsets(topic), w.differs("end 2 stable 0", "end 1 stable 0"))
	if got := w.producing(topic, p); got != nil && !w.peer.Kafka {
		w.Errorf("the new topic knows the producer of the old one: %v", got)
	}
	w.is("EndTxn of the other one", w.end(5, q, true), q.at(1).success())
	w.is("records that are shown", w.shown(topic, 0), 1)
}

// usedAgain ends a transaction that wrote to two topics of one name, one after the other.
func usedAgain(w *world, produce, end int16) {
	topic := w.topic("t", 1)
	p := w.start("x")
	for range 2 {
		if produce < 12 {
			w.is("AddPartitionsToTxn", w.add(3, p, topic), none)
		}
		w.is("Produce", w.write(produce, p, topic, 0, 0), none)
		w.delete(topic)
		w.is("the name", w.topic("t", 1), topic)
	}
	if produce < 12 {
		w.is("AddPartitionsToTxn", w.add(3, p, topic), none)
	}
	w.is("Produce", w.write(produce, p, topic, 0, 0), none)
	w.is("EndTxn", w.end(end, p, true).code, none)
	w.is("records that are shown", w.shown(topic, 0), 1)
	w.is("offsets", w.offsets(topic), "end 2 stable 2")
}
