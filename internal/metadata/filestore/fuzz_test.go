package filestore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Whatever is on disk, Open returns a store or an error, and a store that opened opens again with
// the same content.
func FuzzOpen(f *testing.F) {
	fsys, _ := written(f)
	m := files(f, fsys)
	f.Add(m["0000000000000002.snapshot"], m["0000000000000002.log"])
	f.Add(m["0000000000000002.snapshot"], m["0000000000000002.log"][:60])
	f.Add([]byte{}, []byte(format.Magic))
	f.Fuzz(func(t *testing.T, snapshot, log []byte) {
		fsys := with(t, map[string][]byte{"0000000000000002.snapshot": snapshot, "0000000000000002.log": log})
		opts := Options{FS: fsys, Dir: "/m", Log: zap.NewNop()}
		s, err := Open(opts)
		if err != nil {
			return
		}
		held := dump(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(opts); err != nil {
			t.Fatal(err)
		}
		wantDump(t, s, held)
		_ = s.Close()
	})
}

// The store is compared with a map, with conflicts, reopenings and crashes in between.
func TestStoreBehavesLikeAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := crashfs.New(rapid.Uint64().Draw(t, "seed"))
		opts := Options{Dir: "/m", Log: zap.NewNop(), CompactBytes: 200}
		model, revision := map[string]metadata.KV{}, int64(0)
		var s *Store
		reopen := func() {
			opts.FS = fsys
			var err error
			if s, err = Open(opts); err != nil {
				t.Fatal(err)
			}
		}
		reopen()
		defer func() { _ = s.Close() }()
		key := rapid.SampledFrom([]string{"/a", "/b", "/c", "/d"})
		t.Repeat(map[string]func(*rapid.T){
			"txn": func(t *rapid.T) {
				txn := drawTxn(t, key, model)
				fits := !slices.ContainsFunc(txn.If, func(c metadata.Compare) bool { return model[c.Key].ModRevision != c.ModRevision })
				rev, err := s.Txn(context.Background(), txn)
				if fits != (err == nil) || err != nil && !errors.Is(err, metadata.ErrConflict) {
					t.Fatalf("%+v: %v, fits: %t", txn, err, fits)
				}
				if !fits {
					return
				}
				if len(txn.Put)+len(txn.Delete) > 0 {
					revision++
				}
				if rev != revision {
					t.Fatalf("revision %d, want %d", rev, revision)
				}
				for _, kv := range txn.Put {
					model[kv.Key] = metadata.KV{Key: kv.Key, Value: kv.Value, ModRevision: rev}
				}
				for _, k := range txn.Delete {
					delete(model, k)
				}
			},
			"reopen": func(t *rapid.T) {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				reopen()
			},
			"kill": func(*rapid.T) {
				old := s
				fsys = fsys.Kill()
				_ = old.Close()
				reopen()
			},
			"power loss": func(t *rapid.T) {
				old := s
				fsys = fsys.PowerLoss(rapid.SampledFrom(crashfs.Modes()).Draw(t, "mode"))
				_ = old.Close()
				reopen()
			},
			"": func(t *rapid.T) {
				kvs, rev, err := s.Range(context.Background(), "")
				var want []metadata.KV
				for _, k := range slices.Sorted(maps.Keys(model)) {
					want = append(want, model[k])
				}
				if err != nil || text(kvs, rev) != text(want, revision) {
					t.Fatalf("holds %s (%v), want %s", text(kvs, rev), err, text(want, revision))
				}
			},
		})
	})
}

func drawTxn(t *rapid.T, key *rapid.Generator[string], model map[string]metadata.KV) metadata.Txn {
	var txn metadata.Txn
	for _, k := range rapid.SliceOfNDistinct(key, 0, 3, rapid.ID[string]).Draw(t, "changed") {
		if rapid.Bool().Draw(t, "delete") {
			txn.Delete = append(txn.Delete, k)
		} else {
			txn.Put = append(txn.Put, metadata.KV{Key: k, Value: rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "value")})
		}
	}
	if rapid.Bool().Draw(t, "compare") {
		k := key.Draw(t, "compared")
		txn.If = []metadata.Compare{{Key: k, ModRevision: model[k].ModRevision + rapid.SampledFrom([]int64{0, 0, 0, 1, -1}).Draw(t, "off")}}
	}
	return txn
}

var _ vfs.FS = (*faulty)(nil)
