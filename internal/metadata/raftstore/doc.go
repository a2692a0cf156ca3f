// Package raftstore keeps metadata on several nodes: a metadata.Store whose transactions are
// entries of a raft log.
//
// It owns a directory and is the only package that knows the raft library (go.etcd.io/raft). The
// library decides on votes, replication and commitment; this package stores, sends and applies. It
// does not interpret keys, and reaches other members only through Peers. Every broker is a member:
// a voter or a learner. All of them hold the whole state.
//
// # Transactions
//
// Get, Range and Watch read this member's state. Txn travels to the leader, which puts the
// transactions that arrive together into one entry. Each member decides each transaction when it
// applies the entry (package kv), so that all have the same revisions and outcomes. The leader
// answers after it has applied the entry. A conflict names the revision that decided it: a caller
// on another member waits for that revision before it reads again.
//
// # Durability
//
// The loop handles the output of the library in one order: entries and hard state in one frame with
// one fdatasync, then messages, then what is committed. No vote and no acknowledgment leaves before
// it is durable. The write is in the loop on purpose: a leader whose disk hangs sends no heartbeats
// and is replaced.
//
// When the log has grown, another goroutine writes the snapshot of the next generation, and the
// loop appends to its log meanwhile (statelog.Begin). Only these snapshots are written in the loop:
// the first one of a start, the one after a failure, and the one that a leader sent. A member
// handles no messages in these states anyway, or, in the last one, cannot be needed for a majority
// before it has the state.
//
// internal/statelog writes the files; its package comment lists the effects of a crash. Records:
//
//	snapshot  'm' generation, 16 bytes, member, index, term, revision, members (ConfState of the
//	          library, as protobuf); 'k' for each key (kv.AppendKV); 'h' and 'e' as in the log, for
//	          what is not applied yet
//	log       'e' index term type data: replaces this entry and all after it
//	          'h' term vote commit
//
// Numbers are uvarints, bytes follow their length. The members after a change are not recorded: the
// change is an entry and is applied again. Data of an entry:
//
//	version u8, sequence u64 of the leader, big endian, { length, kv.AppendTxn }
//
// # States of a member
//
//	empty      Open made the directory and a random member id. It votes for any candidate that asks,
//	           and takes the snapshot that a leader sends.
//	member     it has a state, from Bootstrap or from a snapshot.
//	failed     a write or sync failed. It handles no message and its time stands still, so that it
//	           neither votes nor acknowledges nor sends heartbeats (I5). It tries, with growing
//	           pauses, to write all that it has in memory into a new generation, and then continues.
//	broken     a message contradicts what was applied here, or the library found its state
//	           inconsistent. Options.Fatal ends the process.
//
// The only voter leads as soon as its directory is open. It counts as confirmed without asking, and
// while it has no learner either, it has no use for time: its loop sleeps until there is something
// to do. Sole names the time for which no other member can have been elected.
//
// # Failures
//
//	a member's directory is lost   It comes back with another member id and can't vote twice in a
//	                               term. Replace gives it the vote of its former self.
//	a directory is put back from   It has forgotten votes and acknowledgments. This is not detected
//	a copy                         in every case and must not be done: empty the directory instead.
//	no majority answers            Reads continue; Txn returns ErrUnavailable after Patience.
//	the leader is cut off          It steps down after an election timeout. Transactions that it had
//	                               proposed return ErrUnknown: the next leader may commit them.
//	a leader is new                Leadership.Ready is false until it has applied an entry of its
//	                               own term; the controller waits for that. LeaderTxn names the
//	                               term, so that a deposed controller changes nothing.
//	a member is far behind         It gets the state in pieces of 256 KiB instead of old entries.
//	metadata was restored          Another generation: every header has it, other ones are refused.
//
// # Memory
//
// The state, 8 MiB of applied entries, at most 64 MiB of entries that are not committed, 64 MiB of
// received messages, and on a receiving member the state that a snapshot brings. While a snapshot
// is written or sent, a list of the keys (some 60 bytes for each) and the values that change.
package raftstore
