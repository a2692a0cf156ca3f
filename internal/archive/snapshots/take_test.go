package snapshots

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/archive/cut"
	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/writer"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
)

var errDown = errors.New("it is down")

// one is the broker that fails.
func one(w *world) *peer { return w.peers[1] }

// named reports whether a transaction names a snapshot.
func named(txn metadata.Txn) bool {
	return slices.ContainsFunc(txn.Put, func(kv metadata.KV) bool { return strings.HasPrefix(kv.Key, metadata.SnapshotPrefix) })
}

// failures are those of the steps of a snapshot.
var failures = []struct {
	what  string
	fault func(w *world) (repair func())
	want  string // in the error; empty: the snapshot succeeds
	took  time.Duration
}{
	{"five void cuts", func(w *world) func() {
		one(w).change(func(p *peer) { p.melts = 5 })
		return func() {}
	}, cut.ErrVoid.Error(), 8 * time.Second},
	{"four void cuts", func(w *world) func() {
		one(w).change(func(p *peer) { p.melts = 4 })
		return func() {}
	}, "", 8 * time.Second},
	{"a broker that does not freeze", func(w *world) func() {
		one(w).change(func(p *peer) { p.refuses = func() error { return errDown } })
		return func() { one(w).change(func(p *peer) { p.refuses = nil }) }
	}, "it is down", 8 * time.Second},
	{"the mark is refused", func(w *world) func() {
		w.meta.change(func(m *memory) { m.refuse = func(metadata.Txn) error { return errDown } })
		return func() { w.meta.change(func(m *memory) { m.refuse = nil }) }
	}, "it is down", 0},
	{"another term", func(w *world) func() {
		one(w).change(func(p *peer) { p.refuses = func() error { w.meta.lead(0); return nil } })
		return func() { one(w).change(func(p *peer) { p.refuses = nil }); w.meta.lead(1) }
	}, errAbandoned.Error(), 0},
	{"a broker that begins no upload", func(w *world) func() {
		one(w).change(func(p *peer) { p.fails = errDown })
		return func() { one(w).change(func(p *peer) { p.fails = nil }) }
	}, "it is down", 0},
	{"an upload that fails", func(w *world) func() {
		one(w).change(func(p *peer) {
			p.answer = func(x writer.Progress) (writer.Progress, error) { x.Err = "its disk is full"; return x, nil }
		})
		return func() { one(w).change(func(p *peer) { p.answer = nil }) }
	}, "broker 1: its disk is full", 0},
	{"a broker that began again", func(w *world) func() {
		one(w).change(func(p *peer) {
			p.answer = func(x writer.Progress) (writer.Progress, error) { return writer.Progress{}, writer.ErrUnknown }
		})
		return func() { one(w).change(func(p *peer) { p.answer = nil }) }
	}, writer.ErrUnknown.Error(), 0},
	{"a broker that stays silent", func(w *world) func() {
		one(w).change(func(p *peer) {
			p.answer = func(x writer.Progress) (writer.Progress, error) { return writer.Progress{}, errDown }
		})
		return func() { one(w).change(func(p *peer) { p.answer = nil }) }
	}, "it is down", silence + time.Second},
	{"a broker that is silent for a while", func(w *world) func() {
		n := 0
		one(w).change(func(p *peer) {
			p.answer = func(x writer.Progress) (writer.Progress, error) {
				if n++; n%100 != 0 && n < 1000 {
					return writer.Progress{}, errDown
				}
				x.Done = n >= 1000
				if !x.Done {
					x.Partitions = nil
				}
				return x, nil
			}
		})
		return func() {}
	}, "", 250 * time.Second},
	{"a partition is missing", func(w *world) func() {
		one(w).change(func(p *peer) {
			p.answer = func(x writer.Progress) (writer.Progress, error) { x.Partitions, x.Next = nil, 0; return x, nil }
		})
		return func() { one(w).change(func(p *peer) { p.answer = nil }) }
	}, "uploaded 2 logs of 4", 0},
	{"a partition that contradicts itself", func(w *world) func() {
		one(w).change(func(p *peer) { p.anyState = format.Offline })
		return func() { one(w).change(func(p *peer) { p.anyState = 0 }) }
	}, format.ErrContradiction.Error(), 0},
	{"the store takes no pack", func(w *world) func() {
		return w.objects.Add(faultstore.Rule{Ops: faultstore.Put, Name: prefix + "pack/", Err: errDown}).Off
	}, "it is down", 0},
	{"the store takes no index", func(w *world) func() {
		return w.objects.Add(faultstore.Rule{Ops: faultstore.Put, Name: prefix + "index/", Err: errDown}).Off
	}, "it is down", 0},
	{"the store loses the answer to the index", func(w *world) func() {
		return w.objects.Add(faultstore.Rule{Ops: faultstore.Put, Name: prefix + "index/", Lost: errDown}).Off
	}, "it is down", 0},
	{"the name is refused", func(w *world) func() {
		w.meta.change(func(m *memory) {
			m.refuse = func(txn metadata.Txn) error {
				if named(txn) {
					return errDown
				}
				return nil
			}
		})
		return func() { w.meta.change(func(m *memory) { m.refuse = nil }) }
	}, "it is down", 0},
	{"the term ends during the upload", func(w *world) func() {
		one(w).change(func(p *peer) {
			p.answer = func(x writer.Progress) (writer.Progress, error) { w.meta.lead(2); return x, nil }
		})
		return func() { one(w).change(func(p *peer) { p.answer = nil }) }
	}, errAbandoned.Error(), 0},
	{"a collection begins during the upload", func(w *world) func() {
		one(w).change(func(p *peer) {
			p.answer = func(x writer.Progress) (writer.Progress, error) {
				w.meta.put(metadata.KV{Key: metadata.CollectionKey, Value: metadata.Collection{Time: 1}.Encode()})
				return x, nil
			}
		})
		return func() { one(w).change(func(p *peer) { p.answer = nil }) }
	}, metadata.ErrConflict.Error(), 0},
	{"the store does not return the former index", unreadable(errDown), "it is down", 0},
	{"the former index is missing", unreadable(objects.ErrNotFound), "", 0},
	{"the former index is damaged", unreadable(objects.ErrDamaged), "", 0},
}

