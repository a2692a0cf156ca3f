package snapshots

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/restore"
	"github.com/chronik-io/chronik/internal/archive/writer"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/objecttest"
	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/view"
)

// grow takes so many snapshots of growing logs.
func (w *world) grow(snapshots int) {
	w.t.Helper()
	for range snapshots {
		for i := range int32(partitionsA) {
			w.append(i, 2)
		}
		w.mustTake()
	}
}

func (w *world) mustCollect() {
	w.t.Helper()
	must.OK(w.t, w.s.collect(w.t.Context(), 1))
}

func (w *world) mustDelete(numbers ...int64) {
	w.t.Helper()
	for _, n := range numbers {
		must.OK(w.t, w.s.delete(w.t.Context(), 1, n))
	}
}

// without returns the names that another list lacks.
func without(names, other []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(other, n) })
}

// collections are those of a cluster with some snapshots.
var collections = map[string]func(t *testing.T, w *world){
	"nothing is unused": func(t *testing.T, w *world) {
		before := w.names()
		w.mustCollect()
		if gone := without(before, w.names()); len(gone) > 0 {
			t.Errorf("it deleted %q", gone)
		}
	},
	"snapshots in the midst are deleted": func(t *testing.T, w *world) {
		list := w.numbers()
		for i, n := range list {
			if i%3 != 0 {
				w.mustDelete(n)
			}
		}
		w.mustCollect()
		w.restorable()
		w.grow(2) // and the chain continues
		w.restorable()
	},
	"only the newest stays": func(t *testing.T, w *world) {
		list := w.numbers()
		w.mustDelete(list[:len(list)-1]...)
		w.mustCollect() // a chain of changes needs its whole beginning
		w.restorable()
		w.meta.change(func(m *memory) { // a complete one does not
			x := *w.meta.img.Snapshot(list[len(list)-1])
			x.Changes = 63
			m.apply(metadata.Txn{Put: []metadata.KV{{Key: metadata.SnapshotKey(x.Number), Value: x.Encode()}}})
		})
		w.append(0, 1)
		x := w.mustTake()
		w.mustDelete(list[len(list)-1])
		w.mustCollect()
		w.restorable()
		var indexes []string
		for _, n := range w.names() {
			if strings.HasPrefix(n, "index/") {
				indexes = append(indexes, n)
			}
		}
		if len(indexes) != 1 || !strings.Contains(indexes[0], fmt.Sprintf("%020d-", x.Number)) || x.Changes != 0 {
			t.Errorf("indexes %q of snapshot %+v", indexes, x)
		}
	},
	"what a failed snapshot has left": func(t *testing.T, w *world) {
		before := w.names()
		for i := range int32(partitionsA) {
			w.append(i, 1)
		}
		fault := w.objects.Add(faultstore.Rule{Ops: faultstore.Put, Name: prefix + "index/", Lost: errors.New("lost")})
		if _, err := w.take(); err == nil {
			t.Fatal("no error")
		}
		fault.Off()
		if left := without(w.names(), before); len(left) < 2 {
			t.Fatalf("it has left only %q", left)
		}
		w.mustCollect()
		if left := without(w.names(), before); len(left) > 0 || len(w.names()) != len(before) {
			t.Errorf("%q are left, %q are gone", left, without(before, w.names()))
		}
		w.grow(1)
		w.restorable()
	},
	"foreign names": func(t *testing.T, w *world) {
		ctx := t.Context()
		foreign := []string{"readme", "index/readme", "pack/0123", "log/x/0/1-2-" + objects.NewNonce().String(), "other/tmp"}
		for _, n := range append(foreign, "../") {
			name := prefix + n
			if n == "../" {
				name = strings.Repeat("ab", 16) + "/pack/" + objects.NewNonce().String() // another cluster
			}
			must.OK(t, w.objects.Put(ctx, name, bytes.NewReader([]byte("x"))))
		}
		nonce := objects.NewNonce().String()
		unfinished := []string{objects.UnfinishedName("pack/"+nonce, "abc"), objects.UnfinishedName("index/"+nonce, "abc")}
		for _, n := range unfinished {
			f, err := w.fs.Create("/store/" + prefix + n)
			must.OK(t, err)
			must.OK(t, f.Close())
		}
		if got := w.names(); len(without(append(foreign, unfinished...), got)) > 0 {
			t.Fatalf("%q are not listed", without(append(foreign, unfinished...), got))
		}
		w.mustCollect()
		got := w.names()
		if gone := without(foreign, got); len(gone) > 0 {
			t.Errorf("foreign names %q are gone", gone)
		}
		if left := without(unfinished, without(unfinished, got)); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
		var others int
		must.OK(t, w.objects.List(ctx, strings.Repeat("ab", 16)+"/", func(objects.Info) error { others++; return nil }))
		if others != 1 {
			t.Error("an object of another cluster is gone")
		}
	},
	"manifests are deleted first": func(t *testing.T, w *world) {
		id := format.ID{Topic: metadata.ID{7, 7}}
		for range 3 {
			for _, kind := range []objects.Kind{objects.Log, objects.Manifest} {
				n := format.Name{Kind: kind, Nonce: objects.NewNonce(), Partition: id, End: 1000}
				objecttest.Put(t, w.objects, prefix+n.String(), []byte("x"))
			}
		}
		var kinds []string
		deletes := w.objects.Add(faultstore.Rule{Ops: faultstore.Delete, Before: func(c faultstore.Call) {
			kind, _, _ := strings.Cut(strings.TrimPrefix(c.Name, prefix), "/")
			kinds = append(kinds, kind)
		}})
		w.mustCollect()
		deletes.Off()
		if want := strings.Fields("manifest manifest manifest log log log"); !slices.Equal(kinds, want) {
			t.Errorf("deleted in this order: %q", kinds)
		}
	},
	"what cannot be read": func(t *testing.T, w *world) {
		list := w.numbers()
		w.mustDelete(list[:4]...)
		before := w.names()
		for _, n := range before {
			kind, _, _ := strings.Cut(n, "/")
			if kind != "index" && kind != "manifest" {
				continue
			}
			fault := w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + n, Err: errDown})
			err := w.s.collect(t.Context(), 1)
			fault.Off()
			if fault.Hits() == 0 { // it is unused
				must.OK(t, err)
				continue
			}
			if gone := without(before, w.names()); err == nil || len(gone) > 0 {
				t.Errorf("without %s: %v, it deleted %q", n, err, gone)
			}
		}
		w.restorable()
	},
	"the store or the metadata fails": func(t *testing.T, w *world) {
		before := w.names()
		for _, fault := range []faultstore.Rule{{Ops: faultstore.List, Err: errDown}, {Ops: faultstore.Get, Err: errDown}} {
			f := w.objects.Add(fault)
			if err := w.s.collect(t.Context(), 1); err == nil {
				t.Errorf("%+v: no error", fault)
			}
			f.Off()
		}
		if err := w.s.collect(t.Context(), 9); !errors.Is(err, errAbandoned) {
			t.Errorf("in another term: %v", err)
		}
		w.meta.change(func(m *memory) { m.unwaited = errDown })
		if err := w.s.collect(t.Context(), 1); !errors.Is(err, errDown) {
			t.Errorf("without the revision: %v", err)
		}
		w.meta.change(func(m *memory) { m.unwaited = nil })
		if gone := without(before, w.names()); len(gone) > 0 {
			t.Errorf("it deleted %q", gone)
		}
		for i := range int32(partitionsA) {
			w.append(i, 1)
		}
		w.peers[1].change(func(p *peer) {
			p.answer = func(x writer.Progress) (writer.Progress, error) { return x, writer.ErrUnknown }
		})
		_, err := w.take()
		if err == nil {
			t.Fatal("no error")
		}
		f := w.objects.Add(faultstore.Rule{Ops: faultstore.Delete, Err: errDown})
		if err := w.s.collect(t.Context(), 1); !errors.Is(err, errDown) {
			t.Errorf("without Delete: %v", err)
		}
		f.Off()
		w.mustCollect()
		w.restorable()
	},
	"metadata from an older state": func(t *testing.T, w *world) { // its snapshots would be deleted
		all := w.numbers()
		chain := w.meta.image().Snapshot(all[len(all)-1]).Changes
		w.mustDelete(all[len(all)-3:]...)
		w.meta.put(metadata.KV{Key: metadata.ClusterKey, Value: metadata.NewCluster(metadata.FormatID(cluster), [16]byte{4}).Encode()})
		w.append(0, 1)
		x := w.mustTake() // it continues what the metadata know
		torn := w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "index/", Err: errDown})
		if err := w.s.collect(t.Context(), 1); err == nil {
			t.Error("the collection ignores that the store fails")
		}
		torn.Off()
		// A snapshot that was whole, and is not a moment later, is not deleted.
		reads := w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "index/", Before: func(faultstore.Call) {}})
		_, err := restore.Find(t.Context(), w.objects, "", restore.Choice{Cluster: metadata.FormatID(cluster), Number: all[len(all)-3]})
		must.OK(t, err)
		reads.Off()
		gone := w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "index/", From: reads.Hits() + 1,
			Err: objects.ErrNotFound})
		if err := w.s.collect(t.Context(), 1); !errors.Is(err, objects.ErrNotFound) {
			t.Errorf("the collection ignores that a whole snapshot cannot be read again: %v", err)
		}
		gone.Off()
		w.mustCollect()
		if got := w.numbers(); !slices.Equal(got, append(all, x.Number)) {
			t.Errorf("snapshots %v, want %v and %d", got, all, x.Number)
		}
		if s := w.meta.image().Snapshot(all[len(all)-1]); s == nil || s.Changes != chain || s.Partitions != x.Partitions || s.Bytes == 0 {
			t.Errorf("%+v", s)
		}
		w.mustDelete(all...) // now they are known, and stay deleted
		w.mustCollect()
		if got := w.numbers(); !slices.Equal(got, []int64{x.Number}) {
			t.Errorf("snapshots %v, want %d", got, x.Number)
		}
	},
	"metadata of a copy": func(t *testing.T, w *world) { // of the directories, which lacks the last snapshots
		w.mustDelete(w.numbers()[3])
		found := w.meta.image().Version()
		w.grow(2)
		all := w.numbers()
		w.mustDelete(all[len(all)-2:]...) // as if they had never been named
		w.opt.Found = found
		w.s = New(w.opt)
		w.mustCollect()
		if got := w.numbers(); !slices.Equal(got, all) {
			t.Errorf("snapshots %v, want %v", got, all)
		}
		w.restorable()
		w.mustDelete(all[len(all)-1]) // now it is known, and stays deleted
		w.mustCollect()
		if got := w.numbers(); !slices.Equal(got, all[:len(all)-1]) {
			t.Errorf("snapshots %v, want %v", got, all[:len(all)-1])
		}
	},
	"a process that began long ago": func(t *testing.T, w *world) { // others have taken snapshots since, and deleted some
		w.opt.Found = w.meta.image().Version()
		w.grow(2)
		all := w.numbers()
		w.mustDelete(all[len(all)-2])
		w.s = New(w.opt)
		w.mustCollect()
		if n := len(w.numbers()); n != len(all)-1 {
			t.Errorf("%d snapshots, want %d", n, len(all)-1)
		}
	},
	"a snapshot during it": func(t *testing.T, w *world) { // what is put after the list stays
		list := w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Count: 1, Before: func(faultstore.Call) {
			w.append(0, 1)
			w.s = New(w.opt) // without the cached index
			w.mustTake()
		}})
		s := w.s
		must.OK(t, s.collect(t.Context(), 1))
		if list.Hits() != 1 {
			t.Error("no snapshot was taken during it")
		}
		w.restorable()
		w.grow(2)
		w.restorable()
	},
	"a snapshot that began before it": func(t *testing.T, w *world) {
		list := w.numbers()
		w.append(0, 1)
		w.objects.Add(faultstore.Rule{Ops: faultstore.Put, Count: 1, Name: prefix + "index/", Before: func(faultstore.Call) {
			w.mustDelete(list...) // no snapshot names what it continues
			w.mustCollect()
		}})
		if x, err := w.take(); !errors.Is(err, metadata.ErrConflict) {
			t.Errorf("%+v, %v", x, err)
		}
		w.mustTake()
		w.restorable()
	},
	"a snapshot whose uploads it follows": func(t *testing.T, w *world) {
		w.append(0, 1)
		var begun atomic.Int32
		for _, p := range w.peers {
			var once sync.Once
			p.answer = func(x writer.Progress) (writer.Progress, error) {
				once.Do(func() {
					if begun.Add(1) == int32(len(w.peers)) {
						w.mustCollect()
					}
				})
				return x, nil
			}
		}
		if x, err := w.take(); !errors.Is(err, metadata.ErrConflict) {
			t.Errorf("%+v, %v", x, err)
		}
		w.mustTake()
		w.restorable()
	},
}

