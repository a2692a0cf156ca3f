// Package tier copies records of the logs that this broker leads to the object store, so that their
// local disks need not keep them, and removes there what retention removes.
//
// What the store has of a partition is one range [Start, End) of its log. A manifest in the store
// lists its parts, and a key of the metadata names the manifest (metadata.Tier). Only the leader
// writes that key, and only if nothing that it relies on has changed since: the key itself, the
// record of the partition in which it leads, and the collection that it knew before it put the
// first object.
//
//	compare   once in each leader epoch: what an election has undone is cut off
//	retain    moves Start, as retention.ms and retention.bytes say
//	copy      adds objects: of 64 MiB as soon as 80 MiB wait, and of what is left of a segment when
//	          that is full
//
// Only committed records are copied that are durable on this broker and in no open transaction. The
// local log keeps what is not copied (replica.Partition.Copied). Package tierread reads.
//
// It does not know how a store is opened, and deletes no object: the collection of unused objects
// does.
package tier
