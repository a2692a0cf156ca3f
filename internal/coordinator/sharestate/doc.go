// Package sharestate is the share coordinator as a pure state machine: it stores the states of
// share partitions (KIP-932).
//
// It owns Shard, the coordinator.Machine of one partition of __share_group_state. A Shard does no
// I/O, starts no goroutine and reads no clock. The records are Kafka's, so that Kafka's tools can
// read the topic.
//
//	          Initialize              Open                     Open by a later leader: cut, raise
//	(unknown) ──────────▶ initialised ────▶ opened by a leader ◀─┐
//	    ▲                      ▲               │      │   └──────┘
//	    │                      └── Initialize ─┘      │ Write, by that leader
//	    │                          with an offset     ▼
//	    └── Delete, or the topic is deleted ─── marks and start move forward
//
// The leader of a data partition has the share partition in memory (internal/sharegroup/window).
// It loads the state in two steps. Peek tells it the identity of the state, and the leader epoch
// that the state has; from that one it finds out where its log differs from that of the former
// leader. Open then raises the leader epoch, removes the marks of records that the log has lost,
// and decides where the group starts. These are one record. From then on the former leader can
// write nothing.
//
// These rules keep the states right. Messages may be late, lost or repeated, leaders may not know
// that they are no longer leaders, and the log may lose what is not committed:
//
//   - An answer waits until all records so far are committed. The runtime does this.
//   - A state has an identity: its state epoch, and the time of its creation, which is never the
//     same twice. Opens and writes name it.
//   - A write counts only in the recorded leader epoch. Only an open raises it, by a leader that
//     knows the recorded one.
//   - A write moves neither the start nor a mark back. One that would is refused, not ignored:
//     its leader has not stored what it believes, and loads again.
//   - An Initialize or a Delete counts only if its sender is the group coordinator of the metadata.
//     What a former one has sent may come when a later one has deleted the state and begun it
//     again. What a later one has sent waits for the metadata.
//   - A snapshot has the whole state, with the effect of the request that caused it.
//   - The log may be deleted only up to an offset above which every state has a snapshot.
//
// A mark is lower than another one if its delivery count is lower, or with equal counts its state,
// in the order available, acknowledged, archiving, archived. Offsets without a mark are available
// with the count 0.
//
// The package does not know requests, connections, or how leaders reach the coordinator.
// docs/share-groups.md has the design.
package sharestate