// A collection deletes what no snapshot needs, and nothing else, even if it is in doubt.
func TestACollectionDeletesOnlyWhatIsUnused(t *testing.T) {
	for what, test := range collections {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(c *configdef.Archive) { c.Keep = 1000 })
				w.grow(17) // manifests with two older ones, and pieces
				if n := slices.IndexFunc(w.names(), func(n string) bool { return strings.HasPrefix(n, "manifest/") }); n < 0 {
					t.Fatal("no manifest")
				}
				w.mustCollect() // it knows the generation
				test(t, w)
				w.restorable()
			})
		})
	}
}

// After a recovery, the metadata may lack topics. For a month no collection deletes their old
// records.
func TestACollectionKeepsWhatRecoveredMetadataLack(t *testing.T) {
	for name, recovered := range map[string]bool{"recovered": true, "never recovered": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, every(0))
				c := metadata.NewCluster(metadata.FormatID(cluster), [16]byte{4})
				if recovered {
					c.Recovered = time.Now().UnixMilli()
				}
				w.meta.put(metadata.KV{Key: metadata.ClusterKey, Value: c.Encode()})
				lacking := format.ID{Topic: metadata.ID{7, 7}}
				for _, n := range []format.Name{{Kind: objects.Log, Nonce: objects.NewNonce(), Partition: lacking, End: 1000},
					{Kind: objects.Manifest, Nonce: objects.NewNonce(), Partition: lacking, End: 1000}} {
					objecttest.Put(t, w.objects, prefix+n.String(), []byte("x"))
				}
				other := format.Name{Kind: objects.Pack, Nonce: objects.NewNonce()}
				objecttest.Put(t, w.objects, prefix+other.String(), []byte("x"))
				defer w.run()()
				kept := 0
				if recovered {
					kept = 2
				}
				if grown(w, 29*24*time.Hour); len(w.names()) != kept {
					t.Errorf("after 29 days: %v", w.names())
				}
				if grown(w, 3*24*time.Hour); len(w.names()) != 0 {
					t.Errorf("after 32 days: %v", w.names())
				}
			})
		})
	}
}

