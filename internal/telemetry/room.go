package telemetry

import (
	"container/heap"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

// The bounds of what is kept.
const (
	maxClients = 4096
	maxSeries  = 10_000
	maxBytes   = 3 << 20 // of the labels of all series
	perClient  = 1000    // series
	maxText    = 256     // of a name or a label's value, in bytes
	// maxAttributes bounds the attributes of a value that have no label of their own. Kafka's
	// clients send one or two.
	maxAttributes = 16
	// perPush bounds the values of one push.
	perPush = 4 * perClient
	// seriesBytes is what a series takes besides its labels.
	seriesBytes = 64
	// recent is the number of pushes after which a series goes that none of them had. A client may
	// have no value at the moment of one push.
	recent = 3
)

// amounts are the clients, series and bytes that a client, a pusher or all pushers hold.
type amounts [3]int

const (
	clients = iota
	series
	labels // bytes of series
)

// size returns the amounts of a series.
func size(key *view.ClientSeries) amounts {
	return amounts{series: 1, labels: key.Bytes() + seriesBytes}
}

// expiries is a heap of clients, the one that expires first at its top.
type expiries []*client

func (x expiries) Len() int           { return len(x) }
func (x expiries) Less(i, j int) bool { return x[i].expires.Before(x[j].expires) }

func (x expiries) Swap(i, j int) {
	x[i], x[j] = x[j], x[i]
	x[i].at, x[j].at = i, j
}

// Push is heap.Interface's.
func (x *expiries) Push(e any) {
	e.(*client).at = len(*x)
	*x = append(*x, e.(*client))
}

// Pop is heap.Interface's.
func (x *expiries) Pop() any {
	end := len(*x) - 1
	e := (*x)[end]
	(*x)[end] = nil
	*x = (*x)[:end]
	return e
}

// add adds a client. Caller holds mu.
func (k *Keeper) add(c *Client) *client {
	if k.held[clients] >= maxClients {
		k.yield(clients, nil)
	}
	e := &client{of: *c, name: text([]byte(c.ID)), series: map[view.ClientSeries]*stored{}, share: k.pushers[c.pusher()]}
	if e.share == nil {
		e.share = &amounts{}
		k.pushers[c.pusher()] = e.share
	}
	k.clients[c.Instance] = e
	heap.Push(&k.byExpiry, e)
	k.count(e, amounts{clients: 1}, 1)
	return e
}

// drop forgets a client. Caller holds mu.
func (k *Keeper) drop(e *client) {
	heap.Remove(&k.byExpiry, e.at)
	delete(k.clients, e.of.Instance)
	k.count(e, e.held, -1)
	if e.share[clients] == 0 {
		delete(k.pushers, e.of.pusher())
	}
}

// expire drops clients that were silent for too long. Caller holds mu.
func (k *Keeper) expire(now time.Time) {
	for len(k.byExpiry) > 0 && !now.Before(k.byExpiry[0].expires) {
		k.drop(k.byExpiry[0])
	}
}

// count counts what a client gets (sign 1) or loses (-1). Caller holds mu.
func (k *Keeper) count(e *client, n amounts, sign int) {
	for what := range n {
		e.held[what] += sign * n[what]
		e.share[what] += sign * n[what]
		k.held[what] += sign * n[what]
	}
}

// remove removes a series of a client, if it is there. Caller holds mu.
func (k *Keeper) remove(e *client, key view.ClientSeries) {
	if e.series[key] != nil {
		delete(e.series, key)
		k.count(e, size(&key), -1)
	}
}

// sweep removes the series of a client that its last pushes did not have. Clients may leave out
// deltas of a counter that did not change, so sums of them go only if there is no room. Caller
// holds mu.
func (k *Keeper) sweep(e *client, sums bool) {
	for key, l := range e.series {
		if e.pushes-l.push >= recent && (sums || !l.delta) {
			k.remove(e, key)
			if l.delta {
				k.omitted++
			}
		}
	}
}

// room makes room for a series, and counts it. If there is none, the pusher's own sums go that
// recent pushes did not have, or the client's own if only its bound is reached. After the second
// refusal in a push it searches no longer, because a search visits all clients. Caller holds mu.
func (k *Keeper) room(e *client, key view.ClientSeries) bool {
	for ; e.refusals < 2; e.refusals++ {
		if k.fits(e, size(&key)) {
			k.count(e, size(&key), 1)
			return true
		}
		if e.refusals > 0 {
			continue
		}
		full := e.held[series] >= perClient
		for _, o := range k.byExpiry {
			if o == e || !full && o.share == e.share {
				k.sweep(o, true)
			}
		}
	}
	return false
}

// fits reports whether there is room for a series, after others have yielded. Caller holds mu.
func (k *Keeper) fits(e *client, n amounts) bool {
	if e.held[series] >= perClient {
		return false
	}
	for k.held[series]+n[series] > maxSeries {
		if !k.yield(series, e) {
			return false
		}
	}
	for k.held[labels]+n[labels] > maxBytes {
		if !k.yield(labels, e) {
			return false
		}
	}
	return true
}

// yield makes the pusher that holds most of what is short lose a client: of those that hold some of
// it, the one that expires first. It reports whether it did. For a series it does so only if the
// pusher that wants it holds less. Caller holds mu.
func (k *Keeper) yield(what int, wants *client) bool {
	var loses *client
	most := 0
	for _, e := range k.byExpiry {
		n := e.share[what]
		if e.held[what] > 0 && (n > most || n == most && e.expires.Before(loses.expires)) {
			loses, most = e, n
		}
	}
	if loses == nil || wants != nil && most <= wants.share[what] {
		return false
	}
	k.omitted += int64(loses.held[series])
	k.drop(loses)
	return true
}
