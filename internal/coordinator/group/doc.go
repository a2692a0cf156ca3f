// Package group is the group coordinator as a pure state machine: classic groups, consumer groups
// (KIP-848), streams groups (KIP-1071), share groups (KIP-932), and committed offsets.
//
// It owns Shard, the coordinator.Machine of one partition of __consumer_offsets. A Shard does no
// I/O, starts no goroutine, reads no clock, and uses no randomness except Config.NewID: the same
// events at the same times make the same records.
//
// A group has two kinds of state.
//
//   - Replicated: the content of records. Only apply.go changes it, both when a record is emitted
//     and when one is loaded. A shard that loads the records it has emitted gets the same
//     replicated state.
//   - Volatile: waiting requests, timers, and members of a classic group between a join and the end
//     of the rebalance. A reload loses it; members then get errors and join again.
//
// Errors are Kafka's, at Kafka's level. Requests and responses are kmsg types. The broker splits
// requests for several groups or coordinators, translates topic ids, and knows which topics exist.
// docs/groups.md has the design.
package group
