package tierread

import (
	"container/list"

	"github.com/chronik-io/chronik/internal/objects"
)

// The numbers of what an object has besides its chunks.
const (
	footerOf   = -1
	manifestOf = -2
	// anyOf stands for all that an object has.
	anyOf = -3
)

// key names what is transferred as a whole: a chunk of a log object, its footer, or a manifest; or
// several chunks that a batch needs.
type key struct {
	nonce objects.Nonce
	chunk int // number of the chunk, or one of the constants above
	last  int // number of the last one of several chunks; 0: it is one
}

// entry is what the cache has under a key. Its value never changes, so a reader may use it after
// the cache has dropped it.
type entry struct {
	key   key
	value any // []byte, [][]byte, *format.Log or *manifest
	size  int64
	ahead bool // no caller has asked for it yet
}

// entryBytes is about the memory of an entry without its value.
const entryBytes = 256

// cache holds the values that were used last, up to a number of bytes, and one larger than half of
// that until it is used: a batch that takes longer than its reader waits. The Reader's mu guards
// it.
type cache struct {
	limit, used int64
	ahead       int64      // bytes of entries that no caller has asked for yet
	order       *list.List // of *entry; the last used is the first
	of          map[key]*list.Element
	large       *entry
}

func newCache(limit int64) cache {
	return cache{limit: limit, order: list.New(), of: make(map[key]*list.Element)}
}

// get returns the entry of a key, nil without one, and notes its use.
func (c *cache) get(k key) *entry {
	if e := c.large; e != nil && e.key == k {
		c.large = nil
		return e
	}
	at := c.of[k]
	if at == nil {
		return nil
	}
	c.order.MoveToFront(at)
	e := at.Value.(*entry)
	if e.ahead {
		e.ahead = false
		c.ahead -= e.size
	}
	return e
}

// peek is get without the note.
func (c *cache) peek(k key) *entry {
	if e := c.large; e != nil && e.key == k {
		return e
	}
	if at := c.of[k]; at != nil {
		return at.Value.(*entry)
	}
	return nil
}

// add adds an entry, and drops those that were not used for the longest time.
func (c *cache) add(e *entry) {
	e.size += entryBytes
	if e.size > c.limit/2 {
		c.large = e
		return
	}
	if at := c.of[e.key]; at != nil {
		c.drop(at)
	}
	for c.used+e.size > c.limit {
		c.drop(c.order.Back())
	}
	c.of[e.key] = c.order.PushFront(e)
	if c.used += e.size; e.ahead {
		c.ahead += e.size
	}
}

// bytes returns the memory of all entries.
func (c *cache) bytes() int64 {
	if c.large != nil {
		return c.used + c.large.size
	}
	return c.used
}

func (c *cache) drop(at *list.Element) {
	e := c.order.Remove(at).(*entry)
	delete(c.of, e.key)
	if c.used -= e.size; e.ahead {
		c.ahead -= e.size
	}
}
