// Package group is the group coordinator as a pure state machine: classic groups,
// consumer groups (KIP-848), and committed offsets.
//
// It owns Shard, the coordinator.Machine of one partition of __consumer_offsets.
// It does no I/O, starts no goroutine, reads no clock and no randomness but what
// Config gives it: the same events at the same times make the same records.
//
// A group's state is of two kinds.
//
//   - Replicated: what records say. It changes in apply.go only, which runs when a
//     record is emitted and when one is read at load: a shard that is loaded anew
//     from what it emitted has the same replicated state.
//   - Volatile: who waits for an answer, timers, members of a classic group between
//     a join and the end of the rebalance. A reload forgets it; members find out by
//     the errors that they get, and join again.
//
// Errors are Kafka's, at Kafka's level. Requests come as kmsg types and are answered
// with kmsg types; the broker splits those that name several groups or coordinators,
// translates topic ids, and knows which topics exist. docs/groups.md has the design.
package group
