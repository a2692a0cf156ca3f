package txncases

import (
	"fmt"
)

// manyPartitions are enough that a commit is half written when the broker dies.
const manyPartitions = 30

// deaths are the cases about a coordinator that dies. Kafka 4.3.1 sometimes fails those in which
// markers are missing at the death. A partition that is not led yet gets none after the start, and
// its transaction remains open.
func deaths() []kase {
	var list []kase
	for _, commit := range []bool{true, false} {
		for _, bumps := range []bool{true, false} {
			name := fmt.Sprintf("TV%d, commit %t", map[bool]int{true: 2, false: 1}[bumps], commit)
			d := death{commit: commit, produce: 11, end: 4}
			if bumps {
				d.produce, d.end, d.bump = 12, 5, 1
			}
			list = append(list,
				kase{"the coordinator dies when nothing began, " + name, d.empty},
				kase{"the coordinator dies in an open transaction, " + name, d.ongoing},
				kase{"the coordinator dies when the end was asked for, " + name, d.asked},
				kase{"the coordinator dies when the end is half written, " + name, d.ended},
				kase{"the coordinator dies when all has ended, " + name, d.complete})
		}
	}
	return append(list, kase{"a timeout runs on when the coordinator died", deathAndTimeout})
}

// death is a death in one protocol.
type death struct {
	commit       bool
	produce, end int16 // versions
	bump         int16 // of the epoch by EndTxn
}

// begin writes one record to each partition of a topic.
func (d death) begin(w *world, p producer, topic string) {
	w.Helper()
	for i := range int32(manyPartitions) {
		d.write(w, p, topic, i, 0)
	}
}

func (d death) write(w *world, p producer, topic string, partition, sequence int32) {
	w.Helper()
	if d.bump == 0 {
		w.addPartition(p, topic, partition)
	}
	w.is("Produce", w.write(d.produce, p, topic, partition, sequence), none)
}

// finish ends the transaction, also by a repetition of a request whose answer is lost.
func (d death) finish(w *world, p producer) producer {
	w.Helper()
	got := w.endSoon(d.end, p, d.commit)
	w.is("EndTxn", got.code, none)
	if d.bump > 0 {
		w.is("EndTxn", got, p.at(1).success())
	}
	return p.at(d.bump)
}

// whole checks that all partitions show n records, or that none of an abort.
func (d death) whole(w *world, topic string, n int) {
	w.Helper()
	if !d.commit {
		n = 0
	}
	for i := range int32(manyPartitions) {
		if got := w.shown(topic, i); got != n {
			w.Errorf("partition %d shows %d records of %d", i, got, n)
		}
	}
}

func (d death) empty(w *world) {
	topic := w.topic("t", manyPartitions)
	p := w.start("x")
	w.kill()
	w.coordinator(1, p.id)
	d.begin(w, p, topic)
	d.finish(w, p)
	d.whole(w, topic, 1)
}

func (d death) ongoing(w *world) {
	topic := w.topic("t", manyPartitions)
	p := w.start("x")
	d.begin(w, p, topic)
	w.kill()
	w.coordinator(1, p.id)
	w.until("the coordinator has loaded", func() bool { return w.describe(p.id).code == none })
	w.is("state", w.describe(p.id).state, "Ongoing")
	d.write(w, p, topic, 0, 1)
	d.finish(w, p)
	w.is("records of partition 0", w.shown(topic, 0), map[bool]int{true: 2, false: 0}[d.commit])
	for i := int32(1); i < manyPartitions; i++ {
		w.is(fmt.Sprintf("records of partition %d", i), w.shown(topic, i), map[bool]int{true: 1, false: 0}[d.commit])
	}
}

func (d death) asked(w *world) {
	topic := w.topic("t", manyPartitions)
	p := w.start("x")
	d.begin(w, p, topic)
	w.send(endTxn(p, d.commit), d.end)
	w.kill()
	w.coordinator(1, p.id)
	p = d.finish(w, p) // it came, or it did not
	w.decided(p.id)
	d.whole(w, topic, 1)
	d.begin2(w, p, topic)
}

func (d death) ended(w *world) {
	topic := w.topic("t", manyPartitions)
	p := w.start("x")
	d.begin(w, p, topic)
	w.is("EndTxn", w.end(d.end, p, d.commit).code, none)
	w.kill()
	w.coordinator(1, p.id)
	d.whole(w, topic, 1)
	p = d.finish(w, p)
	d.begin2(w, p, topic)
}

func (d death) complete(w *world) {
	topic := w.topic("t", manyPartitions)
	p := w.start("x")
	d.begin(w, p, topic)
	w.is("EndTxn", w.end(d.end, p, d.commit).code, none)
	w.decided(p.id)
	w.kill()
	w.coordinator(1, p.id)
	p = d.finish(w, p) // the repetition of a request that was answered
	d.whole(w, topic, 1)
	d.begin2(w, p, topic)
}

// begin2 makes a second transaction of the same kind.
func (d death) begin2(w *world, p producer, topic string) {
	w.Helper()
	sequence := int32(0)
	if d.bump == 0 {
		sequence = 1 // it continues within an epoch
	}
	for i := range int32(manyPartitions) {
		d.write(w, p, topic, i, sequence)
	}
	d.finish(w, p)
	d.whole(w, topic, 2)
}

func deathAndTimeout(w *world) {
	topic := w.topic("t", 1)
	p := w.startFor("x", int32(age.Milliseconds()))
	w.is("Produce", w.write(12, p, topic, 0, 0), none)
	w.kill()
	w.coordinator(1, p.id)
	w.until("the transaction is aborted by its timeout", func() bool { return w.describe(p.id).state == "CompleteAbort" })
	w.is("late EndTxn", w.end(5, p, true), refused(badState))
	w.is("late Produce", w.produceAs(12, p.id, topic, 0, batch(p, 1, true, "late")), badEpoch)
	w.is("records that are shown", w.shown(topic, 0), 0)
}