// pick returns an object that the newest snapshot needs.
func pick(w *world, kind objects.Kind) string {
	list := w.meta.image().Snapshots()
	x := list[len(list)-1]
	index, err := format.ReadSnapshot(w.t.Context(), w.objects, prefix, cluster,
		format.Previous{Number: x.Number, Nonce: objects.Nonce(x.Nonce)})
	must.OK(w.t, err)
	p := &index.Partitions[0]
	switch kind {
	case objects.Pack:
		return prefix + p.Parts[0].Run.Name(p.ID)
	case objects.Manifest:
		name := format.Name{Kind: kind, Partition: p.ID, Nonce: p.Manifest}
		return prefix + name.String()
	case objects.Log:
		m, err := format.ReadManifest(w.t.Context(), w.objects, prefix, p.ID, p.Manifest)
		must.OK(w.t, err)
		return prefix + m.Parts[0].Run.Name(p.ID)
	}
	name := format.Name{Kind: kind, Number: x.Number, Nonce: objects.Nonce(x.Nonce)}
	return prefix + name.String()
}

// alter changes a byte.
func alter(_ faultstore.Call, b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) > 0 {
		b[0]++
	}
	return b
}

// remove removes an object, until it is repaired.
func remove(w *world, name string) func() {
	b := make([]byte, 1<<20)
	n, err := w.objects.Get(w.t.Context(), name, 0, b)
	if !errors.Is(err, io.EOF) {
		w.t.Fatal(err)
	}
	must.OK(w.t, w.objects.Delete(w.t.Context(), name))
	return func() { must.OK(w.t, w.objects.Put(context.Background(), name, bytes.NewReader(b[:n]))) }
}

