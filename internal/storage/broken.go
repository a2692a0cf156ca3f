package storage

// rule is a durability rule that a test can remove to prove that the model detects its absence.
// Only a build with the tag breakrules can remove rules.
type rule uint32

const (
	notDurable       rule = 1 << iota // bytes go to segments before the journal's datasync covers them
	earlyLSN                          // the recovery point claims frames that are only in memory and in the journal
	earlyRelease                      // journal files are released before the checkpoint is durable
	liveProducers                     // batches that may be rolled back push others out of the producer state
	silentCut                         // a truncation cuts files before a checkpoint holds the cut
	silentStart                       // segments are removed before the log start is durable
	forgetGone                        // the producers of records that never reached a segment are forgotten with the records
	forgetfulFail                     // records that only the failed segment held are not replayed
	forgetQuarantine                  // no checkpoint names the quarantined frames
	silentSwap                        // segments are swapped before a checkpoint names the swap
	eagerSwap                         // a swap counts as complete before its names are synced
	hastySwap                         // a compacted segment is renamed before it is synced
	forgetfulSwap                     // a checkpoint does not name the swap in progress
	forgetfulLSN                      // a start searches only the journal for the last LSN
)
