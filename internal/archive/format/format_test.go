package format

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

var orders = ID{Topic: [16]byte{0xab, 15: 1}, Partition: 3}

func nonce(n byte) objects.Nonce { return objects.Nonce{0: n, 15: 0xff} }

func run(n byte, base, end int64) Run {
	return Run{Kind: objects.Log, Nonce: nonce(n), Base: base, End: end, Size: 5000, Len: 4000, Sum: 0x01020304,
		Newest: 1000 * int64(n), Written: 2000, FirstAborted: base - 5}
}

// batch returns a batch of n records with a value of size bytes each.
func batch(t interface {
	Helper()
	Fatal(args ...any)
}, base int64, n, size int, epoch int32, ts int64) record.Batch {
	t.Helper()
	w := record.NewBuilder(record.BatchOptions{})
	for range n {
		w.Append(ts, nil, make([]byte, size), nil)
	}
	b, err := w.Build()
	must.OK(t, err)
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(epoch)
	return b
}

// samples are one object of each kind.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	batches := slices.Concat(batch(t, 10, 2, 3, 4, 1000), batch(t, 14, 1, 0, 5, 900))
	log, err := Build(Facts{ID: orders, Base: 9, End: 16, Aborted: []txnindex.Entry{{Producer: 7, First: 8, Last: 12, Stable: 13}},
		Epochs: []epochs.Entry{{Epoch: 4, Start: 2}, {Epoch: 5, Start: 13}}},
		bytes.NewReader(batches), int64(len(batches)))
	must.OK(t, err)
	var pack Pack
	must.OK(t, pack.Add(orders, 9, 20, batches))
	must.OK(t, pack.Add(ID{Topic: orders.Topic, Partition: 4}, 0, 2, batch(t, 0, 2, 1, 0, 0)))
	packed, pieces := pack.Seal(nonce(9))
	first := Whole(run(1, 100, 200), 7)
	second := Part{Base: 200, End: 230, From: 0, To: 1000, Epoch: 8, Run: run(2, 200, 300)}
	manifest, err := (&Manifest{ID: orders, Base: 50, End: 230, Older: []Older{{50, 100, nonce(3), 900, 45, 3000}},
		Parts: []Part{first, second}}).Encode()
	must.OK(t, err)
	index := Index{Cluster: [16]byte{1, 2}, Number: 77, Time: 1700000000000, Release: "0.1.0",
		Keys: []Key{{"a", []byte("x"), 5}, {"b", nil, 77}},
		Partitions: []Partition{
			{ID: orders, State: Kept, Epoch: 8, Start: 10, End: 20, Manifest: nonce(4), Archived: 9,
				Parts: []Part{pieces[0].Part}},
			{ID: ID{orders.Topic, 4}, State: Compacted, Epoch: 1, End: 300, Parts: []Part{first, second}},
			{ID: ID{orders.Topic, 5}, State: Offline, Epoch: 2, Start: 3, End: 3},
		}}
	complete, err := index.Encode()
	must.OK(t, err)
	index.Previous = &Previous{70, nonce(5)}
	index.Keys, index.Partitions = []Key{{"c", nil, 0}}, []Partition{{ID: orders}}
	changes, err := index.Encode()
	must.OK(t, err)
	content := make([]byte, log.Size())
	_, err = log.ReadAt(content, 0)
	must.OK(t, err)
	return map[string][]byte{
		"log": content, "pack": packed, "manifest": manifest, "complete index": complete, "index with changes": changes,
	}
}

func TestFormatIsFixed(t *testing.T) {
	var text strings.Builder
	all := samples(t)
	for _, name := range []string{"log", "pack", "manifest", "complete index", "index with changes"} {
		fmt.Fprintf(&text, "%s\n%s\n", name, hex.Dump(all[name]))
	}
	golden.File(t, "testdata/format.golden", text.String(), "go test ./internal/archive/format -run FormatIsFixed")
}

