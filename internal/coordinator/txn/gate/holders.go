package gate

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/replica"
)

// Client is who sent a request.
type Client struct {
	ID      string
	Address fmt.Stringer
}

// Holder is who began a transaction in a partition.
type Holder struct{ TransactionalID, ClientID, Address string }

// holding is a Holder, and whether its transaction has an epoch of its own (Producer.Bumps).
type holding struct {
	Holder
	bumps bool
}

const (
	// maxHolders bounds the transactions of a shard whose holders are known, at about 200 bytes
	// each. Beyond, a quarter of them is forgotten.
	maxHolders = 2048
	// A shard looks for transactions that have ended when it knows twice as many holders as were
	// left the last time, but not below minHolders.
	minHolders = 64
)

// holders has the holders of transactions, of those that are open and of some that have ended. It
// is guarded by the lock of its shard.
type holders struct {
	of    map[key]holding
	sweep int // the number of holders above which ended transactions are removed
}

// add notes who began a transaction.
func (h *holders) add(k key, from Producer, by Client) {
	if h.of == nil {
		h.of, h.sweep = map[key]holding{}, minHolders
	}
	who := holding{Holder{TransactionalID: from.TransactionalID, ClientID: by.ID}, from.Bumps}
	if by.Address != nil {
		who.Address = by.Address.String()
	}
	h.of[k] = who
	if len(h.of) <= h.sweep {
		return
	}
	for old := range h.of {
		if old != k && !old.held() {
			delete(h.of, old)
		}
	}
	for old := range h.of {
		if len(h.of) <= maxHolders*3/4 {
			break
		}
		delete(h.of, old)
	}
	h.sweep = min(max(minHolders, 2*len(h.of)), maxHolders)
}

// allow reports whether the open transaction of a producer epoch, if there is one, is proof enough
// that its batch belongs to it. Otherwise the coordinator decides:
//
//   - if the producer id is that of another transactional id, as far as the gate knows: it never
//     becomes that of another one;
//   - if the leader is to add the partition, and it is unknown whether it has done so for the open
//     transaction. Without an epoch for each transaction, the open one may be that before, whose
//     marker is on its way: a client that adds partitions itself has been told to wait. One that
//     begins to leave that to the leader has not asked.
func (h *holders) allow(k key, from Producer) bool {
	who, ok := h.of[k]
	return (!ok || who.TransactionalID == from.TransactionalID) && (!from.Bumps || who.bumps)
}

// held reports whether the producer may have an open transaction in a partition that still exists.
func (k key) held() bool {
	p, ok := k.partition.Log().Producer(k.id)
	leader, _ := k.partition.Leader()
	return ok && p.First >= 0 && leader >= 0
}

// Holder returns who began the open transaction of a producer in a partition. False: no transaction
// is open, or this broker does not know: it has started or become the leader since.
func (g *Gate) Holder(p *replica.Partition, producer int64) (Holder, bool) {
	s, k := g.shard(producer), key{p, producer}
	if at, ok := p.Log().Producer(producer); !ok || at.First < 0 {
		return Holder{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	who, ok := s.holders.of[k]
	return who.Holder, ok
}
