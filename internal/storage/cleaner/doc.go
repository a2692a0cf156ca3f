// Package cleaner decides what is removed from a log: which parts retention removes and why,
// which segments a compaction reads, and which records of a batch it keeps.
//
// It owns the rules and nothing else: no files, no clock, no locks. Retention never removes a part
// of a log before an older one. Package storage calls it, reads and writes segments for it, and
// makes its decisions durable. It knows nothing of journals, checkpoints or requests.
package cleaner
