// Package controller changes the metadata of the cluster: topics, partitions,
// configs, producer-id blocks, registrations.
//
// Every operation is one transaction on a metadata.Store: it happens as a whole
// or not at all, whoever else writes at the same time. It reads, decides, and
// writes on the condition that what it read still holds; when it does not, it
// decides again, a bounded number of times. The revision that an operation
// returns is the Image version from which on it can be seen.
//
// A topic's name is free again as soon as the topic is deleted; its id never is.
// A tombstone stays until the logs are gone, and is what a start after a crash
// finishes a deletion from.
//
// Refusals are *Error with a Kind, in Kafka's words where Kafka has some; the
// broker maps kinds to protocol codes. Every other error is the store's, and
// tells nothing of whether the change was made. Handlers call this package, and
// the replica manager calls RaiseEpochs, AssignDirs and ForgetDeleted. It knows
// neither requests nor logs.
package controller
