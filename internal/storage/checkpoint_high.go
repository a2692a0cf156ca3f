package storage

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"path"

	"github.com/chronik-io/chronik/internal/storage/statefile"
)

// The checkpoint of an idle log may be hours old, and so is the high
// watermark in it. A replica that has just restarted cannot show records above that until the
// in-sync replicas have reported, which may never happen while an eligible replica is missing. So
// the owner of replicated logs saves their high watermarks every few seconds.
//
// The file is a cache like a producer snapshot: it is not synced, and a start that finds none, or a
// damaged one, uses the checkpoint. Each entry has the leader epoch of the last record below the
// high watermark. A log that has a record of this epoch at this offset has the same records up to
// there, so an entry never counts for other records than those that were committed.
//
// It is a state file of kind "high-watermarks". Per log, little endian: topic id 16, partition i32,
// high watermark i64, leader epoch in which the broker learned it i32, leader epoch of the last
// record below it i32.
const (
	// HighFile is the name of the file in a log directory.
	HighFile = "chronik.high"

	highKind, highVersion = "high-watermarks", 1
	highEntry             = 16 + 4 + 8 + 4 + 4
)

var highTable = crc64.MakeTable(crc64.ECMA)

// SaveHigh saves the high watermarks that the observers of the logs know, for the start after a
// crash. It does nothing if they are the same as in the previous call. It replaces what an earlier
// call saved, so the caller passes all replicated logs of the directory. It does not sync, but may
// wait for the disk. Calls must not be concurrent.
func (d *Dir) SaveHigh(logs []*Log) error {
	b := make([]byte, 0, len(logs)*highEntry)
	for _, l := range logs {
		offset, epoch := l.observer().High()
		if offset <= l.logStart.Load() {
			continue
		}
		last := l.EpochAt(offset - 1)
		if last < 0 {
			continue
		}
		b = append(b, l.id.Topic[:]...)
		b = binary.LittleEndian.AppendUint32(b, uint32(l.id.Partition))
		b = binary.LittleEndian.AppendUint64(b, uint64(offset))
		b = binary.LittleEndian.AppendUint32(b, uint32(epoch))
		b = binary.LittleEndian.AppendUint32(b, uint32(last))
	}
	sum := crc64.Checksum(b, highTable)
	if sum == d.savedHigh {
		return nil
	}
	name := path.Join(d.path, HighFile)
	err := statefile.WriteCache(d.opt.FS, name+".tmp", highKind, highVersion, b)
	if err == nil {
		err = d.opt.FS.Rename(name+".tmp", name) // a kill leaves the old file or the new one
	}
	if err != nil {
		return fmt.Errorf("save high watermarks of %s: %w", d.path, err)
	}
	d.savedHigh = sum
	return nil
}

// loadHigh raises the high watermarks of recovered logs to those that SaveHigh saved.
func (r *recovery) loadHigh() {
	b, err := statefile.Read(r.d.opt.FS, path.Join(r.d.path, HighFile), highKind, highVersion)
	if err != nil {
		return
	}
	for ; len(b) >= highEntry; b = b[highEntry:] {
		id := ID{Topic: [16]byte(b), Partition: int32(binary.LittleEndian.Uint32(b[16:]))}
		saved := recoveredHigh{int64(binary.LittleEndian.Uint64(b[20:])), int32(binary.LittleEndian.Uint32(b[28:]))}
		last := int32(binary.LittleEndian.Uint32(b[32:]))
		f := r.found[id]
		if f == nil || f.err != nil || saved.offset <= f.l.storedHigh.offset || saved.offset > f.l.logEnd.Load() {
			continue
		}
		if f.l.EpochAt(saved.offset-1) == last || r.d.opt.broken.has(anyHigh) {
			f.l.mu.Lock()
			f.l.storedHigh = saved
			f.l.mu.Unlock()
		}
	}
}