// damages are what is wrong at a verification.
// removeAll removes all objects, until it is repaired.
func removeAll(w *world) func() {
	var repairs []func()
	for _, name := range w.names() {
		repairs = append(repairs, remove(w, prefix+name))
	}
	return func() {
		for _, repair := range repairs {
			repair()
		}
	}
}

var damages = []struct {
	what   string
	fault  func(w *world) (repair func())
	damage string // noted; empty: nothing is noted
}{
	{"a missing pack", func(w *world) func() { return remove(w, pick(w, objects.Pack)) }, "not found"},
	{"a missing log object", func(w *world) func() { return remove(w, pick(w, objects.Log)) }, "not found"},
	{"a missing manifest", func(w *world) func() { return remove(w, pick(w, objects.Manifest)) }, "not found"},
	{"the missing index", func(w *world) func() { return remove(w, pick(w, objects.Index)) }, "not found"},
	{"a missing index of its chain", func(w *world) func() {
		first := slices.IndexFunc(w.names(), func(n string) bool { return strings.HasPrefix(n, "index/") })
		return remove(w, prefix+w.names()[first])
	}, "not found"},
	{"altered bytes of a pack", func(w *world) func() {
		return w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "pack/", Alter: alter}).Off
	}, "do not match their checksum"},
	{"altered bytes of a log object", func(w *world) func() {
		return w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Name: pick(w, objects.Log), Alter: alter}).Off
	}, "damaged"},
	{"a store without objects, such as a file system that is not mounted", removeAll, ""},
	{"an index of a newer version", func(w *world) func() {
		return w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "index/", Err: objects.ErrNewer}).Off
	}, ""},
	{"a store that does not answer", func(w *world) func() {
		return w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Err: errDown}).Off
	}, ""},
	{"a store without lists", func(w *world) func() { return w.objects.Add(faultstore.Rule{Ops: faultstore.List, Err: errDown}).Off }, ""},
	{"a store that fails at the end", func(w *world) func() {
		return w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "pack/", Err: errDown, Count: 1}).Off
	}, ""},
}