func TestNames(t *testing.T) {
	for want, n := range map[string]Name{
		"log/ab000000000000000000000000000001/3/00000000000000000010-00000000000000000200-010000000000000000000000000000ff": {
			Kind: objects.Log, Nonce: nonce(1), Partition: orders, Base: 10, End: 200},
		"manifest/ab000000000000000000000000000001/3/020000000000000000000000000000ff": {
			Kind: objects.Manifest, Nonce: nonce(2), Partition: orders},
		"pack/030000000000000000000000000000ff":                       {Kind: objects.Pack, Nonce: nonce(3)},
		"index/00000000000000000077-040000000000000000000000000000ff": {Kind: objects.Index, Nonce: nonce(4), Number: 77},
	} {
		if got := n.String(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
		if got, err := Parse(want); err != nil || got != n {
			t.Errorf("%s: %+v, %v", want, got, err)
		}
		must.OK(t, objects.CheckName(Prefix([16]byte{1})+want))
		for _, wrong := range []string{want + "0", want[1:], want + "/x", "x/" + want, strings.ToUpper(want),
			strings.Replace(want, "0", "+", 1), objects.UnfinishedName(want, "1"), strings.Replace(want, "/", "//", 1)} {
			if got, err := Parse(wrong); err == nil {
				t.Errorf("%s: %+v", wrong, got)
			}
		}
	}
	if _, err := Parse(""); err == nil {
		t.Error("an empty name was parsed")
	}
}

func FuzzName(f *testing.F) {
	f.Add("index/00000000000000000077-040000000000000000000000000000ff")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := Parse(s); err == nil && n.String() != s {
			t.Errorf("%q is %+v", s, n)
		}
	})
}

// partsFrom draws parts that cover [from, end) in order; with holes they need not be continuous.
func partsFrom(t *rapid.T, from int64, pack, holes bool) (parts []Part, end int64) {
	for range rapid.IntRange(0, 4).Draw(t, "parts") {
		if holes {
			from += rapid.Int64Range(0, 5).Draw(t, "hole")
		}
		p := Part{Base: from, Epoch: rapid.Int32Range(0, 1<<30).Draw(t, "epoch")}
		p.End = p.Base + rapid.Int64Range(1, 1<<40).Draw(t, "offsets")
		p.From = rapid.Int64Range(0, 1<<30).Draw(t, "from")
		p.To = p.From + rapid.Int64Range(1, 1<<30).Draw(t, "bytes")
		r := Run{Kind: objects.Log, Nonce: objects.NewNonce(), Sum: rapid.Uint32().Draw(t, "sum"),
			Newest: rapid.Int64Range(-1, 1<<50).Draw(t, "newest"), Written: rapid.Int64Range(0, 1<<50).Draw(t, "written"), FirstAborted: -1}
		r.Base = p.Base - rapid.Int64Range(0, p.Base).Draw(t, "before")
		r.End = p.End + rapid.Int64Range(0, 1000).Draw(t, "after")
		r.Len = p.To + rapid.Int64Range(0, 1000).Draw(t, "more")
		if pack && rapid.Bool().Draw(t, "in a pack") {
			r.Kind, r.Pos = objects.Pack, rapid.Int64Range(0, 1<<40).Draw(t, "pos")
		} else {
			r.FirstAborted = rapid.Int64Range(-1, r.End-1).Draw(t, "first aborted")
		}
		r.Size = r.Pos + r.Len + rapid.Int64Range(objects.TrailerSize, 1<<20).Draw(t, "footer")
		p.Run = r
		parts, from = append(parts, p), p.End
	}
	return parts, from
}

func drawManifest(t *rapid.T) *Manifest {
	m := &Manifest{ID: drawID(t), Base: rapid.Int64Range(0, 1<<40).Draw(t, "base")}
	at := m.Base
	for range rapid.IntRange(0, 3).Draw(t, "older") {
		o := Older{Base: at, End: at + rapid.Int64Range(1, 1<<40).Draw(t, "offsets"), Nonce: objects.NewNonce(),
			Newest: rapid.Int64Range(-1, 1<<50).Draw(t, "newest"), FirstAborted: rapid.Int64Range(-1, at).Draw(t, "first aborted"),
			Bytes: rapid.Int64Range(0, 1<<50).Draw(t, "bytes")}
		m.Older, at = append(m.Older, o), o.End
	}
	m.Parts, m.End = partsFrom(t, at, false, false)
	return m
}

