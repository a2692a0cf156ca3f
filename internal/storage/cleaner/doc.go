// Package cleaner decides what of a log goes: which parts retention takes and
// why, which segments a compaction reads, and what of a batch stays.
//
// It owns the rules and nothing else: no files, no clock, no locks. Storage asks
// it, reads and writes segments for it, and makes what it decides durable. It
// knows nothing of journals, checkpoints or requests.
package cleaner
