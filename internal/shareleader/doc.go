// Package shareleader has what a partition's leader does for share groups (KIP-932): the share
// partitions whose data partitions this broker leads, and the share sessions of the members that
// fetch from them.
//
// A Partition loads the state that the share coordinator has stored, hands out records, applies
// acknowledgements, and sends the coordinator what has changed. What records are available is
// decided by package window; this package has its lock, its clock and its writes:
//
//	loading   peek, find where the recorded leader epoch ends in the log, open
//	ready     one write is under way at a time, and repeated until it is stored or refused
//	leaving   this broker no longer leads; what has changed is written, if no other leader has opened
//	ended     the next request makes another Partition if this broker leads
//
// A refused write leads from ready to loading: the memory is dropped, and the stored state loaded.
//
// A Session belongs to the connection that opened it. Its end releases what its member holds.
//
// Fetches that wait for a Partition stand in a queue. Only the first one has the turn to read and
// to take records, so that who waits longer is served earlier, and no two read the same records.
//
// It does not know requests and records, nor how share coordinators are reached.
//
// Locks: Session.mu before Partition.mu; Leader.mu is a leaf. Callbacks run without any of them.
package shareleader
