package writer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/race"
)

// alternate has every other log compacted.
func alternate(i int) bool { return i%2 == 1 }

func never(int) bool { return false }

// change does something to a partition.
func (p *partition) change(r *rapid.T) {
	for range rapid.IntRange(1, 6).Draw(r, "batches") {
		key, value := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(r, "key"), fmt.Sprintf("v%d", p.number)
		if rapid.IntRange(0, 3).Draw(r, "value") == 0 {
			value = ""
		}
		p.append(key, value, rapid.SampledFrom([]int{1, 1000, 9 << 10, 25 << 10}).Draw(r, "size"))
	}
}

// Whatever happens to logs, before a snapshot and while it is uploaded: it has what the leaders had
// at the cut, or it is void. Compaction runs all the time.
func TestWalks(t *testing.T) {
	synctest.Test(t, walks) // the pauses of compaction and of polling take no time
}

// walks hides from rapid that t is a test, whose deadline it must not ask for in a bubble.
func walks(t *testing.T) {
	void, failed, whole := 0, 0, 0
	rapid.Check(struct{ testing.TB }{t}, func(r *rapid.T) {
		w := newWorld(t, 4, alternate)
		defer w.close()
		step := func() {
			p := w.parts[rapid.IntRange(0, len(w.parts)-1).Draw(r, "partition")]
			e := p.log.Ends()
			switch action := rapid.IntRange(0, 8).Draw(r, "action"); {
			case action == 0 && !alternate(int(p.id.Partition)): // records are deleted
				p.moveStart(rapid.Int64Range(e.LogStart, e.LogEnd).Draw(r, "start"))
			case action == 1 && !alternate(int(p.id.Partition)): // another one leads, and has less
				p.elect(false, rapid.Int64Range(e.LogStart, e.LogEnd).Draw(r, "end"))
			case action == 2:
				p.elect(true, e.LogEnd)
			case action == 3:
				w.restart()
			case action == 4:
				w.collect()
			default:
				p.change(r)
			}
		}
		for range rapid.IntRange(1, race.Some(12, 4)).Draw(r, "steps") {
			for range rapid.IntRange(0, 4).Draw(r, "before") {
				step()
			}
			fault := faultstore.Rule{Ops: faultstore.Put, From: rapid.IntRange(1, 12).Draw(r, "call"), Count: 1,
				Err: faultstore.ErrInjected}
			if rapid.Bool().Draw(r, "lost") {
				fault.Err, fault.Lost = nil, faultstore.ErrInjected
			}
			off := w.s.Add(fault)
			gate := make(chan struct{})
			open := w.s.Add(faultstore.Rule{Ops: faultstore.Put, From: 1, Count: 1, Before: func(faultstore.Call) { <-gate }})
			job, all := w.cut()
			must.OK(t, w.w.Begin(job))
			begun := w.w
			for range rapid.IntRange(0, 3).Draw(r, "meanwhile") {
				step()
			}
			close(gate)
			if begun != w.w { // it was restarted
				off.Off()
				open.Off()
				continue
			}
			x := w.ended(job.Number)
			off.Off()
			open.Off()
			switch {
			case strings.Contains(x.Err, faultstore.ErrInjected.Error()):
				failed++
			case x.Err != "":
				void++
			case job.Collection != w.collection: // it may lack objects, and is not named
			case rapid.IntRange(0, 3).Draw(r, "named") == 0: // another broker's job has failed
				failed++
			default:
				whole++
				if err := w.verify(job, x.Partitions, all); err != nil {
					r.Fatal(err)
				}
			}
		}
	})
	if !testing.Short() && (void == 0 || failed == 0 || whole == 0) { // which tries a fifth of the walks
		t.Errorf("%d snapshots were void, %d failed, %d are whole", void, failed, whole)
	}
}

