// Package controller changes the metadata of the cluster: topics, partitions, configs, producer-id
// blocks, registrations.
//
// Every operation is one transaction on a metadata.Store, so it happens as a whole or not at all.
// It reads, decides, and writes under the condition that its reads are still valid. After a
// conflict it starts again, a bounded number of times. The revision that an operation returns is
// the first Image version that shows its result.
//
// A topic's name can be reused as soon as the topic is deleted; its id is never reused. A tombstone
// stays until the logs are removed. After a crash, the broker completes the deletion from it.
//
// In a cluster, the part called Loop runs on the node that leads the metadata quorum. It registers
// brokers, ends their sessions, drains them, and elects leaders. Package election has the decisions
// about one record.
//
// Refusals are *Error with a Kind, in Kafka's words if Kafka has some; the broker maps kinds to
// protocol codes. Any other error comes from the store, and the change may or may not have been
// made. Handlers call this package, and the replica manager calls RaiseEpochs, AssignDirs and
// ForgetDeleted. The package knows neither requests nor logs.
package controller
