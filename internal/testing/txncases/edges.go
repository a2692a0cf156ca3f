package txncases

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// edges are the cases about requests that meet the end of something else: of a group, of what
// is remembered, of what the protocol has.
func edges() []kase {
	return []kase{
		{"EndTxn of version 5 repeated two transactions later", endRepeatedLate},
		{"InitProducerId keeps a prepared transaction", keepPrepared},
		{"a group is deleted in a transaction, TV1", func(w *world) { groupDeleted(w, 3, 4, 4) }},
		{"a group is deleted in a transaction, TV2", func(w *world) { groupDeleted(w, -1, 5, 5) }},
	}
}

// endRepeatedLate repeats requests of two transactions ago: only the last one is remembered.
func endRepeatedLate(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	for range 2 {
		w.is("Produce", w.write(12, p, topic, 0, 0), none)
		w.is("EndTxn", w.end(5, p, true), p.at(1).success())
		p = p.at(1)
	}
	w.decided(p.id)
	for _, commit := range []bool{true, false} {
		w.is("EndTxn, two transactions later", w.end(5, p.at(-2), commit), refused(fenced))
	}
	w.is("EndTxn, the retry of the last one", w.end(5, p.at(-1), true), p.success())
	w.is("records that are shown", w.shown(topic, 0), 2)
}

// keepPrepared sends InitProducerId v6 (KIP-939) with its two flags. Brokers without two-phase
// commit must not take it for a plain one, which would abort the prepared transaction: neither
// offers the version, and both hang up.
func keepPrepared(w *world) {
	topic := w.topic("t", 1)
	p := w.start("x")
	w.is("Produce", w.write(12, p, topic, 0, 0), none)
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis = &p.id, 60_000
	r.SetVersion(6)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("cases")).AppendRequest(nil, r, 1)
	frame = append(frame[:len(frame)-1], 1, 1, 0) // enable2Pc, keepPreparedTxn, no tagged fields
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := w.conn.Write(frame); err != nil {
		w.Fatal(err)
	}
	if err := w.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		w.Fatal(err)
	}
	n, err := io.Copy(io.Discard, w.conn)
	w.is("bytes of the answer", n, 0)
	w.is("the end of the connection", err, error(nil))
	w.hangUp()
	w.is("state", w.describe(p.id), fmt.Sprintf("NONE Ongoing pid %d epoch %d topics 1", p.pid, p.epoch))
	w.is("EndTxn", w.end(5, p, true), p.at(1).success())
	w.is("records that are shown", w.shown(topic, 0), 1)
}

// groupDeleted deletes a group that is in a transaction before the transaction has an offset of it.
// The group is made again by the offset.
func groupDeleted(w *world, add, commit, end int16) {
	topic, group := w.topic("t", 1), w.prefix+"g"
	p := w.start("x")
	w.group(group, topic)
	// A group with an offset of a transaction before.
	w.is("TxnOffsetCommit", w.offset(5, p, group, outsider, topic, 3), none)
	w.is("EndTxn", w.end(5, p, true), p.at(1).success())
	w.decided(p.id)
	p = p.at(1)
	if add >= 0 {
		w.is("AddOffsetsToTxn", w.addOffsets(add, p, group), none)
	} else {
		w.is("Produce", w.write(12, p, topic, 0, 0), none)
	}
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{group}
	w.is("DeleteGroups", code(ask[*kmsg.DeleteGroupsResponse](w, r, 2).Groups[0].ErrorCode), none)
	w.is("OffsetFetch", w.committed(group, topic, true), "NONE -1")
	w.is("TxnOffsetCommit", w.offset(commit, p, group, outsider, topic, 7), none)
	w.is("EndTxn", w.end(end, p, true).code, none)
	w.decided(p.id)
	w.is("OffsetFetch", w.committed(group, topic, true), "NONE 7")
}