// successor takes a snapshot of a partition whose leader is replaced before the log is read. The
// next one has other records below the cut, whose causes the snapshot may lack.
func successor(t *testing.T, rules breakrules.Removed[Rule]) error {
	w := newWorld(t, 1, never)
	defer w.close()
	p, once := w.parts[0], false
	w.opt.Broken = rules
	w.opt.Rate = func() int64 {
		if !once { // after the first read
			once = true
			p.elect(false, 3)
			p.append("k", "of the next leader", 100)
			p.append("k", "of the next leader", 100)
		}
		return 0
	}
	w.restart()
	for range 5 {
		p.append("k", "v", 100)
	}
	_, err := w.snapshot(nil)
	if err != nil && strings.Contains(err.Error(), replica.ErrVoid.Error()) {
		return nil
	}
	return fmt.Errorf("it is not void: %w", err)
}

func TestALogThatIsNotTheCutsIsVoid(t *testing.T) {
	must.OK(t, successor(t, breakrules.Removed[Rule]{}))
}

// undone takes a snapshot of a log, and another one after an election that has undone records. An
// archived beginning counts only as far as the log has it.
func undone(t *testing.T, rules breakrules.Removed[Rule], sizes int) error {
	w := newWorld(t, 1, never)
	defer w.close()
	w.opt.Broken = rules
	w.restart()
	p := w.parts[0]
	for range 8 {
		p.append("k", "v", sizes)
	}
	if _, err := w.snapshot(nil); err != nil {
		return err
	}
	p.elect(true, 5)
	for range 6 {
		p.append("k", "of the next leader", sizes)
	}
	_, err := w.snapshot(nil)
	return err
}

func TestAnArchiveIsCutBack(t *testing.T) {
	for _, size := range []int{10, 10 << 10, 40 << 10} { // a piece of a pack, one of its own, log objects
		must.OK(t, undone(t, breakrules.Removed[Rule]{}, size))
	}
}

// Records of the cut may be deleted before they are compared. The log then says of every earlier
// leader epoch that it ends at the new log start, which a follower may believe, and an archive not.
func TestAnArchiveIsCutBackBelowALaterLogStart(t *testing.T) {
	w := newWorld(t, 1, never)
	defer w.close()
	p := w.parts[0]
	write := func(value string) {
		for range 4 {
			p.append("k", value, 1000)
		}
	}
	write("v")
	p.elect(true, 4)
	write("v")
	p.moveStart(7)
	_, err := w.snapshot(nil)
	must.OK(t, err)
	p.elect(false, 7)
	write("of the next leader")
	job, all := w.cut()
	p.moveStart(11)
	must.OK(t, w.w.Begin(job))
	x := w.ended(job.Number)
	if x.Err != "" {
		t.Fatal(x.Err)
	}
	must.OK(t, w.verify(job, x.Partitions, all))
}

// A log that has not changed is not read. After a start it is compared, and not uploaded again.
func TestWhatIsKnownIsNotRead(t *testing.T) {
	w := newWorld(t, 2, alternate)
	defer w.close()
	var reads atomic.Int64
	w.opt.Rate = func() int64 { reads.Add(1); return 0 }
	w.restart()
	for i := range 40 {
		for _, p := range w.parts {
			p.append(fmt.Sprint(i), "v", 5000)
		}
	}
	_, err := w.snapshot(nil)
	must.OK(t, err)
	reads.Store(0)
	puts := w.s.Calls(faultstore.Put)
	_, err = w.snapshot(nil)
	must.OK(t, err)
	if n := reads.Load(); n != 0 {
		t.Errorf("%d reads of unchanged logs", n)
	}
	w.restart()
	x, err := w.snapshot(nil)
	must.OK(t, err)
	if n := reads.Load(); n == 0 || x.Bytes != 0 || w.s.Calls(faultstore.Put) != puts+2 { // the indexes
		t.Errorf("after a start: %d reads, %+v, %d objects", n, x, w.s.Calls(faultstore.Put)-puts)
	}
}

