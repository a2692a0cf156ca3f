package metadata

import (
	"hash/maphash"
	"iter"
)

// shardCount bounds what one change copies: a table of this many pointers and one shard with
// 1/shardCount of the entries.
const shardCount = 256

// shards is an immutable map. A new version shares all shards that its edit has not touched.
type shards[K comparable, V any] struct {
	table *[shardCount]map[K]V
	n     int
}

// shardSeed is random, so that clients can't choose names that all fall into one shard.
var shardSeed = maphash.MakeSeed()

func shardOf[K comparable](k K) int { return int(maphash.Comparable(shardSeed, k) % shardCount) }

func (s shards[K, V]) get(k K) (v V, ok bool) {
	if s.table == nil {
		return v, false
	}
	v, ok = s.table[shardOf(k)][k]
	return v, ok
}

func (s shards[K, V]) len() int { return s.n }

// all iterates over the entries in no order.
func (s shards[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if s.table == nil {
			return
		}
		for _, m := range s.table {
			for k, v := range m {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// keys iterates over the keys in no order.
func (s shards[K, V]) keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		s.all()(func(k K, _ V) bool { return yield(k) })
	}
}

// values iterates over the values in no order.
func (s shards[K, V]) values() iter.Seq[V] {
	return func(yield func(V) bool) {
		s.all()(func(_ K, v V) bool { return yield(v) })
	}
}

// changed iterates over the keys that only one of two versions has, or whose values differ.
func changed[K comparable, V any](prev, next shards[K, V], same func(a, b V) bool) iter.Seq[K] {
	return func(yield func(K) bool) {
		for k, n := range next.all() {
			if p, ok := prev.get(k); (!ok || !same(p, n)) && !yield(k) {
				return
			}
		}
		for k := range prev.all() {
			if _, ok := next.get(k); !ok && !yield(k) {
				return
			}
		}
	}
}

// some reports whether there is a key.
func some[K any](keys iter.Seq[K]) bool {
	for range keys {
		return true
	}
	return false
}

// edit starts a new version.
func (s shards[K, V]) edit() *shardsEdit[K, V] { return &shardsEdit[K, V]{base: s} }

// shardsEdit collects changes. It copies each shard at most once, and the table only if something
// changes. It must be used by one goroutine.
type shardsEdit[K comparable, V any] struct {
	base shards[K, V]
	next *[shardCount]map[K]V
	own  [shardCount]bool
	n    int
}

func (e *shardsEdit[K, V]) shard(k K) map[K]V {
	if e.next == nil {
		e.next, e.n = new([shardCount]map[K]V), e.base.n
		if e.base.table != nil {
			*e.next = *e.base.table
		}
	}
	i := shardOf(k)
	if !e.own[i] {
		fresh := make(map[K]V, len(e.next[i])+1)
		for k, v := range e.next[i] {
			fresh[k] = v
		}
		e.next[i], e.own[i] = fresh, true
	}
	return e.next[i]
}

func (e *shardsEdit[K, V]) set(k K, v V) {
	m := e.shard(k)
	if _, ok := m[k]; !ok {
		e.n++
	}
	m[k] = v
}

func (e *shardsEdit[K, V]) delete(k K) {
	m := e.shard(k)
	if _, ok := m[k]; ok {
		e.n--
	}
	delete(m, k)
}

// done returns the new version.
func (e *shardsEdit[K, V]) done() shards[K, V] {
	if e.next == nil {
		return e.base
	}
	return shards[K, V]{table: e.next, n: e.n}
}