// verifications are further tests of them.
var verifications = map[string]func(t *testing.T){
	"a snapshot that is deleted meanwhile": func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.grow(2)
			n := w.numbers()[1]
			w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Count: 1, Before: func(faultstore.Call) { w.mustDelete(n) }})
			if err := w.s.verify(t.Context(), 1, n); !errors.Is(err, metadata.ErrConflict) || len(w.numbers()) != 1 {
				t.Errorf("snapshots %v, %v", w.numbers(), err)
			}
			if err := w.s.verify(t.Context(), 1, n); err == nil || !strings.Contains(err.Error(), "no snapshot") {
				t.Error(err)
			}
		})
	},
	"the schedule": func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(c *configdef.Archive) { c.Verify, c.Interval, c.Keep = 24*time.Hour, time.Hour, 1000 })
			w.append(0, 1)
			defer w.run()()
			verified := func() (n int) {
				for _, x := range w.meta.image().Snapshots() {
					if x.Verified != 0 {
						n++
					}
				}
				return n
			}
			for day := 1; day <= 3; day++ {
				time.Sleep(24 * time.Hour)
				if got := verified(); got < day || got > day+1 {
					t.Errorf("%d verifications on day %d", got, day)
				}
			}
			before := verified()
			fault := w.objects.Add(faultstore.Rule{Ops: faultstore.List, Name: prefix + "index/", Err: errDown})
			time.Sleep(48 * time.Hour)
			if hits := fault.Hits(); hits < 23 || hits > 50 || verified() != before {
				t.Errorf("%d attempts in two days with a store that fails", hits)
			}
			fault.Off()
			time.Sleep(2 * time.Hour)
			if verified() != before+1 {
				t.Error("it was not verified afterwards")
			}
		})
	},
	"next to a snapshot": func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.grow(1)
			defer w.run()()
			synctest.Wait()
			stop := make(chan struct{})
			w.objects.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "pack/", Count: 1, Before: func(faultstore.Call) { <-stop }})
			verify := view.SnapshotAsk{Action: view.VerifySnapshot, Number: w.numbers()[0]}
			for _, q := range []view.SnapshotAsk{verify, {Action: view.CreateSnapshot}, verify} {
				_, err := w.s.Ask(q)
				must.OK(t, err)
				time.Sleep(time.Second)
			}
			if x := w.state().Outcomes; len(x) != 2 || x[0].ID != 2 || x[0].Error != "" || x[1].ID != 3 ||
				!strings.Contains(x[1].Error, "another snapshot is being verified") {
				t.Errorf("%+v", x)
			}
			close(stop)
			time.Sleep(time.Second)
			if x := w.state().Outcomes; len(x) != 3 || x[2].ID != 1 || x[2].Error != "" {
				t.Errorf("%+v", x)
			}
		})
	},
}