// unreadable lets reads of indexes fail for a service that has no copy.
func unreadable(err error) func(w *world) func() {
	return func(w *world) func() {
		w.s = New(w.opt)
		for _, p := range w.peers {
			p.change(func(p *peer) { p.begun = nil })
		}
		return w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "index/", Err: err}).Off
	}
}

// Whatever step fails, the metadata names no snapshot. The next one works, and continues the last
// that is named.
func TestASnapshotIsNamedOnlyWhenItIsComplete(t *testing.T) {
	for _, c := range failures {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				for i := range int32(partitionsA) {
					w.append(i, 3)
				}
				first := w.mustTake()
				w.append(0, 5)
				repair := c.fault(w)
				began := time.Now()
				x, err := w.take()
				if took := time.Since(began); took > c.took || c.took > 0 && took < c.took/2 {
					t.Errorf("it took %v, expected %v", took, c.took)
				}
				switch {
				case c.want == "" && (err != nil || !slices.Equal(w.numbers(), []int64{first.Number, x.Number})):
					t.Errorf("snapshots %v, %v", w.numbers(), err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
					!slices.Equal(w.numbers(), []int64{first.Number})):
					t.Errorf("snapshots %v, %v", w.numbers(), err)
				}
				synctest.Wait()
				for id, p := range w.peers { // an upload of no use ends
					p.change(func(p *peer) {
						ended := len(p.canceled) > 0
						if p.frozen.Attempt != 0 || id == 1 && ended != slices.Contains(uploadsEnd, c.what) {
							t.Errorf("broker %d is frozen by %v; its upload was ended: %v", id, p.frozen, ended)
						}
					})
				}
				repair()
				w.append(1, 1)
				last := w.mustTake()
				if got := w.numbers(); got[len(got)-1] != last.Number {
					t.Errorf("snapshots %v, the last is %d", got, last.Number)
				}
				w.restorable()
			})
		})
	}
}

// uploadsEnd are the failures after which a broker is notified to end its upload.
var uploadsEnd = []string{"a broker that begins no upload", "an upload that fails", "a broker that began again",
	"a broker that stays silent", "the store takes no pack"}