func drawID(t *rapid.T) (id ID) {
	id.Topic[rapid.IntRange(0, 15).Draw(t, "byte of the topic")] = rapid.ByteRange(1, 9).Draw(t, "topic")
	id.Partition = rapid.Int32Range(0, 5).Draw(t, "partition")
	return id
}

func drawIndex(t *rapid.T, number int64) *Index {
	x := &Index{Cluster: [16]byte{1}, Number: number, Time: rapid.Int64Range(0, 1<<50).Draw(t, "time"), Release: "0.1"}
	for _, key := range rapid.SliceOfNDistinct(rapid.StringN(1, 3, 4), 0, 6, rapid.ID[string]).Draw(t, "keys") {
		value := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "value")
		x.Keys = append(x.Keys, Key{key, value, rapid.Int64Range(1, number).Draw(t, "revision")})
	}
	slices.SortFunc(x.Keys, compareKeys)
	for _, id := range rapid.SliceOfNDistinct(rapid.Custom(drawID), 0, 6, rapid.ID[ID]).Draw(t, "partitions") {
		x.Partitions = append(x.Partitions, drawPartition(t, id))
	}
	slices.SortFunc(x.Partitions, Partition.Compare)
	return x
}

func drawPartition(t *rapid.T, id ID) Partition {
	p := Partition{ID: id, State: State(rapid.ByteRange(1, 3).Draw(t, "state")), Epoch: rapid.Int32Range(0, 9).Draw(t, "epoch")}
	p.Start = rapid.Int64Range(0, 1<<40).Draw(t, "start")
	switch p.State {
	case Kept:
		from := p.Start
		if rapid.Bool().Draw(t, "has a manifest") {
			p.Manifest, p.Archived = objects.NewNonce(), rapid.Int64Range(1, 1<<41).Draw(t, "archived")
			from = max(from, p.Archived)
		}
		p.Parts, p.End = partsFrom(t, from, true, false)
	case Compacted:
		p.Parts, p.End = partsFrom(t, p.Start, true, true)
		p.End += rapid.Int64Range(0, 5).Draw(t, "hole at the end")
	case Offline, Gone:
		p.End = p.Start + rapid.Int64Range(0, 5).Draw(t, "offsets")
	}
	return p
}

// open returns the content of a sealed object.
func open(t interface {
	Helper()
	Fatal(args ...any)
}, sealed []byte, kind objects.Kind) []byte {
	t.Helper()
	content, version, err := objects.Open(sealed, kind, 1)
	must.OK(t, err)
	if version != 1 {
		t.Fatal("version", version)
	}
	return content
}

// same compares values in which an empty slice may be nil.
func same(a, b any) string { return cmp.Diff(a, b, cmpopts.EquateEmpty()) }

func TestManifestsAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawManifest(t)
		sealed, err := m.Encode()
		must.OK(t, err)
		got, err := DecodeManifest(open(t, sealed, objects.Manifest))
		must.OK(t, err)
		if d := same(m, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestIndexesAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawIndex(t, rapid.Int64Range(1, 1<<40).Draw(t, "number"))
		sealed, err := x.Encode()
		must.OK(t, err)
		got, err := DecodeIndex(open(t, sealed, objects.Index))
		must.OK(t, err)
		if d := same(x, got); d != "" {
			t.Fatal(d)
		}
	})
}

