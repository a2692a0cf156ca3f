package journal

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// windowed runs a test of windows in fake time, in which the disk takes no time.
func windowed(t *testing.T, absent func() int, test func(t *testing.T, j *opened, fsys *errfs.FS)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fsys := errfs.New(memory(t))
		j := open(t, fsys, func(o *Options) { o.FileSize, o.MaxBytes, o.Absent = 32<<20, 256<<20, absent })
		j.maxWrite = 1 << 20
		time.Sleep(time.Second)
		test(t, j, fsys)
		ok(t, j.Close())
	})
}

// answered submits an entry and returns how long it waited for its outcome.
func answered(t *testing.T, j *opened, s *Stream, at int64, p *durability.Profile) time.Duration {
	t.Helper()
	o, began := newRecorder(), time.Now()
	e := entry(s, at, 350, p, o)
	ok(t, j.Submit(nil, e))
	o.wait(1)
	ok(t, o.err(e))
	return time.Since(began)
}

func several() int { return 5 }

func TestSyncNeverWaits(t *testing.T) {
	windowed(t, several, func(t *testing.T, j *opened, _ *errfs.FS) {
		for i := range 10 {
			if d := answered(t, j, newStream(i), 0, eager); d != 0 {
				t.Errorf("waited %v", d)
			}
		}
	})
}

func TestWindowClosesAtTheDeadline(t *testing.T) {
	for _, p := range []*durability.Profile{low, high} {
		windowed(t, several, func(t *testing.T, j *opened, _ *errfs.FS) {
			if d := answered(t, j, newStream(1), 0, p); d != p.MaxWait {
				t.Errorf("%s: waited %v", p.Name, d)
			}
		})
	}
}

func TestWindowClosesWhenAllConnectionsProduced(t *testing.T) {
	windowed(t, func() int { return 0 }, func(t *testing.T, j *opened, _ *errfs.FS) {
		if d := answered(t, j, newStream(1), 0, high); d != 0 {
			t.Errorf("waited %v", d)
		}
	})
}

func TestWindowClosesAtItsLimits(t *testing.T) {
	limited := &durability.Profile{Name: "limited", MaxWait: time.Second, MaxRecords: 10, MaxBytes: 4 << 10}
	for _, size := range []int{100, 1 << 10} {
		windowed(t, several, func(t *testing.T, j *opened, fsys *errfs.FS) {
			s, o := newStream(1), newRecorder()
			n := min(10, 4<<10/size)
			began, syncs := time.Now(), fsys.Calls(errfs.Datasync)
			for i := range n {
				if o.count() > 0 {
					t.Fatalf("closed with %d of %d entries", i, n)
				}
				ok(t, j.Submit(nil, entry(s, int64(i), size, limited, o)))
			}
			o.wait(n)
			if d := time.Since(began); d != 0 || fsys.Calls(errfs.Datasync) != syncs+1 {
				t.Errorf("%d entries of %d bytes waited %v for %d syncs", n, size, d, fsys.Calls(errfs.Datasync)-syncs)
			}
		})
	}
}

// A missing connection does not make the others wait for the whole window.
func TestWindowClosesWhenArrivalsDryUp(t *testing.T) {
	windowed(t, several, func(t *testing.T, j *opened, _ *errfs.FS) {
		s, o := newStream(1), newRecorder()
		for i := range 20 {
			ok(t, j.Submit(nil, entry(s, int64(i), 350, high, o)))
			time.Sleep(100 * time.Microsecond)
		}
		o.wait(20)
		began := time.Now()
		if d := began.Sub(o.entries[19].arrived); d > time.Millisecond {
			t.Errorf("the last one waited %v", d)
		}
		if o.entries[0].LSN+19 != o.entries[19].LSN {
			t.Error("not a single group")
		}
	})
}

// A shorter window that begins while the writer sleeps for a longer one ends in time, measured from
// the first entry of the group, and includes the other entries.
func TestShorterWindowJoins(t *testing.T) {
	windowed(t, several, func(t *testing.T, j *opened, fsys *errfs.FS) {
		s, o := newStream(1), newRecorder()
		ok(t, j.Submit(nil, entry(s, 0, 350, high, o)))
		time.Sleep(low.MaxWait * 3 / 4)
		if d := answered(t, j, newStream(2), 0, low); d != low.MaxWait/4 {
			t.Errorf("waited %v", d)
		}
		synctest.Wait()
		if o.count() != 1 {
			t.Error("the patient entry was not included")
		}
	})
}

func TestImpatientEntryTakesPatientOnesAlong(t *testing.T) {
	windowed(t, several, func(t *testing.T, j *opened, fsys *errfs.FS) {
		s, o := newStream(1), newRecorder()
		ok(t, j.Submit(nil, entry(s, 0, 350, high, o), entry(s, 1, 350, high, o)))
		time.Sleep(time.Millisecond)
		syncs := fsys.Calls(errfs.Datasync)
		if d := answered(t, j, newStream(2), 0, eager); d != 0 {
			t.Errorf("waited %v", d)
		}
		synctest.Wait()
		if o.count() != 2 || fsys.Calls(errfs.Datasync) != syncs+1 {
			t.Errorf("%d of 2 patient entries were included, %d syncs", o.count(), fsys.Calls(errfs.Datasync)-syncs)
		}
	})
}

