package storage

// rule is one of the rules that tests take away to see whether the model misses it. Only a build
// with the tag breakrules can.
type rule uint32

const (
	notDurable       rule = 1 << iota // bytes go to segments before the journal's datasync covers them
	earlyLSN                          // the recovery point claims frames that are only in memory and in the journal
	earlyRelease                      // journal files are given up before the checkpoint is durable
	liveProducers                     // batches that may be taken back push others out of the producer state
	silentCut                         // a truncation cuts files before a checkpoint says so
	silentStart                       // segments are removed before the log's start is durable
	forgetGone                        // the producers of records that never came to a segment are forgotten with them
	forgetfulFail                     // what a failed segment should have held is not written anew
	forgetQuarantine                  // no checkpoint names the frames that were kept aside
	silentSwap                        // segments are swapped before a checkpoint says so
	eagerSwap                         // a swap counts as finished before its names are synced
	hastySwap                         // a compacted segment is given its name before it is synced
	forgetfulSwap                     // a checkpoint doesn't say that a swap is under way
	forgetfulLSN                      // a start looks for the last LSN in the journal only
)