// What brokers note about their uploads stays with the snapshot, as far as there is space for it.
func TestNotesOfUploadsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		noted := func(first, second string) string {
			for id, note := range map[int32]string{1: first, 2: second} {
				w.peers[id].change(func(p *peer) {
					p.answer = func(x writer.Progress) (writer.Progress, error) { x.Note = note; return x, nil }
				})
			}
			number := w.mustTake().Number
			return w.meta.image().Snapshot(number).Note
		}
		if got := noted("later", "lacks"); got != "broker 1: later; broker 2: lacks" {
			t.Errorf("note %q", got)
		}
		if got := noted("", strings.Repeat("x", metadata.MaxSnapshotNote)); len(got) != metadata.MaxSnapshotNote {
			t.Errorf("the note has %d bytes", len(got))
		}
		if got := noted("", ""); got != "" {
			t.Errorf("note %q", got)
		}
	})
}

// What a broker uploads although nothing waits for it ends.
func TestAnUploadOfWhichTheAnswerIsLostEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.append(0, 1)
		w.peers[1].change(func(p *peer) { p.lost = errors.New("the answer is lost") })
		if _, err := w.take(); err == nil {
			t.Fatal("there is a snapshot")
		}
		w.peers[1].change(func(p *peer) {
			if p.job != nil {
				t.Errorf("the job %d has not ended", p.job.Number)
			}
		})
	})
}

// Partitions of clients may be missing in a snapshot if that is allowed, those of internal topics
// never. What no broker could read begins a gap above the end that was known: offsets of groups are
// below its start. The gap is counted once, however many snapshots lack the partition.
func TestPartitionsThatNoBrokerCanRead(t *testing.T) {
	a := metadata.TopicPartition{Topic: topicA, Partition: 1}
	for _, c := range []struct {
		what     string
		fault    func(w *world)
		allow    bool
		internal bool
		text     string // of the error; empty: there is none
		known    int64  // the end that is known
	}{
		{"no leader", func(w *world) { w.partition(a, -1) }, false, false, "t-1", 0},
		{"no leader, allowed", func(w *world) { w.partition(a, -1) }, true, false, "", 7},
		{"a disk", func(w *world) { w.peers[2].change(func(p *peer) { p.offline[a] = true }) }, false, false, "t-1", 0},
		{"a disk, allowed", func(w *world) { w.peers[2].change(func(p *peer) { p.offline[a] = true }) }, true, false, "", 9},
		{"an internal topic", func(w *world) { w.partition(metadata.TopicPartition{Topic: topicB}, -1) }, true, true, "__state-0", 0},
		{"both", func(w *world) {
			w.partition(metadata.TopicPartition{Topic: topicB}, -1)
			w.partition(a, -1)
		}, true, true, "__state-0, t-1", 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.append(1, 7)
				w.mustTake()
				w.append(1, 2)
				c.fault(w)
				x, err := w.s.take(t.Context(), 1, w.objects, c.allow)
				if c.text != "" {
					var off *OfflineError
					if !errors.As(err, &off) || off.Internal != c.internal ||
						!strings.Contains(err.Error(), "no broker can read "+c.text+",") ||
						strings.Contains(err.Error(), "--allow-offline") == c.internal || len(w.numbers()) != 1 {
						t.Errorf("snapshots %v, %v", w.numbers(), err)
					}
					return
				}
				must.OK(t, err)
				index, err := format.ReadSnapshot(t.Context(), w.objects, prefix, cluster,
					format.Previous{Number: x.Number, Nonce: [16]byte(x.Nonce)})
				must.OK(t, err)
				p := index.Partitions[1]
				if x.Offline != 1 || x.Partitions != 4 || p.State != format.Offline || p.Start != c.known || p.End < 9+1<<40 {
					t.Errorf("snapshot %+v, partition %+v", x, p)
				}
				w.restorable()
				x, err = w.s.take(t.Context(), 1, w.objects, c.allow)
				must.OK(t, err)
				index, err = format.ReadSnapshot(t.Context(), w.objects, prefix, cluster,
					format.Previous{Number: x.Number, Nonce: [16]byte(x.Nonce)})
				must.OK(t, err)
				if next := index.Partitions[1]; next.Start != p.Start || next.End != p.End {
					t.Errorf("partition %+v after %+v", next, p)
				}
				w.peers[2].change(func(p *peer) { clear(p.offline) })
				w.partition(a, 2) // and everything is there again
				w.append(1, 1)
			})
		})
	}
}