// A compaction that has replaced bytes is uploaded from there on, and not what was before.
func TestACompactedLogIsUploadedFromTheFirstDifference(t *testing.T) {
	w := newWorld(t, 1, func(int) bool { return true })
	defer w.close()
	p := w.parts[0]
	for i := range 30 { // every segment has keys of its own
		p.append(fmt.Sprint(i), "v", 10<<10)
	}
	x, err := w.snapshot(nil)
	must.OK(t, err)
	before, all := x.Partitions[0].Parts, x.Bytes
	eventually(t, "a compaction", func() bool {
		changes := p.log.Changes()
		for i := 20; i < 30; i++ {
			p.append(fmt.Sprint(i), "w", 10<<10)
		}
		return p.log.Changes() > changes
	})
	x, err = w.snapshot(nil)
	must.OK(t, err)
	after := x.Partitions[0].Parts
	if len(before) < 3 || after[0] != before[0] || x.Bytes > all*2 {
		t.Errorf("%d bytes, then %d; the parts were %+v, and are %+v", all, x.Bytes, before, after)
	}
}

// The base of a snapshot may be lost or damaged; then everything is uploaded again, with a note.
func TestAnUnusableBase(t *testing.T) {
	for what, fault := range map[string]faultstore.Rule{
		"no manifest":      {Ops: faultstore.Get, Name: prefix + "manifest/", Err: objects.ErrNotFound},
		"another manifest": {Ops: faultstore.Get, Name: prefix + "manifest/", Alter: damaged},
		"a damaged object": {Ops: faultstore.Get, Name: prefix + "log/", Alter: damaged},
	} {
		w := newWorld(t, 2, never)
		p := w.parts[0]
		for range 8 {
			p.append("k", "v", 20<<10)
		}
		w.parts[1].append("k", "v", 10)
		_, err := w.snapshot(nil)
		must.OK(t, err)
		w.restart()
		p.elect(true, 1)
		fault := w.s.Add(fault)
		job, all := w.cut()
		must.OK(t, w.w.Begin(job))
		x := w.ended(job.Number)
		fault.Off()
		if x.Err != "" || x.Note == "" || fault.Hits() == 0 {
			t.Errorf("%s: %+v", what, x)
		}
		must.OK(t, w.verify(job, x.Partitions, all))
		w.close()
	}
}

func damaged(_ faultstore.Call, b []byte) []byte { b[0] ^= 1; return b }

// A broker that does not find what the controller has put has another store. It uploads nothing.
func TestAnotherStoreThanTheControllers(t *testing.T) {
	w := newWorld(t, 1, never)
	defer w.close()
	w.parts[0].append("k", "v", 10)
	run := func(probe objects.Nonce) Progress {
		job, _ := w.cut()
		job.Probe = probe
		must.OK(t, w.w.Begin(job))
		return w.ended(job.Number)
	}
	puts := w.s.Calls(faultstore.Put)
	if x := run(objects.NewNonce()); !strings.Contains(x.Err, "another store") || w.s.Calls(faultstore.Put) != puts {
		t.Errorf("%+v, %d objects were put", x, w.s.Calls(faultstore.Put)-puts)
	}
	probe, err := format.PutProbe(t.Context(), w.s, prefix)
	must.OK(t, err)
	if x := run(probe); x.Err != "" || len(x.Partitions) != 1 {
		t.Errorf("%+v", x)
	}
}

// The controller, which has read the index, must not continue one that brokers cannot read.
func TestAnIndexThatCannotBeRead(t *testing.T) {
	for what, fault := range map[string]faultstore.Rule{
		"missing": {Ops: faultstore.Get, Name: prefix + "index/", Err: objects.ErrNotFound},
		"damaged": {Ops: faultstore.Get, Name: prefix + "index/", Alter: damaged},
	} {
		w := newWorld(t, 1, never)
		w.parts[0].append("k", "v", 10)
		_, err := w.snapshot(nil)
		must.OK(t, err)
		f := w.s.Add(fault)
		if _, err := w.snapshot(nil); err == nil {
			t.Errorf("%s: the job continued", what)
		}
		f.Off()
		_, err = w.snapshot(nil)
		must.OK(t, err)
		w.close()
	}
}

