package network

import "time"

// A client on the same machine, or as near, shares its processors with the broker and with other
// clients. It copies what its socket holds in one system call, which may be many megabytes. A
// kernel without preemption (PREEMPT_NONE, common on servers) runs nothing else on that processor
// meanwhile. So the broker keeps little in flight to such a client: with nearBuffer instead of the
// kernel's choice, the 99th percentile of small requests next to fetches of 50 MiB is a third, and
// the fetches are no slower (docs/performance-notes.md). To a client that is further away, a small
// buffer would limit the rate, so the kernel chooses.
const (
	// nearBuffer is the send buffer for a near client, in bytes. The kernel doubles it.
	nearBuffer = 100 << 10
	// nearTime is the largest round trip to a near client. In that time, a network with 10 Gbit/s
	// carries nearBuffer.
	nearTime = 80 * time.Microsecond
)