// The changes between two snapshots, encoded and applied to the first, are the second.
func TestChangesLeadToTheNextIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, next := drawIndex(t, 10), drawIndex(t, 20)
		if rapid.Bool().Draw(t, "similar") {
			next.Keys = slices.Concat(next.Keys, slices.DeleteFunc(slices.Clone(x.Keys), func(k Key) bool {
				return slices.ContainsFunc(next.Keys, func(n Key) bool { return n.Key == k.Key })
			}))
			slices.SortFunc(next.Keys, compareKeys)
			next.Partitions = slices.Clone(x.Partitions[:len(x.Partitions)/2])
		}
		changes := x.Changes(next, nonce(1))
		for _, k := range changes.Keys {
			if slices.ContainsFunc(x.Keys, func(o Key) bool { return cmp.Equal(o, k, cmpopts.EquateEmpty()) }) {
				t.Fatalf("key %q did not change", k.Key)
			}
		}
		sealed, err := changes.Encode()
		must.OK(t, err)
		changes, err = DecodeIndex(open(t, sealed, objects.Index))
		must.OK(t, err)
		got, err := x.Apply(changes)
		must.OK(t, err)
		if d := same(next, got); d != "" {
			t.Fatal(d)
		}
		for what, err := range map[string]error{
			"a complete index":         second(x.Apply(next)),
			"changes of another index": second(next.Apply(changes)),
			"changes to changes":       second(changes.Apply(changes)),
		} {
			if !errors.Is(err, ErrContradiction) {
				t.Fatalf("%s were applied: %v", what, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestContradictionsAreNeitherWrittenNorRead(t *testing.T) {
	part := Whole(run(1, 100, 200), 7)
	with := func(change func(p *Part)) []Part {
		p := part
		change(&p)
		return []Part{p}
	}
	for what, m := range map[string]*Manifest{
		"a hole before the parts":  {ID: orders, Base: 90, End: 200, Parts: []Part{part}},
		"an end above the parts":   {ID: orders, Base: 100, End: 201, Parts: []Part{part}},
		"a part twice":             {ID: orders, Base: 100, End: 200, Parts: []Part{part, part}},
		"older parts after a hole": {ID: orders, Base: 10, End: 200, Older: []Older{{20, 100, nonce(1), -1, -1, 1}}, Parts: []Part{part}},
		"no offsets in older":      {ID: orders, Base: 100, End: 200, Older: []Older{{100, 100, nonce(1), -1, -1, 1}}, Parts: []Part{part}},
		"a part of a pack":         {ID: orders, Base: 100, End: 200, Parts: with(func(p *Part) { p.Run.Kind = objects.Pack })},
		"a part above its run":     {ID: orders, Base: 100, End: 200, Parts: with(func(p *Part) { p.Run.End = 150 })},
		"a part below its run":     {ID: orders, Base: 100, End: 200, Parts: with(func(p *Part) { p.Run.Base = 110 })},
		"more bytes than its run":  {ID: orders, Base: 100, End: 200, Parts: with(func(p *Part) { p.To = 4001 })},
		"no bytes":                 {ID: orders, Base: 100, End: 200, Parts: with(func(p *Part) { p.To = 0 })},
		"a timestamp below none":   {ID: orders, Base: 100, End: 200, Parts: with(func(p *Part) { p.Run.Newest = -2 })},
		"an abort above its run":   {ID: orders, Base: 100, End: 200, Parts: with(func(p *Part) { p.Run.FirstAborted = 200 })},
		"older aborts above it":    {ID: orders, Base: 10, End: 200, Older: []Older{{10, 100, nonce(1), -1, 100, 1}}, Parts: []Part{part}},
		"a run above its object":   {ID: orders, Base: 100, End: 200, Parts: with(func(p *Part) { p.Run.Size = 4020 })},
		"a negative partition":     {ID: ID{Partition: -1}},
	} {
		if _, err := m.Encode(); !errors.Is(err, ErrContradiction) {
			t.Errorf("manifest with %s: %v", what, err)
		}
	}
	for what, p := range map[string]Partition{
		"no state":               {State: 9},
		"an end below the start": {State: Offline, Start: 5, End: 4},
		"an offline manifest":    {State: Offline, Manifest: nonce(1), Archived: 1, End: 1},
		"gone":                   {State: Gone},
		"a missing end":          {State: Kept, Start: 100, End: 201, Parts: []Part{part}},
		"a missing beginning":    {State: Kept, Start: 99, End: 200, Parts: []Part{part}},
		"a compacted manifest":   {State: Compacted, End: 200, Manifest: nonce(1), Archived: 100, Parts: []Part{part}},
		"parts above the end":    {State: Compacted, End: 199, Parts: []Part{part}},
		"parts twice":            {State: Compacted, End: 200, Parts: []Part{part, part}},
		"an overlap":             {State: Kept, End: 200, Manifest: nonce(1), Archived: 150, Parts: []Part{part}},
	} {
		if _, err := (&Index{Number: 1, Partitions: []Partition{p}}).Encode(); !errors.Is(err, ErrContradiction) {
			t.Errorf("partition with %s: %v", what, err)
		}
	}
	offline := Partition{ID: orders, State: Offline}
	for what, x := range map[string]*Index{
		"no number":                 {},
		"a later previous one":      {Number: 5, Previous: &Previous{Number: 5}},
		"keys out of order":         {Number: 5, Keys: []Key{{"b", nil, 1}, {"a", nil, 1}}},
		"a key of a later revision": {Number: 5, Keys: []Key{{"b", nil, 6}}},
		"a deleted key":             {Number: 5, Keys: []Key{{"b", nil, 0}}},
		"a partition twice":         {Number: 5, Partitions: []Partition{offline, offline}},
	} {
		if _, err := x.Encode(); !errors.Is(err, ErrContradiction) {
			t.Errorf("index with %s: %v", what, err)
		}
	}
}

func TestPacksAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pack Pack
		want := map[ID][]byte{}
		for _, id := range rapid.SliceOfNDistinct(rapid.Custom(drawID), 0, 5, rapid.ID[ID]).Draw(t, "partitions") {
			base := rapid.Int64Range(0, 1<<40).Draw(t, "base")
			b := slices.Concat(batch(t, base, 1, rapid.IntRange(0, 50).Draw(t, "size"), 1, 5), batch(t, base+3, 2, 1, 2, 6))
			must.OK(t, pack.Add(id, base, base+5, b))
			want[id] = b
		}
		n := objects.NewNonce()
		sealed, pieces := pack.Seal(n)
		got, err := DecodePack(open(t, sealed, objects.Pack), n)
		must.OK(t, err)
		if d := cmp.Diff(pieces, got); d != "" || len(got) != len(want) || pack.Len() != 0 {
			t.Fatal(d)
		}
		for _, p := range got {
			r := p.Part.Run
			if !bytes.Equal(sealed[r.Pos:r.Pos+r.Len], want[p.ID]) || r.Size != int64(len(sealed)) || p.Part.Epoch != 2 ||
				r.Newest != 6 {
				t.Fatalf("piece %+v", p)
			}
		}
		if len(got) > 0 {
			content := open(t, sealed, objects.Pack)
			content[rapid.Int64Range(0, got[len(got)-1].Part.Run.Len).Draw(t, "damage")] ^= 1
			if _, err := DecodePack(content, n); !errors.Is(err, objects.ErrDamaged) {
				t.Fatalf("a damaged piece: %v", err)
			}
		}
	})
}

