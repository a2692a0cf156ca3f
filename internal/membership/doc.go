// Package membership makes this broker a member of a cluster: it forms or joins the cluster,
// registers the broker, sends its heartbeats and holds its lease.
//
// The package owns the questions that brokers ask each other for this (State, Join, Register,
// Heartbeat) and the decisions that follow from the answers, which are pure functions. It does not
// own the connections (internal/link), the metadata (internal/metadata/raftstore), or the decisions
// about other brokers (internal/controller).
//
// # Forming a cluster
//
// A node without metadata asks all its seeds for their State until Decide finds one of these:
//
//   - A seed has a cluster: the node joins it as a learner. A member of cluster.seeds is promoted
//     to a voter when it has caught up.
//   - All seeds answered, none has a cluster, and all have seen the same members: each of them
//     writes the same first snapshot. The cluster id is derived from the members, so no node has to
//     propose it.
//   - The node itself has the metadata of a broker without a cluster, and no seed has a cluster: it
//     becomes the first member, as the only voter, and keeps its cluster id. The others join it.
//   - The answers contradict each other: the start ends with the cause and a remedy.
//
// A majority of the seeds is not enough, because a seed that is down may have an existing cluster.
//
// # Failures
//
// A seed that loses its directory between two answers returns as another member. The others then
// see other members, and wait until all have seen the new one. If one seed has formed the cluster
// before, the new member joins it.
package membership
