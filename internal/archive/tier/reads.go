package tier

import (
	"context"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/tierread"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// Reads reads what the metadata name. It implements replica.Tiers.
type Reads struct{ *tierread.Reader }

func copyOf(tp metadata.TopicPartition, t *metadata.Tier) *tierread.Copy {
	return &tierread.Copy{ID: format.ID{Topic: tp.Topic, Partition: tp.Partition}, Manifest: objects.Nonce(t.Manifest), Start: t.Start,
		End: t.End}
}

// Read implements replica.Tiers.
func (r Reads) Read(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier, offset, limit int64, max int, atLeastOne bool) (
	storage.Slice, error) {
	return r.Reader.Read(ctx, copyOf(tp, t), offset, limit, max, atLeastOne)
}

// Aborted implements replica.Tiers.
func (r Reads) Aborted(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier, from, limit int64) (
	list []txnindex.Entry, more bool, err error) {
	return r.Reader.Aborted(ctx, copyOf(tp, t), from, limit)
}

// FindTime implements replica.Tiers.
func (r Reads) FindTime(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier, ts int64) (storage.Timestamp, error) {
	return r.Reader.FindTime(ctx, copyOf(tp, t), ts)
}

// MaxTime implements replica.Tiers.
func (r Reads) MaxTime(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier) (storage.Timestamp, error) {
	return r.Reader.MaxTime(ctx, copyOf(tp, t))
}