// A failure of the store that may go away is no reason to upload everything.
func TestABaseThatCannotBeReadNow(t *testing.T) {
	w := newWorld(t, 1, never)
	defer w.close()
	w.parts[0].append("k", "v", 10)
	_, err := w.snapshot(nil)
	must.OK(t, err)
	fault := w.s.Add(faultstore.Rule{Ops: faultstore.Get, Err: faultstore.ErrInjected})
	if _, err := w.snapshot(nil); err == nil {
		t.Error("the job continued")
	}
	fault.Off()
	_, err = w.snapshot(nil)
	must.OK(t, err)
}

// The next job begins while the store hangs, and nothing waits for it.
func TestTheNextJobBeginsWhileTheStoreHangs(t *testing.T) {
	w := newWorld(t, 2, alternate)
	defer w.close()
	for _, p := range w.parts {
		p.append("k", "v", 10)
	}
	hang := w.s.Add(faultstore.Rule{Ops: faultstore.Put, Hang: true})
	job, _ := w.cut()
	must.OK(t, w.w.Begin(job))
	must.OK(t, w.w.Begin(job)) // an answer was lost
	eventually(t, "a Put", func() bool { return hang.Hits() > 0 })
	if x, err := w.w.Progress(job.Number, 0); x.Done || err != nil {
		t.Errorf("%+v, %v", x, err)
	}
	hang.Off()
	_, err := w.snapshot(nil)
	must.OK(t, err)
	if _, err := w.w.Progress(job.Number, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("the former job: %v", err)
	}
	if err := w.w.Begin(job); !errors.Is(err, ErrOlder) {
		t.Errorf("the former job again: %v", err)
	}
	hang = w.s.Add(faultstore.Rule{Ops: faultstore.Put, Hang: true})
	w.parts[0].append("k", "v", 10)
	job, _ = w.cut()
	must.OK(t, w.w.Begin(job))
	eventually(t, "a Put", func() bool { return hang.Hits() > 0 })
	w.w.Cancel(job.Number - 1) // another one
	if _, err := w.w.Progress(job.Number, 0); err != nil {
		t.Error(err)
	}
	w.w.Cancel(job.Number)
	if _, err := w.w.Progress(job.Number, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("after the cancellation: %v", err)
	}
	hang.Off()
	_, err = w.snapshot(nil)
	must.OK(t, err)
}

// A job in which nothing moves is void after 10 minutes, and compaction does not wait longer.
func TestAJobThatStallsIsVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, never)
		defer w.close()
		w.parts[0].append("k", "v", 10)
		w.s.Add(faultstore.Rule{Ops: faultstore.Put, Hang: true})
		begin := time.Now()
		job, _ := w.cut()
		must.OK(t, w.w.Begin(job))
		x := Progress{}
		for !x.Done {
			time.Sleep(time.Second)
			x, _ = w.w.Progress(job.Number, 0)
		}
		if d := time.Since(begin); x.Err != errStalls.Error() || d < stallTime || d > stallTime+time.Minute {
			t.Errorf("%+v after %v", x, d)
		}
	})
}

// What is read and put has a bound on its rate.
func TestTheRateIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, never)
		defer w.close()
		w.opt.Rate = func() int64 { return 10 << 10 }
		w.restart()
		for range 10 {
			w.parts[0].append("k", "v", 60<<10)
		}
		begin := time.Now()
		job, all := w.cut()
		must.OK(t, w.w.Begin(job))
		x := Progress{}
		for !x.Done {
			time.Sleep(time.Second)
			x, _ = w.w.Progress(job.Number, 0)
		}
		if d := time.Since(begin); d < time.Minute || d > 3*time.Minute {
			t.Errorf("600 KiB took %v", d)
		}
		if x = w.ended(job.Number); x.Err != "" {
			t.Fatal(x.Err)
		}
		must.OK(t, w.verify(job, x.Partitions, all))
	})
}

