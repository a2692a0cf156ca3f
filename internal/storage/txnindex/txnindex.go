// Package txnindex is the index of aborted transactions of a segment, in Kafka's format: the file
// with the suffix .txnindex has an entry for each abort marker of the segment, in the order of the
// markers.
//
// A reader of committed records gets batches that belong to transactions which are over, and with
// them the list of the aborted ones, whose records it skips. The package encodes, decodes and
// searches entries; it knows no files. The caller knows how many entries a segment has: the format
// has neither a count nor a checksum, and entries that are missing at the end would show aborted
// records.
package txnindex

import (
	"encoding/binary"
	"fmt"
)

// Entry is an aborted transaction.
type Entry struct {
	Producer int64
	// First is the offset of its first record, and Last that of its marker.
	First, Last int64
	// Stable is the last stable offset after the marker, as far as the log's own transactions
	// determine it: no transaction with a later marker has a record below it. A search ends there.
	Stable int64
}

// Size is the size of an encoded entry in bytes.
const Size = 2 + 4*8

const version = 0

// Append encodes an entry, big endian: version i16, producer i64, first i64, last i64, stable i64.
func (e *Entry) Append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint16(b, version)
	b = be.AppendUint64(b, uint64(e.Producer))
	b = be.AppendUint64(b, uint64(e.First))
	b = be.AppendUint64(b, uint64(e.Last))
	return be.AppendUint64(b, uint64(e.Stable))
}

// Decode returns the first n entries of a file. It fails if there are fewer, or if they cannot be
// the index of one segment: then the index must be rebuilt from the segment's batches.
func Decode(b []byte, n int) ([]Entry, error) {
	if n < 0 || len(b)/Size < n {
		return nil, fmt.Errorf("transaction index has %d bytes, %d entries are needed", len(b), n)
	}
	be := binary.BigEndian
	entries := make([]Entry, 0, n)
	for i := range n {
		p := b[i*Size:]
		if v := be.Uint16(p); v != version {
			return nil, fmt.Errorf("entry %d of a transaction index has version %d, known is %d", i, v, version)
		}
		e := Entry{Producer: int64(be.Uint64(p[2:])), First: int64(be.Uint64(p[10:])), Last: int64(be.Uint64(p[18:])),
			Stable: int64(be.Uint64(p[26:]))}
		if e.Producer < 0 || e.First < 0 || e.Last < e.First || e.Stable > e.Last+1 || i > 0 && e.Last <= entries[i-1].Last {
			return nil, fmt.Errorf("entry %d of a transaction index is impossible: %+v", i, e)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Search appends to found the transactions with records in [from, limit), in the order of their
// markers. entries are those of one segment. It reports whether the indexes of later segments must
// be searched, too: a transaction with records below limit may end there.
func Search(found, entries []Entry, from, limit int64) (_ []Entry, more bool) {
	for i := range entries {
		e := &entries[i]
		if e.Last >= from && e.First < limit {
			found = append(found, *e)
		}
		if e.Stable >= limit {
			return found, false
		}
	}
	return found, true
}
