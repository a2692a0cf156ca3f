// Package stream copies logs from leaders to followers.
//
// A follower has one connection to each broker that leads one of its partitions. It subscribes to
// its partitions there, each under a slot, a number that is never used again on the connection. The
// leader then pushes what is appended, before its own journal writes it. It reads that from the
// log's memory at the moment of writing, so nothing is queued or copied for a follower. What is not
// in memory any longer is read from the disk by one goroutine for each connection. The package
// knows neither the metadata nor sockets: package replica says whom to follow, and its caller
// connects.
//
//	follower                            leader
//	SB position ──────────────────────▶ compares the two logs (progress.Answer)
//	◀─────────────────────────────── VD the stream begins | truncate and ask again | start again at
//	◀─────────────────────────────── VD after the first of these: where what was committed before ends
//	◀─────────────────────────────── PR before the last of these: the producers below
//	◀─────────────────────────────── DA batches, high watermark, log start
//	AK written and durable end ───────▶ progress: high watermark, ISR
//	◀─────────────────────────────── HW high watermark and log start, without batches
//	◀─────────────────────────────── SY the follower syncs although the profile does not ask for it
//	LS durable log start ─────────────▶ DeleteRecords waits for it
//	US ◀──────────────────────────────▶ the slot ends; the follower subscribes again
//	OF the replica is offline ────────▶ the slot ends, until the replica can follow again
//
// # Rules
//
// A follower subscribes when its log has the role of a follower in the leader epoch (so that what
// was queued before is refused), and when the log has accepted or refused everything before. A
// frame is appended only if it begins at the log end, has the slot's leader epoch, and each batch
// passes its checksum. Otherwise the slot ends, and the follower subscribes again.
//
// A follower truncates to where the last common epoch ends (KIP-101, KIP-279), but never below its
// high watermark, unless an unclean election has discarded committed records. Then the replica
// stops instead.
//
// # Limits
//
// The leader sends at most Options.Window bytes, and the rest of the last frame, that no follower
// has written, on each connection; batches read from the disk take at most a quarter. A follower
// holds at most Options.FollowBytes that its logs have not accepted. When these are used up, or
// half of them by one directory, it drops frames and ends their slots, so a disk that hangs does
// not delay the partitions on others.
//
// The state of producers counts in neither. A leader has 1 MiB of it and that of one more log ahead
// of what it sends, and one part of it goes before the data of a write. A follower holds it until
// the directory's goroutine has emptied the log.
//
// # Goroutines and locks
//
// A connection has a reader, the writing role of package link, and at the leader a goroutine that
// reads the disk and asks logs for their producers. A follower's reader commits the frames that
// arrived together in one groupcommit batch; with one log directory it also writes, syncs and
// acknowledges a small group itself, so that a lone record wakes no further goroutine. Truncations
// and log starts run on a goroutine for each directory.
//
// Lock order: Streams.mu, outgoing.mu, part.mu, follower.mu, ring.mu. Methods of
// replica.Partition that take its lock are called without any of them, since they call the Tail.
package stream
