// Package progress decides when replicated records are committed and who is in sync. It is the pure
// core of replication: no I/O, no goroutines, no locks, no clock and no logs.
//
// Leader holds what the leader of one partition knows in one leader epoch: the ends of each
// follower, the in-sync replicas (ISR), the eligible leader replicas (ELR, KIP-966) and its pending
// change of both. It returns the high watermark and the changes to propose. Follower holds the high
// watermark of a replica that follows. The functions Answer, Divergence and Truncate are the
// decisions of the handshake between the two.
//
// The caller serialises all calls, passes the time, carries proposals to the metadata store, and
// reports each metadata image. The walks of internal/testing/sim judge this package.
package progress