// A restored partition that cannot be read again begins above where it began, also if no former
// snapshot says where that was: groups have offsets from there on.
func TestAnUnreadPartitionBeginsAboveThatOfEarlierSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := metadata.TopicPartition{Topic: topicA, Partition: 1}
		w.partition(a, -1)
		taken := func() format.Partition {
			t.Helper()
			x, err := w.s.take(t.Context(), 1, w.objects, true)
			must.OK(t, err)
			index, err := format.ReadSnapshot(t.Context(), w.objects, prefix, cluster,
				format.Previous{Number: x.Number, Nonce: [16]byte(x.Nonce)})
			must.OK(t, err)
			return index.Partitions[1]
		}
		first := taken()
		w.setClock(time.Minute)
		for _, name := range w.names() {
			if strings.HasPrefix(name, "index/") {
				must.OK(t, w.objects.Delete(t.Context(), prefix+name))
			}
		}
		w.s.forget()
		w.meta.put(metadata.KV{Key: metadata.TierKey(a), Value: (&metadata.Tier{Start: 500, End: 500}).Encode()})
		second := taken()
		if least := int64(time.Minute/time.Microsecond) + first.End; first.Start != 0 || second.Start != 500 || second.End < least {
			t.Errorf("%+v after %+v", second, first)
		}
		if second.End >= 1<<53 {
			t.Errorf("%d is not exact in JSON", second.End)
		}
	})
}

// If the index of the newest snapshot is lost, the attempt in which brokers find out fails, and the
// next one uploads everything.
func TestALostIndexIsNotContinued(t *testing.T) {
	w := newWorld(t, nil)
	w.mustTake()
	w.append(0, 1)
	lost := w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "index/", Err: objects.ErrNotFound})
	if _, err := w.take(); err == nil {
		t.Error("an upload that failed made a snapshot")
	}
	if x := w.mustTake(); x.Changes != 0 || lost.Hits() == 0 {
		t.Errorf("snapshot %+v continues an index that was lost", x)
	}
	lost.Off()
	w.restorable()
}

// Brokers have to find the same probe for each snapshot, and another one after a collection, which
// deletes it, and after a failure.
func TestBrokersAreGivenAProbe(t *testing.T) {
	w := newWorld(t, nil)
	probe := func() (n objects.Nonce) {
		one(w).change(func(p *peer) { n = p.begun[len(p.begun)-1].Probe })
		return n
	}
	w.mustTake()
	first := probe()
	w.mustTake()
	if first == (objects.Nonce{}) || probe() != first {
		t.Errorf("probes %v and %v", first, probe())
	}
	w.mustCollect()
	if err := format.ReadProbe(t.Context(), w.objects, prefix, first); !errors.Is(err, objects.ErrNotFound) {
		t.Errorf("the probe is not collected: %v", err)
	}
	w.mustTake()
	second := probe()
	must.OK(t, format.ReadProbe(t.Context(), w.objects, prefix, second))
	one(w).change(func(p *peer) {
		p.answer = func(x writer.Progress) (writer.Progress, error) { p.answer = nil; return x, writer.ErrUnknown }
	})
	if _, err := w.take(); err == nil {
		t.Error("no error")
	}
	w.mustTake()
	if probe() == second {
		t.Error("after a failure the probe is not put again")
	}
}

// A chain of changes ends with the 64th index, which is complete.
func TestEvery64thIndexIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *configdef.Archive) { c.Keep = 1000 })
		bytes := int64(0)
		for i := range 67 {
			w.append(0, 1)
			x := w.mustTake()
			if x.Changes != i%64 || x.Bytes <= bytes {
				t.Fatalf("snapshot %d has %d indexes with changes, and %d bytes after %d", i, x.Changes, x.Bytes, bytes)
			}
			bytes = x.Bytes
		}
		w.restorable()
	})
}

