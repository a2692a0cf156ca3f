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

// key names what is transferred as a whole: a chunk of a log object, its footer, or a manifest.
type key struct {
	nonce objects.Nonce
	chunk int // number of the chunk, or one of the constants above
}

// entry is what the cache has under a key. Its value never changes, so a reader may use it after
// the cache has dropped it.
type entry struct {
	key   key
	value any // []byte, *format.Log or *manifest
	size  int64
	ahead bool // no caller has asked for it yet
}

// entryBytes is about the memory of an entry without its value.
const entryBytes = 256

// cache holds the values that were used last, up to a number of bytes. The Reader's mu guards it.
type cache struct {
	limit, used int64
	ahead       int64      // bytes of entries that no caller has asked for yet
	order       *list.List // of *entry; the last used is the first
	of          map[key]*list.Element
}

func newCache(limit int64) cache {
	return cache{limit: limit, order: list.New(), of: make(map[key]*list.Element)}
}

// get returns the entry of a key, nil without one, and notes its use.
func (c *cache) get(k key) *entry {
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
	if at := c.of[k]; at != nil {
		return at.Value.(*entry)
	}
	return nil
}

// add adds an entry, and drops those that were not used for the longest time. It does not keep an
// entry that is larger than the cache.
func (c *cache) add(e *entry) {
	e.size += entryBytes
	if e.size > c.limit {
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

func (c *cache) drop(at *list.Element) {
	e := c.order.Remove(at).(*entry)
	delete(c.of, e.key)
	if c.used -= e.size; e.ahead {
		c.ahead -= e.size
	}
}
