package snapshots

import (
	"bytes"
	"iter"
	"os"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/restore"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// tiered is the partition of which a key of the metadata names old records.
var tiered = format.ID{Topic: topicA}

// copyTier puts old records of a partition as a Copier does, and lets the metadata name them.
func (w *world) copyTier() {
	w.t.Helper()
	p := w.peers[1]
	l := p.logs[metadata.TopicPartition{Topic: topicA}]
	q := format.Partition{ID: tiered, Parts: []format.Part{{End: l.end}}}
	must.OK(w.t, p.large(w.t.Context(), l, &q))
	x := metadata.Tier{Manifest: metadata.ID(q.Manifest), End: q.Archived, Generation: metadata.ID(w.meta.image().Generation())}
	w.meta.put(metadata.KV{Key: metadata.TierKey(metadata.TopicPartition{Topic: topicA}), Value: x.Encode()})
}

// compared lets the leader have compared the old records with its log since the metadata were
// recovered.
func (w *world) compared() {
	x := *w.meta.image().Tier(metadata.TopicPartition{Topic: topicA})
	x.Generation = metadata.ID(w.meta.image().Generation())
	w.meta.put(metadata.KV{Key: metadata.TierKey(metadata.TopicPartition{Topic: topicA}), Value: x.Encode()})
}

// read returns the batches of the parts of a partition.
func (w *world) read(p *format.Partition) (b []byte, err error) {
	parts := p.Parts
	if p.Manifest != (objects.Nonce{}) {
		m, err := format.ReadManifest(w.t.Context(), w.objects, prefix, p.ID, p.Manifest)
		if err != nil {
			return nil, err
		}
		all, err := m.All(w.t.Context(), w.objects, prefix)
		if err != nil {
			return nil, err
		}
		parts = slices.Concat(all, parts)
	}
	for i := range parts {
		if err := format.ReadPart(w.t.Context(), w.objects, prefix, p.ID, &parts[i], func(x []byte) error {
			b = append(b, x...)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// had returns the batches of a partition of [from, to).
func (w *world) had(id format.ID, from, to int64) (b []byte) {
	for _, p := range w.peers {
		if l := p.logs[metadata.TopicPartition{Topic: id.Topic, Partition: id.Partition}]; l != nil {
			b, _ = l.between(from, to)
		}
	}
	return b
}

// right reads a snapshot from the store alone. It returns why it cannot be restored, and fails the
// test if it has other records than the logs had.
func (w *world) right(number int64) error {
	w.t.Helper()
	x, err := restore.Find(w.t.Context(), w.objects, "", restore.Choice{Cluster: metadata.FormatID(cluster), Number: number})
	if err != nil {
		return err
	}
	if got, want := len(x.Index.Partitions), len(w.ends[number]); want > 0 && got != want {
		w.t.Errorf("snapshot %d has %d partitions, want %d", number, got, want)
	}
	for i := range x.Index.Partitions {
		p := &x.Index.Partitions[i]
		if want, known := w.ends[number][p.ID]; known && want != [2]int64{p.Start, p.End} {
			w.t.Errorf("snapshot %d has [%d, %d) of %v, the log had %v", number, p.Start, p.End, p.ID, want)
		}
		got, err := w.read(p)
		if err != nil {
			return err
		}
		if want := w.had(p.ID, p.Start, p.End); !bytes.HasSuffix(got, want) {
			w.t.Errorf("snapshot %d has other records of %v than the log", number, p.ID)
		}
	}
	return nil
}

// sound checks what a failure has left: every snapshot that the metadata names is right, unless the
// store has lied. Then the snapshot cannot be restored, and its verification notes it.
func (w *world) sound(c *faultstore.Case) {
	w.t.Helper()
	for _, number := range w.numbers() {
		wrong := w.right(number)
		verified := w.s.verify(w.t.Context(), 1, number)
		noted := w.meta.image().Snapshot(number).Damage != ""
		if wrong != nil && !c.Lies || (wrong != nil) != (verified != nil) || noted != (wrong != nil) {
			w.t.Errorf("%s: snapshot %d is read with %v, and verified with %v; noted: %t", c.What, number, wrong, verified, noted)
		}
	}
	x := w.meta.image().Tier(metadata.TopicPartition{Topic: topicA})
	got, err := w.read(&format.Partition{ID: tiered, Manifest: objects.Nonce(x.Manifest)})
	if err != nil || !bytes.Equal(got, w.had(tiered, 0, x.End)) {
		w.t.Errorf("%s: the old records are read with %v", c.What, err)
	}
}

// operations are those that a failure of the store interrupts.
var operations = map[string]struct {
	prepare func(w *world)
	run     func(w *world) error
}{
	"a snapshot":   {func(w *world) { w.s = New(w.opt) }, func(w *world) error { _, err := w.take(); return err }},
	"a collection": {func(w *world) {}, func(w *world) error { return w.s.collect(w.t.Context(), 1) }},
	"the first collection of recovered metadata": {func(w *world) {
		list := w.numbers()
		w.mustDelete(list[len(list)-1])
		w.meta.put(metadata.KV{Key: metadata.ClusterKey, Value: metadata.NewCluster(metadata.FormatID(cluster), [16]byte{4}).Encode()})
	}, func(w *world) error { return w.s.collect(w.t.Context(), 1) }},
}

// cases returns about half of the failures of the calls of an operation. make crash tries all.
func cases(t *testing.T) iter.Seq[*faultstore.Case] {
	if os.Getenv("CHRONIK_EVERY_CALL") != "" {
		return faultstore.EveryCall(t)
	}
	return faultstore.SomeCalls(t)
}

// Each call of the store fails in each way; see cases. After each, what the metadata names is
// right, or a verification notes that it is not. The operation succeeds when it is repeated, by
// another process if the first one was killed, and the next snapshot is right. Then a collection
// leaves only what is named.
func TestEveryCall(t *testing.T) {
	for what, op := range operations {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for c := range cases(t) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorldIn(t, c.Store, func(c *configdef.Archive) { c.Keep = 1000 })
					for _, p := range w.peers {
						p.pieces = 2
					}
					w.grow(5) // manifests with an older one, and pieces
					w.copyTier()
					w.mustCollect()
					w.copyTier() // what the key named before is unused
					w.append(2, 2)
					lost := w.objects.Add(faultstore.Rule{Ops: faultstore.Put, Name: prefix + "index/", Err: errDown})
					if _, err := w.take(); err == nil {
						t.Fatal("no error")
					}
					lost.Off()
					w.mustDelete(w.numbers()[:3]...)
					op.prepare(w)

					c.Begin()
					err := op.run(w)
					c.End()
					if c.Killed {
						w.s = New(w.opt)
					}
					w.sound(c)
					if err != nil {
						must.OK(t, op.run(w))
					}
					w.append(0, 1)
					if x := w.mustTake(); w.right(x.Number) != nil {
						t.Errorf("%s: the next snapshot: %v", c.What, w.right(x.Number))
					}
					for _, x := range w.meta.image().Snapshots() {
						if x.Damage != "" {
							w.mustDelete(x.Number)
						}
					}
					w.compared()
					w.mustCollect()
					w.mustCollect()
					for _, number := range w.numbers() {
						if err := w.right(number); err != nil {
							t.Errorf("%s, and collected: %v", c.What, err)
						}
					}
					w.onlyNamed()
				})
			}
		})
	}
}

// onlyNamed checks that the store has nothing that the metadata does not name.
func (w *world) onlyNamed() {
	w.t.Helper()
	kvs, _, err := w.meta.Range(w.t.Context(), metadata.SnapshotPrefix)
	must.OK(w.t, err)
	named, err := namedBy(w.t.Context(), w.objects, prefix, cluster, kvs)
	must.OK(w.t, err)
	tier := w.meta.image().Tier(metadata.TopicPartition{Topic: topicA})
	must.OK(w.t, addNamed(w.t.Context(), w.objects, prefix, &format.Partition{ID: tiered, Manifest: objects.Nonce(tier.Manifest)}, named))
	for _, name := range w.names() {
		if n, err := format.Parse(name); err != nil || !named[n.Nonce] {
			w.t.Errorf("nothing names %s, and two collections have left it", name)
		}
	}
}