// Which snapshots are kept.
func TestExpiredSnapshots(t *testing.T) {
	noon := time.Date(2030, 1, 10, 12, 0, 0, 0, time.UTC)
	at := func(ages ...time.Duration) (list []metadata.Snapshot) {
		for i, age := range ages {
			list = append(list, metadata.Snapshot{Number: int64(i + 1), Time: noon.Add(-age).UnixMilli()})
		}
		return list
	}
	h := time.Hour
	for _, c := range []struct {
		what       string
		list       []metadata.Snapshot
		keep, days int
		now        time.Time
		want       []int64
	}{
		{"none", nil, 1, 1, noon, nil},
		{"one", at(100 * day), 1, 0, noon, nil},
		{"the newest always stays", at(3*h, 2*h, h), 0, 0, noon, []int64{1, 2}},
		{"the newest", at(5*h, 4*h, 3*h, 2*h, h), 3, 0, noon, []int64{1, 2}},
		{"one of today, which is among the newest", at(5*h, 4*h, 3*h), 1, 1, noon, []int64{1, 2}},
		{"the newest of each day", at(3*day+h, 3*day, 2*day+h, 2*day, day+h, day, h, 0), 1, 4, noon, []int64{1, 3, 5, 7}},
		{"of two days", at(3*day, 2*day, day+h, day, h, 0), 1, 2, noon, []int64{1, 2, 3, 5}},
		{"days end at midnight UTC", at(12*h+time.Millisecond, 12*h, h), 1, 2, noon, []int64{2}},
		{"elsewhere it is another day", at(12*h+time.Millisecond, 12*h, h), 1, 2, noon.In(time.FixedZone("x", 14*3600)), []int64{2}},
		{"both rules", at(2*day, day+h, day, 3*h, 2*h, h), 2, 3, noon, []int64{2, 4}},
		{"the clock was set back", at(2*day, day, 0), 1, 1, noon.Add(-30 * day), nil},
		{"the clock was set back, without days: too many", at(2*day, day, 0), 1, 0, noon.Add(-30 * day), nil},
		{"the clock was set forward", at(2*day, day, 0), 1, 14, noon.Add(30 * day), nil},
		{"after it was set back again", at(16*day, 2*day, day, -400*day, -h, -2*h), 1, 14, noon.Add(2 * h), []int64{1, 4, 5}},
		{"equal times", at(day, day, day), 1, 14, noon, []int64{1, 2}},
	} {
		if got := expired(c.list, c.keep, c.days, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) { // and the next snapshot removes them
		w := newWorld(t, func(c *configdef.Archive) { c.Keep = 2 })
		w.append(0, 1)
		var all []int64
		for range 4 {
			time.Sleep(time.Minute)
			all = append(all, w.mustTake().Number)
		}
		if got := w.numbers(); !slices.Equal(got, all[2:]) {
			t.Errorf("snapshots %v of %v", got, all)
		}
		w.setClock(-24 * time.Hour) // times never decrease
		before := w.meta.image().Snapshots()[1]
		if x := w.mustTake(); x.Time != before.Time || x.Ended < x.Time {
			t.Errorf("%+v after %+v", x, before)
		}
		w.setClock(-24 * time.Hour) // unless the clock of the last one was wrong by more
		if x := w.mustTake(); x.Time > before.Time-day.Milliseconds() {
			t.Errorf("%+v after %+v", x, before)
		}
	})
}

// Partitions whose records were not uploaded count as offline, unless their topic was deleted
// meanwhile.
func TestDeletedPartitionsAreNotOffline(t *testing.T) {
	gone := metadata.Txn{Delete: []string{metadata.NameKey("t"), metadata.TopicKey(topicA)}}
	for i := range int32(partitionsA) {
		gone.Delete = append(gone.Delete, metadata.PartitionKey(topicA, i))
	}
	for _, deleted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			deletion := sync.OnceFunc(func() {
				if deleted {
					w.meta.change(func(m *memory) { m.apply(gone) })
				}
			})
			var unread atomic.Int64
			for _, p := range w.peers {
				p.change(func(p *peer) {
					p.answer = func(x writer.Progress) (writer.Progress, error) {
						deletion()
						x.Partitions = slices.Clone(x.Partitions)
						for i, q := range x.Partitions {
							if q.ID.Topic == topicA {
								x.Partitions[i] = format.Partition{ID: q.ID, State: format.Offline, Epoch: q.Epoch,
									Start: q.End, End: q.End}
								unread.Add(1)
							}
						}
						return x, nil
					}
				})
			}
			x, err := w.take()
			must.OK(t, err)
			want := 0
			if !deleted {
				want = partitionsA
			}
			if unread.Load() != partitionsA || x.Partitions != partitionsA+1 || x.Offline != want {
				t.Errorf("deleted %v: %d unread, %+v, want %d offline", deleted, unread.Load(), x, want)
			}
		})
	}
}
