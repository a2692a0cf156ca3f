package storage

import (
	"slices"
	"syscall"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// fault makes the disk fail for a while.
func (w *world) fault() {
	r := errfs.Rule{Ops: errfs.Write | errfs.Datasync, Path: "*.journal", Count: 1, Err: syscall.EIO, From: 1 + w.rng.IntN(3),
		Short: w.rng.IntN(700), Drop: errfs.Drop(w.rng.IntN(3))}
	what := "journal"
	switch w.rng.IntN(4) {
	case 0:
		r.Path, r.Err, r.Ops, what = "/d/*-3/*.log", syscall.ENOSPC, errfs.Write, "full segment"
		r.Count = 1 + w.rng.IntN(2)
	case 1:
		r.Path, what = "/d/*-3/*.log", "segment"
	case 2:
		r.Path, r.Ops, what = "/d/checkpoint*/*", errfs.Write|errfs.Datasync|errfs.Rename, "checkpoint"
	}
	r.Before = w.loss.watch(r.Drop)
	w.say("fault: %s, call %d", what, r.From)
	w.errs.Add(r)
	for range w.rng.IntN(3) { // the reaction to the fault may also fail
		w.again()
	}
	for range 1 + w.rng.IntN(4) {
		if w.disk.Crashed() {
			return
		}
		m := w.logs[w.rng.IntN(len(w.logs))]
		w.append(m, 1+w.rng.IntN(4))
		switch w.rng.IntN(4) {
		case 0:
			_ = m.l.flushAndSync()
		case 1:
			_ = w.dir.checkpoint(nil)
		case 2:
			w.acked(m)
		}
		w.poll()
	}
	w.healthy()
	w.elect()
}

// elect lets the logs lead in a new epoch.
func (w *world) elect() {
	w.epoch++
	for _, m := range w.logs {
		if m.l != nil {
			m.l.SetLeaderEpoch(w.epoch, true)
		}
	}
}

// again adds a second fault, so that a repair or a reopening also fails.
func (w *world) again() {
	r := errfs.Rule{Count: 1 + w.rng.IntN(30), Err: syscall.EIO, From: 1 + w.rng.IntN(4), Drop: errfs.Drop(w.rng.IntN(3))}
	switch w.rng.IntN(4) {
	case 0:
		r.Path, r.Ops = "/d/*-3/*.log", errfs.Write|errfs.Datasync|errfs.Create
	case 1:
		r.Path, r.Ops, r.Count = "*.journal", errfs.Write|errfs.Datasync, 1
	case 2:
		r.Path, r.Ops, r.Err = "*.frames", errfs.Write|errfs.Create|errfs.Datasync, syscall.ENOSPC
	case 3:
		r.Path, r.Ops, r.Count = "/d/checkpoint*/*", errfs.Write|errfs.Datasync|errfs.Rename, 1+w.rng.IntN(3)
	}
	r.Before = w.loss.watch(r.Drop)
	w.say("and another: %s of %s from call %d, %d times", r.Ops, r.Path, r.From, r.Count)
	w.errs.Add(r)
}

// crash ends the process and starts the next, which may crash during its start.
func (w *world) crash() {
	if w.dir != nil {
		w.poll()
		w.disk.CrashAt(w.disk.Ops())
		_ = w.dir.Close()
		w.poll()
		w.down()
	}
	w.killed = true
	for range w.rng.IntN(3) {
		next := w.image()
		next.CrashDuring(1 + w.rng.IntN(60))
		w.disk = next
		opt := w.options()
		w.oneBad()
		d, err := OpenDir(Location{Path: "/d"}, opt)
		if err == nil {
			w.say("crash before the directory is used")
			next.CrashAt(next.Ops())
			_ = d.Close()
		} else if !next.Crashed() {
			failf("start: %v", err)
		}
	}
	w.open(true)
}

// oneBad makes the files of one log fail during the next start. The start after that must find the
// log's records in the journal.
func (w *world) oneBad() {
	if !w.cfg.faults || len(w.logs) == 0 || w.rng.IntN(2) == 0 {
		return
	}
	ops := []errfs.Op{errfs.List, errfs.Open | errfs.Create, errfs.Write, errfs.Datasync, errfs.Truncate, errfs.SyncDir}
	op, from, topic := ops[w.rng.IntN(len(ops))], w.rng.IntN(4), w.logs[w.rng.IntN(len(w.logs))].topic
	w.say("a start without the files of %s: %s from %d on", topic, op, from)
	for _, p := range []string{"/d/" + topic + "-3", "/d/" + topic + "-3/*"} {
		w.errs.Add(errfs.Rule{Ops: op, Path: p, From: from, Err: syscall.EIO})
	}
}

// image returns what the next process finds, sometimes without the checkpoint, which its copy
// replaces then.
func (w *world) image() *crashfs.FS {
	disk := w.left()
	if w.rng.IntN(4) > 0 {
		return disk
	}
	if has, err := statelog.Exists(disk, "/d/"+CheckpointMirror); err != nil || !has {
		return disk // there was no checkpoint yet
	}
	if s, err := checkpoint.Read(disk, "/d/"+CheckpointMirror); err == nil && s == nil {
		return disk // nor a complete one
	}
	if _, err := checkpoint.Restore(disk, "/d/"+CheckpointMirror, "/d/"+CheckpointDir); err != nil {
		failf("copy of the checkpoint: %v", err)
	}
	w.say("the checkpoint is lost, and its copy put in its place")
	return disk
}

// left returns the files that remain on the disk.
func (w *world) left() *crashfs.FS {
	if w.rng.IntN(3) == 0 {
		w.say("kill")
		return w.disk.KillImage(w.rng.Uint64())
	}
	w.killed = false
	mode := crashfs.Modes()[w.rng.IntN(len(crashfs.Modes()))]
	w.say("power loss, %s", mode)
	return w.disk.PowerLossImage(mode, w.rng.Uint64())
}

// open starts a process on what the last one left, and checks everything.
func (w *world) open(crashed bool) {
	image := w.disk
	if crashed {
		image = w.image()
	}
	w.start(image)
}

// start opens the directory on an image and compares every log with the model.
func (w *world) start(image *crashfs.FS) {
	if w.rng.IntN(8) == 0 {
		w.replayTwice(image)
	}
	w.disk = image
	d, err := OpenDir(Location{Path: "/d"}, w.options())
	if err != nil {
		failf("start: %v", err)
	}
	w.dir = d
	w.epoch++
	found := map[ID]*Log{}
	for _, l := range d.Logs() {
		found[l.id] = l
	}
	for _, m := range slices.Clone(w.logs) {
		l := found[m.id]
		delete(found, m.id)
		switch {
		case l == nil && m.maybe:
			w.drop(m)
			continue
		case l == nil:
			failf("%s is gone", m.topic)
		}
		m.l = l
		l.Observe(m)
		w.check(m)
		w.sameTransactions(m)
		l.SetLeaderEpoch(w.epoch, true)
	}
	w.loss.evicted.Store(false)
	if err := d.Registered(checkpoint.Owner{}); err != nil {
		failf("register: %v", err)
	}
	for _, l := range found {
		failf("%s was deleted and is back", l)
	}
	if name := unknownFrames(image); name != "" {
		failf("records of a deleted log are back in %s", name)
	}
	for _, m := range w.logs {
		w.resetSequences(m)
		w.say("%s is back: %s", m.topic, w.describe(m))
		w.retry(m)
	}
}

// resetSequences sets the sequence numbers that follow the recovered records.
func (w *world) resetSequences(m *mlog) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.seqs)
	for _, b := range m.cur.bs {
		if b.pid > m.pids-3 {
			m.seqs[b.pid] = record.Batch(b.data).LastSequence() + 1
		}
	}
}

// replayTwice starts two processes on copies of an image: they must find the same.
func (w *world) replayTwice(image *crashfs.FS) {
	var ends [2]map[ID]Ends
	for i := range ends {
		w.disk = image.KillImage(1)
		d, err := OpenDir(Location{Path: "/d"}, w.options())
		if err != nil {
			failf("start: %v", err)
		}
		ends[i] = map[ID]Ends{}
		for _, l := range d.Logs() {
			ends[i][l.id] = l.Ends()
		}
		w.disk.CrashAt(w.disk.Ops())
		_ = d.Close()
	}
	for id, e := range ends[0] {
		if ends[1][id] != e || len(ends[0]) != len(ends[1]) {
			failf("two starts on the same disk found %+v and %+v", e, ends[1][id])
		}
	}
}