// What is not whole batches in order gets into no object.
func TestDamagedBatchesAreRefused(t *testing.T) {
	good := slices.Concat(batch(t, 10, 2, 30, 4, 5), batch(t, 14, 1, 40, 5, 6))
	alter := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	first := 12 + int(good[11]) // the length field of a short batch
	for what, b := range map[string][]byte{
		"nothing":                nil,
		"half a header":          good[:30],
		"half a batch":           good[:len(good)-1],
		"half a batch, one left": good[:first+70],
		"a changed record":       alter(70),
		"a changed header":       alter(30),
		"an offset below":        alter(first + 7)[first:],
		"a swap":                 slices.Concat(good[first:], good[:first]),
		"a batch twice":          slices.Concat(good, good[first:]),
		"zeros":                  append(bytes.Clone(good), make([]byte, 100)...),
		"a lower epoch":          slices.Concat(batch(t, 10, 2, 30, 5, 5), batch(t, 14, 1, 40, 4, 6)),
		"an offset above":        slices.Concat(good, batch(t, 20, 1, 1, 5, 5)),
	} {
		end := int64(16)
		if what == "an offset below" {
			b = slices.Concat(good[:first], b)
			b[first+7] = 11
		}
		err := (&Pack{}).Add(orders, 10, end, b)
		if !errors.Is(err, ErrBatches) {
			t.Errorf("a piece of %s: %v", what, err)
		}
		_, err = Build(Facts{ID: orders, Base: 10, End: end, Epochs: []epochs.Entry{{Epoch: 4, Start: 0}, {Epoch: 5, Start: 12}}},
			bytes.NewReader(b), int64(len(b)))
		if !errors.Is(err, ErrBatches) && !errors.Is(err, ErrContradiction) {
			t.Errorf("a log object of %s: %v", what, err)
		}
	}
	must.OK(t, (&Pack{}).Add(orders, 10, 16, good))
}

