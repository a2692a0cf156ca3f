// Package txnindex is the index of aborted transactions of a segment, in Kafka's format: the file
// with the suffix .txnindex has an entry for each abort marker of the segment, in the order of the
// markers.
//
// A reader of committed records gets batches that belong to transactions which are over, and with
// them the list of the aborted ones, whose records it skips. The package encodes, decodes and
// searches entries; it knows no files. The format has neither a count nor a checksum, and entries
// that are missing at the end would show aborted records. So the caller stores a Mark elsewhere:
// Decode returns exactly the entries of the Mark, or an error.
package txnindex

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sort"

	"github.com/chronik-io/chronik/internal/sorts"
)

// Mark is what must be known of an index to trust it: the number of its entries, and their
// checksum. The zero value is the mark of an index without entries, which needs no file.
type Mark struct {
	// Count is the number of entries; Unknown: the index must be built from the segment's batches.
	Count uint32
	// Sum is the CRC-32C of the encoded entries.
	Sum uint32
}

// Unknown is the Count of an index that must be built from the batches.
const Unknown = math.MaxUint32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MarkOf returns the mark of an index with these entries.
func MarkOf(entries []Entry) (m Mark) {
	m.Add(Encode(nil, entries), len(entries))
	return m
}

// Add adds n encoded entries at the end of the index.
func (m *Mark) Add(encoded []byte, n int) {
	m.Count += uint32(n)
	m.Sum = crc32.Update(m.Sum, castagnoli, encoded)
}

// Known reports whether the mark covers the entries of the index.
func (m Mark) Known() bool { return m.Count != Unknown }

// Bytes returns the size of the index's file; 0 if it is unknown.
func (m Mark) Bytes() int64 {
	if !m.Known() {
		return 0
	}
	return int64(m.Count) * Size
}

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

// Encode appends encoded entries to b.
func Encode(b []byte, entries []Entry) []byte {
	for i := range entries {
		b = entries[i].Append(b)
	}
	return b
}

// Decode returns the entries that the mark describes, which are the first of a file. It fails if
// the file lacks them or has others: then the index must be built from the segment's batches.
func Decode(b []byte, m Mark) ([]Entry, error) {
	if !m.Known() {
		return nil, fmt.Errorf("transaction index has %d bytes, and the number of its entries is unknown", len(b))
	}
	if int64(len(b)) < m.Bytes() {
		return nil, fmt.Errorf("transaction index has %d bytes, %d entries are needed", len(b), m.Count)
	}
	b = b[:m.Bytes()]
	if got := crc32.Checksum(b, castagnoli); got != m.Sum {
		return nil, fmt.Errorf("transaction index with %d entries has checksum %08x, %08x is needed", m.Count, got, m.Sum)
	}
	return decode(b)
}

// Parse decodes whatever entries a file has, for tools. It stops at the first that is impossible.
func Parse(b []byte) ([]Entry, error) {
	entries, err := decode(b[:len(b)/Size*Size])
	if rest := len(b) % Size; err == nil && rest != 0 {
		err = fmt.Errorf("transaction index ends with %d bytes that are no entry", rest)
	}
	return entries, err
}

func decode(b []byte) ([]Entry, error) {
	be := binary.BigEndian
	entries := make([]Entry, 0, len(b)/Size)
	for i := 0; len(b) > 0; i, b = i+1, b[Size:] {
		if v := be.Uint16(b); v != version {
			return entries, fmt.Errorf("entry %d of a transaction index has version %d, known is %d", i, v, version)
		}
		e := Entry{Producer: int64(be.Uint64(b[2:])), First: int64(be.Uint64(b[10:])), Last: int64(be.Uint64(b[18:])),
			Stable: int64(be.Uint64(b[26:]))}
		if e.Producer < 0 || e.First < 0 || e.Last < e.First || e.Stable > e.Last+1 || i > 0 && e.Last <= entries[i-1].Last {
			return entries, fmt.Errorf("entry %d of a transaction index is impossible: %+v", i, e)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Search appends to found the transactions with records in [from, limit), in the order of their
// markers. entries are those of one segment. It reports whether the indexes of later segments must
// be searched, too: a transaction with records below limit may end there.
func Search(found, entries []Entry, from, limit int64) (_ []Entry, more bool) {
	at := sort.Search(len(entries), func(i int) bool { return entries[i].Last >= from })
	for i := at; i < len(entries); i++ {
		e := &entries[i]
		if e.First < limit {
			found = append(found, *e)
		}
		if e.Stable >= limit {
			return found, false
		}
	}
	return found, true
}

// Once returns entries of several lists in the order of their markers, each once: the first of
// those with the same marker stays.
func Once(list []Entry) []Entry {
	sorts.SortStable(list, func(a, b Entry) int { return cmp.Compare(a.Last, b.Last) })
	return slices.CompactFunc(list, func(a, b Entry) bool { return a.Last == b.Last })
}