// A verification notes what is wrong with a snapshot, and not what is wrong with the store.
func TestVerification(t *testing.T) {
	for _, c := range damages {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				core, logged := observer.New(zap.WarnLevel)
				w.opt.Log = zap.New(core)
				w.s = New(w.opt)
				w.grow(17)
				number := w.numbers()[16]
				noted := func() *metadata.Snapshot { return w.meta.image().Snapshot(number) }
				must.OK(t, w.s.verify(t.Context(), 1, number))
				good := *noted()
				if good.Verified == 0 || good.Damage != "" {
					t.Errorf("%+v", good)
				}
				time.Sleep(time.Hour)
				repair := c.fault(w)
				err := w.s.verify(t.Context(), 1, number)
				got := *noted()
				switch {
				case err == nil:
					t.Error("no error")
				case c.damage == "" && got != good:
					t.Errorf("it noted %+v for %v", got, err)
				case c.damage != "" && (!strings.Contains(got.Damage, c.damage) || got.Verified != good.Verified+time.Hour.Milliseconds()):
					t.Errorf("it noted %+v for %v", got, err)
				}
				if logged.Len() != 1 { // that is all that an operator has of one of the schedule
					t.Errorf("%d warnings", logged.Len())
				}
				repair()
				must.OK(t, w.s.verify(t.Context(), 1, number))
				if got := noted(); got.Damage != "" || got.Verified != good.Verified+time.Hour.Milliseconds() {
					t.Errorf("after the repair: %+v", got)
				}
			})
		})
	}
	for what, test := range verifications {
		t.Run(what, test)
	}
}

// Damage in a snapshot is damage in those that continue it. The next one after a verification has
// found it uploads everything again, whichever of them was verified, and the one after it continues
// it.
func TestADamagedSnapshotIsNotContinued(t *testing.T) {
	for back := range 3 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			lie := w.objects.Add(faultstore.Rule{Ops: faultstore.Put, Name: prefix + "pack/", From: 3, Count: 1, Alter: alter})
			w.grow(4)
			list := w.numbers()
			if lie.Hits() != 1 || w.s.verify(t.Context(), 1, list[3-back]) == nil {
				t.Fatalf("snapshot %d is whole", list[3-back])
			}
			for i := range 3 {
				w.append(0, 1)
				x := w.mustTake()
				must.OK(t, w.s.verify(t.Context(), 1, x.Number))
				if x.Changes != i {
					t.Errorf("snapshot %d afterwards has %d indexes with changes", i, x.Changes)
				}
			}
		})
	}
}

// Snapshots are taken, fail, are deleted and collected in any order, and controllers change: what
// the metadata names can be restored, and has what the logs had.
func TestWalks(t *testing.T) {
	for seed := range uint64(race.Some(8, 2)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				w := newWorld(t, func(c *configdef.Archive) { c.Keep = 5 + r.IntN(10) })
				taken, failed, collected := 0, 0, 0
				for range 150 {
					switch r.IntN(12) {
					case 0, 1, 2, 3, 4:
						w.append(r.Int32N(partitionsA), 1+r.IntN(5))
					case 5, 6:
						w.mustTake()
						taken++
					case 7: // a step fails
						rule := faultstore.Rule{Ops: faultstore.Put, From: 1 + r.IntN(4), Count: 1}
						if r.IntN(2) == 0 {
							rule.Ops = faultstore.Get
						}
						if rule.Err = errDown; rule.Ops == faultstore.Put && r.IntN(2) == 0 {
							rule.Err, rule.Lost = nil, errDown
						}
						fault := w.objects.Add(rule)
						if _, err := w.take(); err != nil {
							failed++
						}
						fault.Off()
					case 8:
						if list := w.numbers(); len(list) > 0 {
							w.mustDelete(list[r.IntN(len(list))])
						}
					case 9:
						w.mustCollect()
						collected++
					case 10:
						w.s = New(w.opt)
					case 11: // the log start rises, perhaps into a batch
						for _, p := range w.peers {
							p.change(func(p *peer) {
								tp := metadata.TopicPartition{Topic: topicA, Partition: r.Int32N(partitionsA)}
								if l := p.logs[tp]; l != nil && l.end > l.start {
									l.start += r.Int64N(l.end - l.start + 1)
								}
							})
						}
					}
					if r.IntN(5) == 0 {
						w.restorable()
					}
				}
				w.restorable()
				if taken == 0 || failed == 0 || collected == 0 {
					t.Errorf("%d snapshots, %d failed, %d collections", taken, failed, collected)
				}
			})
		})
	}
}