// A run has the largest timestamp of its batches, or -1 if none has one.
func TestRunsHaveTheLargestTimestamp(t *testing.T) {
	for _, c := range []struct{ first, second, newest int64 }{
		{1000, 900, 1000}, {0, 0, 0}, {-1, -1, -1}, {-1, 7, 7}, {5, math.MaxInt64, math.MaxInt64},
	} {
		b := slices.Concat(batch(t, 0, 1, 1, 0, c.first), batch(t, 1, 1, 1, 0, c.second))
		o, err := Build(Facts{ID: orders, End: 2, Epochs: []epochs.Entry{{}}}, bytes.NewReader(b), int64(len(b)))
		must.OK(t, err)
		footer := make([]byte, o.Size()-o.Log.Len)
		_, err = o.ReadAt(footer, o.Log.Len)
		must.OK(t, err)
		run := o.Run(nonce(1))
		l, err := openFooter(footer, orders, &run)
		must.OK(t, err)
		var pack Pack
		must.OK(t, pack.Add(orders, 0, 2, b))
		sealed, pieces := pack.Seal(nonce(2))
		decoded, err := DecodePack(open(t, sealed, objects.Pack), nonce(2))
		must.OK(t, err)
		manifest, err := (&Manifest{ID: orders, End: 2, Parts: []Part{Whole(run, 0)}}).Encode()
		must.OK(t, err)
		m, err := DecodeManifest(open(t, manifest, objects.Manifest))
		must.OK(t, err)
		for where, got := range map[string]int64{"run": run.Newest, "footer": l.MaxTimestamp, "piece": pieces[0].Part.Run.Newest,
			"decoded piece": decoded[0].Part.Run.Newest, "manifest": m.Parts[0].Run.Newest} {
			if got != c.newest {
				t.Errorf("%d and %d: the %s has %d", c.first, c.second, where, got)
			}
		}
	}
}

func FuzzManifest(f *testing.F) {
	fuzzDecoder(f, objects.Manifest, DecodeManifest, (*Manifest).Encode)
}

func FuzzIndex(f *testing.F) { fuzzDecoder(f, objects.Index, DecodeIndex, (*Index).Encode) }

// fuzzDecoder checks that what decode accepts can be encoded and is decoded as the same.
func fuzzDecoder[T any](f *testing.F, kind objects.Kind, decode func([]byte) (T, error), encode func(T) ([]byte, error)) {
	for _, sealed := range samples(f) {
		if content, _, err := objects.Open(sealed, kind, 1); err == nil {
			f.Add(content)
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		x, err := decode(content)
		if err != nil {
			return
		}
		sealed, err := encode(x)
		must.OK(t, err)
		again, err := decode(open(t, sealed, kind))
		must.OK(t, err)
		if d := same(x, again); d != "" {
			t.Error(d)
		}
	})
}

func FuzzPack(f *testing.F) {
	f.Add(open(f, samples(f)["pack"], objects.Pack))
	f.Fuzz(func(t *testing.T, content []byte) {
		list, err := DecodePack(content, nonce(1))
		if err != nil {
			return
		}
		pos := int64(0)
		for _, p := range list {
			if p.Part.Run.Pos != pos || p.Part.check() != nil {
				t.Errorf("piece %+v", p)
			}
			pos += p.Part.Run.Len
		}
	})
}

func FuzzFooter(f *testing.F) {
	b := samples(f)["log"]
	at := bytes.Index(b, []byte(footerMark))
	f.Add(b[at : len(b)-objects.TrailerSize-footerEnd])
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := parseFooter(b)
		if err != nil {
			return
		}
		encoded := l.appendFooter(nil)
		again, err := parseFooter(encoded[:len(encoded)-footerEnd])
		must.OK(t, err)
		if d := cmp.Diff(l, again); d != "" {
			t.Error(d)
		}
	})
}