// Results come in pages, in the order of the partitions, with those that have no records, and those
// whose log can't be read.
func TestResultsComeInPages(t *testing.T) {
	w := newWorld(t, 0, never)
	defer w.close()
	job := Job{Number: 1}
	for i := range int32(10_000) {
		job.Cuts = append(job.Cuts, replica.Cut{TopicPartition: metadata.TopicPartition{Topic: [16]byte{1}, Partition: 9_999 - i},
			Start: 7, End: 7, Offline: i == 0})
	}
	must.OK(t, w.w.Begin(job))
	x := w.ended(1)
	first, err := w.w.Progress(1, 0)
	must.OK(t, err)
	if n := len(first.Partitions); n < 1000 || n > 9000 || len(x.Partitions) != 10_000 || first.Next != n {
		t.Errorf("%d of %d on the first page, next %d", n, len(x.Partitions), first.Next)
	}
	for i, p := range x.Partitions {
		want := format.Kept
		if i == 9_999 {
			want = format.Offline
		}
		if int(p.ID.Partition) != i || p.State != want || p.Start != 7 || p.End != 7 {
			t.Fatalf("%d: %+v", i, p)
		}
	}
	if x, err := w.w.Progress(1, -1); err != nil || len(x.Partitions) != 0 {
		t.Errorf("from -1: %+v, %v", x, err)
	}
}

// A log that is damaged has no records in the snapshot. Its end is that of the cut: it begins there
// again, where the offsets of groups are.
func TestADamagedLogEndsWhereItWasCut(t *testing.T) {
	w := newWorld(t, 1, never)
	defer w.close()
	name := "/d/t-0/" + segment.Name(0) + segment.LogSuffix
	for range 100 { // more than are in memory
		w.parts[0].append("k", "v", 30<<10)
	}
	eventually(t, "a segment with the first batches", func() bool {
		in, err := w.disk.Stat(name)
		return err == nil && in.Size > 30<<10
	})
	f, err := w.disk.Open(name)
	must.OK(t, err)
	_, err = f.WriteAt([]byte("damage"), 10<<10)
	must.OK(t, errors.Join(err, f.Close()))
	job, _ := w.cut()
	must.OK(t, w.w.Begin(job))
	x, end := w.ended(job.Number), job.Cuts[0].End
	if x.Err != "" || !strings.Contains(x.Note, "the snapshot lacks the partition") {
		t.Fatalf("%+v", x)
	}
	if p := x.Partitions[0]; p.State != format.Offline || p.Start != end || p.End != end {
		t.Errorf("%+v", p)
	}
}

// A log of another incarnation of the topic does not continue its archive.
func TestAnotherIncarnationIsUploadedAnew(t *testing.T) {
	w := newWorld(t, 1, never)
	defer w.close()
	w.parts[0].append("k", "v", 100)
	_, err := w.snapshot(nil)
	must.OK(t, err)
	profile := w.parts[0].log.Config()
	logs, err := w.m.CreateIn(w.m.Dirs()[0], []storage.Spec{{ID: storage.ID{Topic: [16]byte{2}}, Topic: "u", Config: profile}})
	must.OK(t, err)
	p := &partition{t: t, id: format.ID{Topic: [16]byte{2}}, log: logs[0], m: w.m, leads: true}
	p.log.Observe(p)
	p.log.SetLeaderEpoch(0, false)
	p.append("k", "another", 100)
	w.parts = []*partition{p}
	_, err = w.snapshot(nil)
	must.OK(t, err)
}

