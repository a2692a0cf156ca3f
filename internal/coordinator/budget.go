package coordinator

import "sync/atomic"

// MemoryBudget bounds the memory that clients make machines keep, such as the metadata of group
// members: it outlives the requests that carried it, and their connections. All shards of a broker
// share a MemoryBudget; its methods may be called concurrently.
type MemoryBudget struct {
	size int64
	used atomic.Int64
}

// NewMemoryBudget returns a budget of size bytes.
func NewMemoryBudget(size int64) *MemoryBudget { return &MemoryBudget{size: size} }

// Size returns the limit in bytes.
func (b *MemoryBudget) Size() int64 { return b.size }

// Used returns the number of bytes in use. Loads are never refused, so it may exceed Size.
func (b *MemoryBudget) Used() int64 { return b.used.Load() }

// shardShare limits one shard to a fraction of the budget, so that its clients can't exclude those
// of other shards.
const shardShare = 4

// ShardSize returns the limit of one shard in bytes.
func (b *MemoryBudget) ShardSize() int64 { return b.size / shardShare }

// Allows reports whether a shard that uses some bytes may use n more. Zero or fewer are always
// allowed.
func (b *MemoryBudget) Allows(shard int64, n int) bool {
	return n <= 0 || b.Used()+int64(n) <= b.size && shard+int64(n) <= b.ShardSize()
}

// keptShare limits what outlives its client for days, such as committed offsets, to a part of the
// budget. The rest is for what ends with its client, so that members can join in any case.
const keptShare = 3.0 / 4

// AllowsKept is Allows for what outlives its client for days.
func (b *MemoryBudget) AllowsKept(shard int64, n int) bool {
	most := int64(keptShare * float64(b.size))
	return n <= 0 || b.Used()+int64(n) <= most && shard+int64(n) <= most/shardShare
}

// Count adds n bytes, which may be negative, to those in use.
func (b *MemoryBudget) Count(n int64) { b.used.Add(n) }
