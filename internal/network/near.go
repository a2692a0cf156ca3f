package network

import "time"

// A client on the same machine, or as near, shares its processors with the broker and with other
// clients. It copies what its socket holds in one system call, which may be many megabytes. A
// kernel without preemption (PREEMPT_NONE, common on servers) runs nothing else on that processor
// meanwhile. While other connections have requests, the broker therefore keeps little in flight to
// such a client: with a send buffer of nearBuffer, the 99th percentile of small requests next to
// fetches of 50 MiB is a sixth (docs/performance-notes.md). Otherwise, and for a client that is
// further away, a small buffer would only limit the rate.
const (
	// nearBuffer and wideBuffer are send buffers for a near client, in bytes. The kernel doubles
	// them, and bounds them by net.core.wmem_max. At first it chooses the size itself, which it
	// doesn't do again once it was set. With 48 KiB the rate falls to 0.3 GB/s: a packet on the
	// loopback interface has 64 KiB.
	nearBuffer = 64 << 10
	wideBuffer = 1 << 20
	// nearTime is the largest round trip to a near client: nearBuffer then allows 0.8 GB/s.
	nearTime = 80 * time.Microsecond
	// othersEvery is how often the requests of others are counted, and othersFrom how many of
	// them in that time share the processors. Heartbeats do not.
	othersEvery = 100 * time.Millisecond
	othersFrom  = 2
)

// traffic is what a connection knows of the others. It is owned by the writing role.
type traffic struct {
	at     time.Time // when it was counted last
	all    int64     // Server.arrived at that time
	own    int64     // the connection's part of it
	narrow bool      // the send buffer is nearBuffer
}

// shareProcessors sets the send buffer before a large answer. Caller has the writing role.
func (c *conn) shareProcessors() {
	now, k := time.Now(), &c.out.others
	passed := now.Sub(k.at)
	if passed < othersEvery {
		return
	}
	all, own := c.srv.arrived.Load(), c.out.taken
	others, first := all-k.all-(own-k.own), k.at.IsZero()
	k.at, k.all, k.own = now, all, own
	many := !first && others >= othersFrom*int64(passed/othersEvery)
	switch {
	case many && !k.narrow:
		k.narrow = setSendBuffer(below(c.sock.nc), nearBuffer, true)
	case !many && k.narrow:
		k.narrow = !setSendBuffer(below(c.sock.nc), wideBuffer, false)
	}
}
