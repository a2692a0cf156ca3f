package inspect

import (
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Torn is a transaction whose marker was, or may have been, among lost records of its log, and that
// is not open at the end of the log, because its producer has ended a later one. Its records before
// the loss share the outcome of that one: readers of committed records may see aborted records, or
// miss committed ones.
type Torn struct {
	Transaction
	// Until is the offset of the first lost record after the transaction's first record.
	Until int64 `json:"until"`
}

// tornFinder finds the torn transactions of a log. The zero value has seen nothing.
type tornFinder struct {
	open   map[int64]*begun // by producer id
	torn   []Torn
	epochs map[int64]int16 // the first one of each producer
}

// begun is a transaction that is open at some offset.
type begun struct {
	first   int64
	epoch   int16
	until   int64 // where the first loss after first begins; -1: there is none
	renewed bool  // the producer has had a later epoch since
}

// add adds the next batch of the log l. lost are the lost ranges of the log, sorted.
func (f *tornFinder) add(l *log, b record.Batch, lost []Loss) {
	if !b.Transactional() {
		return
	}
	id := b.ProducerID()
	if _, known := f.epochs[id]; !known {
		if f.epochs == nil {
			f.epochs = map[int64]int16{}
		}
		f.epochs[id] = b.ProducerEpoch()
	}
	t := f.open[id]
	if t != nil && t.until < 0 {
		i := slices.IndexFunc(lost, func(x Loss) bool { return x.From > t.first && x.From < b.BaseOffset() })
		if i >= 0 {
			t.until = lost[i].From
		}
	}
	switch {
	case b.Control():
		// With transaction.version 2, a marker has the epoch after that of its own transaction.
		// With the same epoch, it may be that of a later one.
		if t != nil && t.until >= 0 && (t.renewed || b.ProducerEpoch() != t.epoch+1) {
			f.torn = append(f.torn, Torn{Transaction{Topic: l.st.Topic, Partition: l.st.ID.Partition, Producer: id, Epoch: t.epoch,
				First: t.first}, t.until})
		}
		delete(f.open, id)
	case t != nil:
		t.renewed = t.renewed || b.ProducerEpoch() > t.epoch
	default:
		if f.open == nil {
			f.open = map[int64]*begun{}
		}
		f.open[id] = &begun{first: b.BaseOffset(), epoch: b.ProducerEpoch(), until: -1}
	}
}

// findTorn adds the batches of the segments of a log that has lost records.
func (l *log) findTorn(f *tornFinder, lost []Loss) error {
	for i := range l.st.Segments {
		if err := l.walk(i, func(b record.Batch) error { f.add(l, b, lost); return nil }); err != nil {
			return err
		}
	}
	return l.dir.ctx.Err()
}

// abort is an abort marker that a repair writes in place of a damaged batch.
type abort struct {
	at, producer int64
	epoch        int16 // of the transaction
}

// batch returns the marker.
func (a abort) batch(leaderEpoch int32) record.Batch {
	b := record.EndTxnMarker(a.producer, a.epoch, record.Abort, 0, 0)
	b.SetBaseOffset(a.at)
	b.SetLeaderEpoch(leaderEpoch)
	return b
}

// findAborts finds the damaged batches that were abort markers according to the index of aborted
// transactions. Clients skip the records of such a producer up to its abort marker: without one
// they would also skip the transactions after it. So a repair writes the marker again, also if all
// records of the transaction are lost with it, and the transaction is not torn.
func (l *log) findAborts(f *tornFinder) {
	for _, e := range l.st.Segments {
		for _, x := range l.abortedIn(e) {
			i := slices.IndexFunc(l.flaws[e.Base], func(w segment.Flaw) bool { return !w.Mends() && w.From <= x.Last && x.Last < w.To })
			if i < 0 || slices.ContainsFunc(l.restored[e.Base], func(p donated) bool { return p.first <= x.Last && x.Last < p.next }) {
				continue
			}
			same := func(t Torn) bool { return t.Producer == x.Producer && t.First == x.First }
			if i := slices.IndexFunc(f.torn, same); i >= 0 {
				l.aborts = append(l.aborts, abort{x.Last, x.Producer, f.torn[i].Epoch})
				f.torn = slices.Delete(f.torn, i, i+1)
			} else if t := f.open[x.Producer]; t != nil && t.first == x.First {
				l.aborts = append(l.aborts, abort{x.Last, x.Producer, t.epoch})
			} else { // later transactions of the producer may have later epochs, and none has an earlier one
				l.aborts = append(l.aborts, abort{x.Last, x.Producer, f.epochs[x.Producer]})
			}
		}
	}
}

// abortedIn returns the index of aborted transactions of a segment, nil if it cannot be used.
func (l *log) abortedIn(e checkpoint.Extent) []txnindex.Entry {
	if !e.Aborted.Known() || e.Aborted.Count == 0 || len(l.flaws[e.Base]) == 0 {
		return nil
	}
	b, err := vfs.ReadFile(l.dir.fs, path.Join(l.path, segment.Name(e.Base)+segment.AbortedSuffix))
	if err != nil {
		return nil // there is a finding of it
	}
	entries, _ := txnindex.Decode(b, e.Aborted) // the same
	return entries
}
