// Package host runs the coordinators of this broker whose state is in an internal topic:
// a coordinator.Runtime brought together with partitions and metadata.
//
// It owns the topic's place in the cluster: that it is created when a client first asks
// for a coordinator, that every partition which this broker leads has a shard, in the
// epoch of the partition's role, and that the shards hear of changes of metadata. Which
// topic, and what its records mean, is a Definition: groups have one, transactions and
// share groups will.
//
// The daemon subscribes Apply to the metadata after the partitions have their roles, and
// calls Close before connections are drained, since a request may wait for minutes. The
// package knows no requests.
package host