// Records that are deleted after the cut are in the snapshot: an application deletes those that it
// has processed, and the snapshot may be older than that.
func TestDeletionsWaitForTheUpload(t *testing.T) {
	w := newWorld(t, 1, never)
	defer w.close()
	p := w.parts[0]
	for range 20 {
		p.append("k", "v", 10<<10)
	}
	job, all := w.cut()
	size := int64(len(p.bytes))
	p.moveStart(15)
	if n := p.log.Size(); n < size {
		t.Errorf("%d bytes of %d are left", n, size)
	}
	must.OK(t, w.w.Begin(job))
	x := w.ended(job.Number)
	if x.Err != "" {
		t.Fatal(x.Err)
	}
	must.OK(t, w.verify(job, x.Partitions, all))
	eventually(t, "they are removed", func() bool { return p.log.Size() < size })
}

// retain applies retention, which is the leader's, until it has removed enough.
func (p *partition) retain(size int64, enough func() bool) {
	p.t.Helper()
	lead := func(leads bool) {
		p.mu.Lock()
		p.epoch++
		p.mu.Unlock()
		p.log.SetLeaderEpoch(p.epoch, leads)
	}
	lead(true)
	cfg := p.log.Config()
	cfg.Cleanup = storage.Cleanup{Delete: true, RetentionTime: -1, RetentionBytes: size}
	p.log.Configure(cfg)
	eventually(p.t, "retention has removed enough", func() bool {
		p.log.Dir().Reclaim() // a run may have found the log busy
		return enough()
	})
	lead(false)
}

// An upload may last longer than retention waits for it. Then the snapshot begins behind the
// records that retention has taken before they were read. A note names the first of the partitions.
func TestRetentionDoesNotEndALongUpload(t *testing.T) {
	w := newWorld(t, 7, never)
	defer w.close()
	for i, p := range w.parts {
		for range 20 {
			p.append("k", "v", 10<<10>>(10*(i%2))) // every other one is only in memory
		}
	}
	job, all := w.cut()
	note := "retention has removed records before they were read, and partitions begin behind them: "
	for i, p := range w.parts[1:] {
		i++
		h := w.holds[job.Cuts[i].TopicPartition]
		h.Ease()
		if i%2 == 1 {
			p.retain(0, func() bool { return h.First() == 20 })
		} else {
			p.retain(100<<10, func() bool { return h.First() > 0 })
		}
		job.Cuts[i].Start = h.First()
		all[i].bytes = all[i].bytes[len(all[i].bytes):]
		if h.First() < 20 {
			all[i].bytes = p.bytes[p.at[h.First()]:]
		}
		if i <= mostNotes {
			note += fmt.Sprintf("t-%d at %d, ", i, h.First())
		}
	}
	at := job
	at.Cuts = slices.Clone(job.Cuts)
	for i := range at.Cuts {
		at.Cuts[i] = w.holds[job.Cuts[i].TopicPartition].c
	}
	must.OK(t, w.w.Begin(at))
	x := w.ended(job.Number)
	if note = strings.TrimSuffix(note, ", ") + " and 2 more"; x.Err != "" || x.Note != note {
		t.Fatalf("%q, %q instead of %q", x.Err, x.Note, note)
	}
	must.OK(t, w.verify(job, x.Partitions, all))
	_, err := w.snapshot(nil) // it continues
	must.OK(t, err)
}

// When a job has ended, its goroutine may still wait for a store that hangs. Its logs are free.
func TestAJobThatHangsKeepsNothing(t *testing.T) {
	w := newWorld(t, 2, never)
	defer w.close()
	for range 20 {
		for _, p := range w.parts {
			p.append("k", "v", 10<<10)
		}
	}
	hangs := make(chan struct{}) // closed so that the store answers
	put := w.s.Add(faultstore.Rule{Ops: faultstore.Put, Count: 1, Before: func(faultstore.Call) { <-hangs }})
	job, _ := w.cut()
	must.OK(t, w.w.Begin(job))
	eventually(t, "a Put", func() bool { return put.Hits() > 0 })
	p := w.parts[1]
	p.moveStart(15)
	size := int64(len(p.bytes))
	if n := p.log.Size(); n < size {
		t.Errorf("%d bytes of %d are left", n, size)
	}
	w.w.Cancel(job.Number)
	eventually(t, "what was deleted is removed", func() bool { return p.log.Size() < size })
	close(hangs)
}

