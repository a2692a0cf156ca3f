// Package deadletter copies the dead letters of share groups (KIP-1191) to their topics, each of
// them once. It implements shareleader.Letters.
//
// A copy and the mark that its record is archived are in two logs. What a leader has copied without
// storing the mark is therefore read from the topic of dead letters, where the copies of a share
// partition have a producer id of their own:
//
//   - Only one batch of copies is under way. The next one follows when the marks of its records are
//     stored. So the last batch of the producer id is the only one whose records may lack marks.
//   - A batch names the last one that its sender knows. The leader of the topic's partition accepts
//     it only if that is still the last one; otherwise it answers with the last one, and which
//     records that has. So neither a late or repeated request nor a former leader adds a copy that
//     the present one does not know of.
//   - What is not committed yet is not an answer: the sender asks again.
//   - A leader that knows none learns the last batch so. It believes the offsets below the end of
//     the leader epoch of the batch: those above it are of records that its log has lost.
//
// The producer id is made of the share partition and the identity of its stored state, and its
// epoch is the leader epoch. The log forgets it as it forgets other producers
// (producer.id.expiration.ms, a day), and with the topic.
//
// A Desk has both sides: a Copier for each share partition of its broker, and the requests of those
// of other brokers to the partitions that its broker leads. It does not know windows and states.
package deadletter
