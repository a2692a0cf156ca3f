package storage

import (
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

// rule is a durability rule that a test can remove to prove that the model detects its absence.
// See package breakrules.
type rule uint64

const (
	notDurable          rule = 1 << iota // bytes go to segments before the journal's datasync covers them
	earlyLSN                             // the recovery point claims frames that are only in memory and in the journal
	earlyRelease                         // journal files are released before the checkpoint is durable
	liveProducers                        // batches that may be rolled back push others out of the producer state
	skipCutCommit                        // a truncation cuts files before a checkpoint holds the cut
	skipStartCommit                      // segments are removed before the log start is durable
	forgetProducers                      // the producers of records that never reached a segment are forgotten with the records
	skipReplay                           // records that only the failed segment held are not replayed
	skipQuarantineEntry                  // no checkpoint names the quarantined frames
	skipSwapCommit                       // segments are swapped before a checkpoint names the swap
	skipSwapSync                         // a swap counts as complete before its names are synced
	skipCompactedSync                    // a compacted segment is renamed before it is synced
	skipSwapEntry                        // a checkpoint does not name the swap in progress
	lateMark                             // a profile acknowledges written records before a checkpoint says so
	trustFailedSync                      // a kill after a failed sync counts as harmless
	anyHigh                              // a saved high watermark counts for any records
	skipCheckpointLSN                    // a start searches only the journal for the last LSN
	skipPrevEnd                          // an append from a leader may begin beyond the log end
	skipFence                            // an append of any leader epoch and role is accepted
	moveAnyStart                         // a log changes for a leader that was replaced
	skipHold                             // a leader continues in an epoch whose records it has discarded
	skipGaps                             // the epoch of a gap is not stored
	skipLeader                           // a log that follows applies retention itself
	aheadTransactions                    // a checkpoint stores the transactions at the end of the segments
	unsyncedSnapshots                    // a roll does not sync the producer snapshot of a log with transactions
	liveStable                           // a marker counts before it is below the high watermark
	markersWait                          // markers wait for memory that the records of clients use up
	retainOpen                           // retention removes records of open transactions
	skipKeptSnapshot                     // the first segment that stays may have no producer snapshot
	uncountedIndex                       // a start trusts any index of aborted transactions
	segmentsFirst                        // a list of aborted transactions is read from the segments before the memory
	edgesOnly                            // a change of a log's state does not wake what frees memory
	pinMemory                            // a log that cannot be repaired holds the memory, and others wait for it
	topicNames                           // a deleted directory is named after its topic
	abortedTwice                         // what both the segments and the memory have is twice in the list
	unboundedDebt                        // a log with many segments to write accepts more appends
	skipMoved                            // a sweep moves the redo pointer past logs that it has not committed
	forgetDamage                         // a checkpoint does not have the damage that reads found
	trustHeaders                         // what no checksum of a batch covers is not compared with what the log knows
	skipTombstones                       // a sweep moves the redo pointer past deletions that are not committed
	keepEpochs                           // a recovery keeps the epochs that begin at or after a frame
	skipMoveSync                         // a move is committed before the copy is synced
	skipMoveCommit                       // the target of a move takes the log over before the source's tombstone is durable
	skipMoveMark                         // a start does not complete a move that was committed
	looseHolds                           // compaction and deletions change a log that a reader holds
	endsOffline                          // the ends of a log that is offline count
	keepCompacted                        // a log counts as whole although it truncates what its compaction relied on
)

// broken names the rules that a test has removed.
type broken struct {
	rules   breakrules.Removed[rule]
	journal journal.Broken
}

func (b broken) has(r rule) bool { return b.rules.Has(r) }