// The next leader of a compacted log may have records below the start of what is archived.
func TestACompactedArchiveThatBeginsLater(t *testing.T) {
	w := newWorld(t, 1, func(int) bool { return true })
	defer w.close()
	p := w.parts[0]
	for i := range 20 {
		p.append(fmt.Sprint(i), "v", 3<<10)
	}
	job, all := w.cut()
	h := w.holds[job.Cuts[0].TopicPartition]
	job.Cuts[0].Start, h.c.Start = 10, 10
	for i := range 10 {
		delete(all[0].values, fmt.Sprint(i))
	}
	must.OK(t, w.w.Begin(job))
	x := w.ended(job.Number)
	if x.Err != "" {
		t.Fatal(x.Err)
	}
	must.OK(t, w.verify(job, x.Partitions, all))
	w.restart()
	_, err := w.snapshot(nil)
	must.OK(t, err)
}

// A topic that is deleted during the upload does not end that of the others.
func TestADeletionOfATopicDoesNotEndTheUpload(t *testing.T) {
	w := newWorld(t, 2, never)
	defer w.close()
	for range 100 { // more than are in memory
		for _, p := range w.parts {
			p.append("k", "v", 30<<10)
		}
	}
	job, all := w.cut()
	p := w.parts[0]
	must.OK(t, w.m.Delete(p.log.ID()))
	must.OK(t, w.w.Begin(job))
	x := w.ended(job.Number)
	if x.Err != "" || !strings.HasSuffix(x.Note, "before they were read, and the snapshot lacks them: "+p.log.String()) {
		t.Fatalf("%+v", x)
	}
	if got, end := x.Partitions[0], job.Cuts[0].End; got.State != format.Offline || got.Start != end || got.End != end {
		t.Errorf("%+v", got)
	}
	got, err := w.content(&x.Partitions[1])
	if err != nil || !bytes.Equal(got, all[1].bytes) {
		t.Errorf("%d bytes of %d, %v", len(got), len(all[1].bytes), err)
	}
}

// What the store has of a tiered topic may be from before an election. A snapshot compares it with
// the log, also if that has only grown since the last one.
func TestACopyIsCompared(t *testing.T) {
	w := newWorld(t, 1, never)
	defer w.close()
	p := w.parts[0]
	write := func(n int, value string) {
		for range n {
			p.append("k", value, 1000)
		}
	}
	write(8, "undone")
	h := p.log.Hold()
	sizes := w.opt.Sizes
	sizes.Store, sizes.Prefix = w.s, prefix
	a, err := upload.NewBatch(sizes).Extend(t.Context(), &upload.Target{ID: p.id, Log: h, End: 8}, &upload.Archived{})
	must.OK(t, err)
	h.Release()
	p.elect(true, 5)
	write(3, "of the next leader")
	_, err = w.snapshot(nil)
	must.OK(t, err)
	p.moveStart(3)
	job, all := w.cut()
	job.Tiers = []Tier{{TopicPartition: job.Cuts[0].TopicPartition, Manifest: a.Manifest(), End: 8}}
	must.OK(t, w.w.Begin(job))
	x := w.ended(job.Number)
	if x.Err != "" || len(x.Partitions) != 1 || x.Partitions[0].Start != 0 || x.Partitions[0].End != 8 {
		t.Fatalf("%+v", x)
	}
	got, err := w.content(&x.Partitions[0])
	must.OK(t, err)
	if !bytes.Equal(got, p.bytes) || !bytes.HasSuffix(got, all[0].bytes) {
		t.Error("the snapshot has what an election has undone")
	}
}