// A patient group of several writes is synced once; an impatient group is synced after every write.
func TestPatientGroupSyncsOnce(t *testing.T) {
	for _, p := range []*durability.Profile{high, eager} {
		windowed(t, several, func(t *testing.T, j *opened, fsys *errfs.FS) {
			var entries []*Entry
			o := newRecorder()
			for i := range 30 {
				entries = append(entries, entry(newStream(i), 0, 100<<10, p, o))
			}
			writes, syncs := fsys.Calls(errfs.Write), fsys.Calls(errfs.Datasync)
			ok(t, j.Submit(nil, entries...))
			o.wait(30)
			synctest.Wait()
			writes, syncs = fsys.Calls(errfs.Write)-writes, fsys.Calls(errfs.Datasync)-syncs
			if writes < 3 || p == high && syncs != 1 || p == eager && syncs != writes {
				t.Errorf("%s: %d writes, %d syncs", p.Name, writes, syncs)
			}
		})
	}
}

// policy closes a group of three entries with one record each.
type policy struct{ asked atomic.Int32 }

func (p *policy) Close(g durability.Group) (bool, time.Duration) {
	p.asked.Add(1)
	return g.Records >= 3, time.Hour
}

func TestPolicyIsAsked(t *testing.T) {
	var three policy
	p := &durability.Profile{Name: "three", MaxWait: time.Second, Policy: &three}
	windowed(t, several, func(t *testing.T, j *opened, _ *errfs.FS) {
		s, o := newStream(1), newRecorder()
		ok(t, j.Submit(nil, entry(s, 0, 100, p, o)))
		ok(t, j.Submit(nil, entry(s, 1, 100, p, o)))
		time.Sleep(100 * time.Millisecond)
		if o.count() > 0 {
			t.Error("closed before the policy said so")
		}
		ok(t, j.Submit(nil, entry(s, 2, 100, p, o)))
		synctest.Wait()
		if o.count() != 3 || three.asked.Load() == 0 {
			t.Errorf("%d reported, asked %d times", o.count(), three.asked.Load())
		}
		if d := answered(t, j, s, 3, p); d != time.Second {
			t.Errorf("a group that the policy never closes waited %v", d)
		}
	})
}

// The entries left over when a group reached its limit keep their own deadline.
func TestRestOfAFullGroupKeepsItsDeadline(t *testing.T) {
	p := &durability.Profile{Name: "five", MaxWait: time.Second, MaxRecords: 5, MaxBytes: 1 << 20}
	windowed(t, several, func(t *testing.T, j *opened, _ *errfs.FS) {
		s, o := newStream(1), newRecorder()
		var entries []*Entry
		for i := range 7 {
			entries = append(entries, entry(s, int64(i), 100, p, o))
		}
		began := time.Now()
		ok(t, j.Submit(nil, entries...))
		synctest.Wait()
		if o.count() != 5 {
			t.Errorf("%d in a group of at most 5", o.count())
		}
		o.wait(7)
		if d := time.Since(began); d > time.Second {
			t.Errorf("waited %v", d)
		}
	})
}

// An entry that waits for others, as its profile allows, does not wait for the disk. A journal that
// hangs is detected although the profile of another log lets entries wait.
func TestAPatientEntryDoesNotLookLikeADiskThatHangs(t *testing.T) {
	windowed(t, several, func(t *testing.T, j *opened, fsys *errfs.FS) {
		s, o := newStream(1), newRecorder()
		before, _ := j.Pulse()
		ok(t, j.Submit(nil, entry(s, 0, 350, high, o)))
		time.Sleep(high.MaxWait / 2)
		if progress, waiting := j.Pulse(); progress != before || waiting {
			t.Errorf("%d after %d, waiting %v", progress, before, waiting)
		}
		free := make(chan struct{})
		fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) { <-free }})
		time.Sleep(time.Hour)
		progress, waiting := j.Pulse()
		if !waiting {
			t.Error("the disk hangs, and nothing waits for it")
		}
		close(free)
		synctest.Wait()
		if now, waiting := j.Pulse(); now <= progress || waiting || o.count() != 1 {
			t.Errorf("%d after %d, waiting %v", now, progress, waiting)
		}
	})
}

// Writes that need no datasync count as progress: a journal that is busy with them does not hang.
func TestWritesWithoutADatasyncAreProgress(t *testing.T) {
	windowed(t, several, func(t *testing.T, j *opened, _ *errfs.FS) {
		s, o := newStream(1), newRecorder()
		for i := range 3 {
			before, _ := j.Pulse()
			ok(t, j.Submit(nil, entry(s, int64(i), 350, loose, o)))
			synctest.Wait()
			if now, waiting := j.Pulse(); now <= before || waiting || o.count() != i+1 {
				t.Errorf("%d after %d, waiting %v, %d acknowledged", now, before, waiting, o.count())
			}
		}
		if j.Durable() > 0 {
			t.Error("there was a datasync")
		}
	})
}
