package metadata

import (
	"bytes"
	"cmp"
	"iter"
	"math"

	"github.com/chronik-io/chronik/internal/sorts"
)

// Tier is what the object store has of a partition's log: its beginning. The replicas have the
// rest, and perhaps a part of it. It is immutable.
type Tier struct {
	// Manifest is the nonce in the name of the manifest that lists the parts of [Start, End); zero:
	// there are none, and Start is End.
	Manifest ID `json:"manifest"`
	// Start is where the log begins, if it is below End. The first part may begin below it.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Bytes are those of the batches in the parts.
	Bytes int64 `json:"bytes"`
	// Epochs are the leader epochs of [Start, End): the first may begin below Start. There are at
	// most MaxTierEpochs, the latest ones.
	Epochs []EpochStart `json:"epochs,omitempty"`
	// Generation is that of the metadata in which the leader has compared its log with this copy.
	// Metadata of another generation were recovered from an older state: the store may have more.
	Generation ID `json:"generation"`
	// Epoch is the leader epoch in which the leader has compared its log with this copy, or a later
	// one that began cleanly. If an unclean election has begun a later one, the copy may have
	// records that it has undone.
	Epoch int32 `json:"epoch"`
	// Revision is the revision that last changed it.
	Revision int64 `json:"-"`
}

// EpochStart is a leader epoch and the offset at which it begins.
type EpochStart struct {
	Epoch int32 `json:"e"`
	Start int64 `json:"s"`
}

// MaxTierEpochs bounds the leader epochs of a Tier: 1000 elections with records.
const MaxTierEpochs = 1000

type tierJSON struct {
	header
	Tier
}

// Encode returns the value of TierKey.
func (t *Tier) Encode() []byte { return encode(tierJSON{header: current, Tier: *t}) }

// DecodeTier is the inverse of Tier.Encode. A missing key is the zero value.
func DecodeTier(kv KV) (Tier, error) {
	if kv.ModRevision == 0 {
		return Tier{}, nil
	}
	w, err := decode[tierJSON](kv)
	if err != nil {
		return Tier{}, err
	}
	t := w.Tier
	none := t.Manifest == ID{}
	if t.Epoch < 0 || t.Start < 0 || t.End < t.Start || t.Bytes < 0 || none != (t.Start == t.End) || len(t.Epochs) > MaxTierEpochs {
		return Tier{}, invalid(kv, "its range or its size can't be right")
	}
	last := EpochStart{Epoch: -1, Start: math.MinInt64}
	for _, e := range t.Epochs {
		if e.Epoch <= last.Epoch || e.Start < last.Start || e.Start >= t.End {
			return Tier{}, invalid(kv, "its leader epochs are not in order")
		}
		last = e
	}
	t.Revision = kv.ModRevision
	return t, nil
}

// Tier returns what the object store has of a partition's log, nil if it has none of it.
func (m *Image) Tier(tp TopicPartition) *Tier {
	t, _ := m.tiers.get(tp)
	return t
}

// Tiers iterates over all partitions that have a Tier, in no order.
func (m *Image) Tiers() iter.Seq2[TopicPartition, *Tier] { return m.tiers.all() }

func compareTopicPartitions(a, b TopicPartition) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
}

func sameTier(a, b *Tier) bool { return a.Revision == b.Revision }

// putTier adds or changes a Tier.
func (b *builder) putTier(tp TopicPartition, kv KV) error {
	t, err := DecodeTier(kv)
	if err != nil {
		return err
	}
	b.tiers.set(tp, &t)
	b.delta.Tiers = append(b.delta.Tiers, tp)
	return nil
}

// removeTier removes a Tier; a missing one is no change.
func (b *builder) removeTier(tp TopicPartition) {
	if b.tiers.shard(tp)[tp] != nil {
		b.tiers.delete(tp)
		b.delta.Tiers = append(b.delta.Tiers, tp)
	}
}

func (d *Delta) sortTiers() { sorts.Sort(d.Tiers, compareTopicPartitions) }

// TierChange is a change of what the object store has of a partition, by its leader. It is refused
// unless everything that the leader's decision depends on is as the leader saw it.
type TierChange struct {
	TopicPartition
	// Next is the new Tier; nil: the key is removed.
	Next *Tier
	// Was is the revision of the Tier before, 0 if there was none. Record is that of the
	// partition's record, in which the broker leads.
	Was, Record int64
	// Collection is that of the last collection which the leader knew before it put the first
	// object that Next names and the Tier before did not: a later one may delete that. Negative:
	// there is no such object.
	Collection int64
}

// Empty reports whether the store has nothing. A nil Tier is empty.
func (t *Tier) Empty() bool { return t == nil || t.Start == t.End }

// From returns a copy that begins at an offset, or later if t does.
func (t *Tier) From(start int64) Tier {
	next := *t
	next.Start = max(start, t.Start)
	if next.Start >= t.End {
		return Tier{Start: next.Start, End: next.Start, Generation: t.Generation, Epoch: t.Epoch}
	}
	n := 0
	for n+1 < len(t.Epochs) && t.Epochs[n+1].Start <= next.Start {
		n++
	}
	next.Epochs = t.Epochs[n:]
	return next
}
