// Package groups is the group coordinator of this broker: the pure coordinator
// brought together with partitions and metadata.
//
// It owns __consumer_offsets' place in the cluster: that the topic is made when
// somebody first asks for a coordinator, that every partition which this broker
// leads has a shard, in the epoch of the partition's role, and that the shards know
// the topics as they are now. What the records mean is coordinator/group's, how they
// are written coordinator/replicalog's.
//
// The daemon subscribes Apply to the metadata after the partitions have their roles,
// and calls Close before connections are drained, since a join may wait for minutes.
// Handlers call Submit and Ensure; the package knows no requests.
package groups
