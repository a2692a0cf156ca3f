package storage

import (
	"syscall"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// Every process of the model may have little memory, a small journal and tiny segments, in any
// combination. Then appends wait for flushes and sweeps nearly always, and the model asks whether
// everything that waits is answered, whatever fails meanwhile.

// room is what a process of the model may use.
type room struct {
	memory  int64 // for records that are not in segments, and the cache
	journal int64 // the size of all journal files: 4 of them, or more
	tiny    bool  // a segment has a few batches
}

func (w *world) newRoom() room {
	r := room{memory: 64 << 10, journal: 256 << 10, tiny: w.rng.IntN(3) == 0}
	if w.rng.IntN(3) == 0 {
		r.memory = 4<<10 + w.rng.Int64N(20<<10)
	}
	if w.rng.IntN(3) == 0 {
		r.journal *= 4
	}
	w.say("room: %+v", r)
	return r
}

// limits returns when segments of a log are full: after some batches, or after one or two.
func (w *world) limits() segment.Limits {
	x := segment.Limits{Bytes: int64(2<<10 + w.rng.IntN(14<<10)), Ms: 1 << 40, IndexInterval: 512, IndexBytes: 4096}
	switch {
	case !w.room.tiny:
	case w.rng.IntN(4) == 0:
		x.IndexInterval, x.IndexBytes = 0, 12+w.rng.IntN(40) // an index entry has 12 bytes, one of each batch
	default:
		x.Bytes = 200 + w.rng.Int64N(3<<10)
	}
	return x
}

// burst appends to several logs at once, so that some of the appends wait behind others, and waits
// until all are answered.
func (w *world) burst() []*Append {
	sent := make([]*Append, 2+w.rng.IntN(8))
	for i := range sent {
		m := w.logs[w.rng.IntN(len(w.logs))]
		b := record.NewBuilder(record.BatchOptions{})
		w.counter++
		b.Append(w.modelTime(), w.modelKey(), make([]byte, w.rng.IntN(5<<10)), nil)
		data, err := b.Build()
		if err != nil {
			failf("build: %v", err)
		}
		sent[i] = &Append{Batches: data}
		w.begin(m, sent[i], -1)
	}
	for _, a := range sent {
		w.await(a)
	}
	return sent
}

// outage makes the segments of one log fail while the others fill the journal and the memory, and
// then work again. Only that log may refuse records meanwhile, unless its records can't be
// quarantined either.
func (w *world) outage(bad *mlog) {
	for _, m := range w.logs {
		if !w.calm(m) {
			return
		}
	}
	ops := []errfs.Op{errfs.Write, errfs.Datasync, errfs.Write | errfs.Create, errfs.Write | errfs.Datasync | errfs.Create}
	r := errfs.Rule{Ops: ops[w.rng.IntN(len(ops))], Path: "/d/" + bad.topic + "-3/*", Err: syscall.EIO, From: 1 + w.rng.IntN(4),
		Drop: errfs.Drop(w.rng.IntN(3))}
	if w.rng.IntN(2) == 0 {
		r.Err = syscall.ENOSPC
	}
	alone := w.rng.IntN(3) > 0
	w.say("outage of %s: %s from call %d, its frames can be quarantined: %v", bad.topic, r.Ops, r.From, alone)
	w.errs.Add(r)
	if !alone {
		w.errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Create, Path: "*.frames", Err: syscall.ENOSPC})
	}
	first, turns := w.dir.journal.Oldest(0).File, uint64(2+w.rng.IntN(3))
	for range 20 + w.rng.IntN(40) {
		if w.disk.Crashed() || w.dir.Err() != nil && w.rng.IntN(4) == 0 || w.dir.journal.Oldest(0).File >= first+turns {
			break
		}
		for _, a := range w.burst() {
			if m := a.Sink.(*modelSink).m; a.Err != nil && m != bad && alone && !w.disk.Crashed() {
				failf("%s refuses records although only the segments of %s fail: %v", m.topic, bad.topic, a.Err)
			}
		}
		w.poll()
		w.disturbance(w.logs[w.rng.IntN(len(w.logs))].l)()
	}
	w.say("end of the outage; directory: %v", w.dir.Err())
	w.healthy()
	for _, m := range w.logs {
		if !w.disk.Crashed() {
			w.acked(m)
		}
	}
	w.elect()
}
