package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path"

	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A log directory's checkpoint, version 3, little endian:
//
//	sequence u64 | redo file u64 | redo LSN u64 | durable LSN u64 | directory id 16 | journal id 16 | logs u32, then per log:
//	topic id 16 | partition i32 | topic name u16+bytes | flags u8 | log start i64 | first dirty offset i64 | swap i64 | reason u16+bytes
//	| recovery point: offset i64, LSN u64, segments u32 × (base i64, size i64)
//	| leader epochs (epochs.Cache.Append) | producers u32 length + bytes (producers.State.Append)
//
//	flags: 2 deleted, 4 offline (reason says why),
//	8 aside (reason names the file that holds the frames beyond the recovery point), 16 swap (a start gives the segment
//	with base offset swap its place, where it is found as .log.swap, and removes what isn't listed below the recovery point)
//
// Writing it is how everything but batches is committed: the birth, the
// deletion, the truncation and the start of logs, what a
// compaction put in the place of segments, and the fate of a log that was found
// damaged.
//
// There are two files of the same content, since nothing else says what of the
// segments and of the journal counts. They are written together, and what a
// checkpoint commits is done only when both are durable. So either is one that a
// start may find: where the other is lost, it is put in its place by a repair. A
// start itself reads the first one only.
const (
	checkpointFile    = "checkpoint"
	checkpointCopy    = "checkpoint.copy"
	checkpointVersion = 3
)

// checkpoint is the decoded file.
type checkpoint struct {
	seq     uint64
	redo    journal.Position
	durable journal.LSN // every LSN up to it was durable when the checkpoint was written
	dirID   [16]byte
	journal [16]byte
	logs    []logCheckpoint
}

// above is greater than every LSN that the checkpoint speaks of. Recovery points
// name LSNs that were given and may be on no disk; a frame that got one of them
// again would count as superseded.
func (c *checkpoint) above() journal.LSN {
	n := max(c.durable+1, c.redo.LSN)
	for i := range c.logs {
		if l := &c.logs[i]; l.offline == "" {
			n = max(n, l.rp.lsn+1)
		}
	}
	return n
}

// logCheckpoint is what it says of one log.
type logCheckpoint struct {
	id        ID
	topic     string
	deleted   bool
	offline   string // why, "" if it is not; stays over starts
	aside     string // file in the directory with its frames beyond rp, "" if they are in the journal
	logStart  int64
	clean     int64 // below it everything was compacted
	swapping  bool  // a compacted segment is taking the place of others
	swap      int64 // its base offset
	rp        recoveryPoint
	epochs    epochs.Cache
	producers []byte
}

func (c *checkpoint) encode() []byte {
	le := binary.LittleEndian
	b := le.AppendUint64(make([]byte, 0, 256*(len(c.logs)+1)), c.seq)
	b = le.AppendUint64(b, c.redo.File)
	b = le.AppendUint64(b, uint64(c.redo.LSN))
	b = le.AppendUint64(b, uint64(c.durable))
	b = append(b, c.dirID[:]...)
	b = append(b, c.journal[:]...)
	b = le.AppendUint32(b, uint32(len(c.logs)))
	for i := range c.logs {
		b = c.logs[i].append(b)
	}
	return b
}

func (l *logCheckpoint) append(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, l.id.Topic[:]...)
	b = le.AppendUint32(b, uint32(l.id.Partition))
	b = le.AppendUint16(b, uint16(len(l.topic)))
	b = append(b, l.topic...)
	b = append(b, l.flags())
	b = le.AppendUint64(b, uint64(l.logStart))
	b = le.AppendUint64(b, uint64(l.clean))
	b = le.AppendUint64(b, uint64(l.swap))
	reason := l.offline
	if reason == "" {
		reason = l.aside
	}
	reason = reason[:min(len(reason), math.MaxUint16)]
	b = le.AppendUint16(b, uint16(len(reason)))
	b = append(b, reason...)
	b = le.AppendUint64(b, uint64(l.rp.offset))
	b = le.AppendUint64(b, uint64(l.rp.lsn))
	b = le.AppendUint32(b, uint32(len(l.rp.segments)))
	for _, s := range l.rp.segments {
		b = le.AppendUint64(b, uint64(s.base))
		b = le.AppendUint64(b, uint64(s.size))
	}
	b = l.epochs.Append(b, math.MaxInt64)
	b = le.AppendUint32(b, uint32(len(l.producers)))
	return append(b, l.producers...)
}

const (
	flagDeleted = 1 << 1
	flagOffline = 1 << 2
	flagAside   = 1 << 3
	flagSwap    = 1 << 4
)

func (l *logCheckpoint) flags() (f byte) {
	if l.deleted {
		f |= flagDeleted
	}
	if l.swapping {
		f |= flagSwap
	}
	if l.offline != "" {
		f |= flagOffline
	} else if l.aside != "" {
		f |= flagAside
	}
	return f
}

// cursor reads fixed-size fields; after the end everything is zero and short is set.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short, c.b = true, nil
		return make([]byte, min(max(n, 0), 16))
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) u8() uint8   { return c.take(1)[0] }
func (c *cursor) u16() uint16 { return binary.LittleEndian.Uint16(c.take(2)) }
func (c *cursor) u32() uint32 { return binary.LittleEndian.Uint32(c.take(4)) }
func (c *cursor) u64() uint64 { return binary.LittleEndian.Uint64(c.take(8)) }
func (c *cursor) i64() int64  { return int64(c.u64()) }
func (c *cursor) id() (id [16]byte) {
	copy(id[:], c.take(16))
	return id
}

var errShortCheckpoint = errors.New("checkpoint is cut short")

func decodeCheckpoint(b []byte) (*checkpoint, error) {
	r := cursor{b: b}
	c := &checkpoint{seq: r.u64()}
	c.redo = journal.Position{File: r.u64(), LSN: journal.LSN(r.u64())}
	c.durable = journal.LSN(r.u64())
	c.dirID, c.journal = r.id(), r.id()
	n := int(r.u32())
	for i := 0; i < n && !r.short; i++ {
		l, err := decodeLog(&r)
		if err != nil {
			return nil, err
		}
		c.logs = append(c.logs, l)
	}
	if r.short || len(r.b) > 0 {
		return nil, errShortCheckpoint
	}
	return c, nil
}

// loadCheckpoint reads a checkpoint's file, with the bytes that it was
// decoded from and their version.
func loadCheckpoint(fsys vfs.FS, name string) (c *checkpoint, b []byte, version int, err error) {
	if b, version, err = statefile.ReadVersion(fsys, name, "checkpoint", checkpointVersion); err != nil {
		return nil, nil, 0, err
	}
	if version < checkpointVersion {
		return nil, nil, 0, fmt.Errorf("%w: %s has version %d, which no release of chronik wrote; this program reads version %d", statefile.ErrCorrupt, name, version, checkpointVersion)
	}
	if c, err = decodeCheckpoint(b); err != nil {
		return nil, nil, 0, fmt.Errorf("%w: %s: %w", statefile.ErrCorrupt, name, err)
	}
	return c, b, version, nil
}

func decodeLog(r *cursor) (l logCheckpoint, err error) {
	l.id.Topic = r.id()
	l.id.Partition = int32(r.u32())
	l.topic = string(r.take(int(r.u16())))
	flags := r.u8()
	l.deleted, l.swapping = flags&flagDeleted != 0, flags&flagSwap != 0
	l.logStart, l.clean, l.swap = r.i64(), r.i64(), r.i64()
	reason := string(r.take(int(r.u16())))
	if flags&flagAside != 0 {
		l.aside = reason
	} else {
		l.offline = reason
	}
	l.rp.offset = r.i64()
	l.rp.lsn = journal.LSN(r.u64())
	n := int(r.u32())
	for i := 0; i < n && !r.short; i++ {
		l.rp.segments = append(l.rp.segments, extent{r.i64(), r.i64()})
	}
	if !r.short {
		if l.epochs, r.b, err = epochs.Decode(r.b); err != nil {
			return l, fmt.Errorf("checkpoint of %s-%d: %w", l.topic, l.id.Partition, err)
		}
	}
	l.producers = append([]byte(nil), r.take(int(r.u32()))...)
	return l, nil
}

// checkpoint makes the recovery points of all logs durable, with the redo
// pointer that they allow, and gives up the journal files before it. A caller
// that has just begun a fresh file names it.
//
// After an error the old or the new version may be on the disk: the caller must
// do nothing that is wrong under either.
func (d *Dir) checkpoint(fresh *journal.Position) error {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	unsure := d.unsure.Swap(false) // before the logs are collected: they are without those
	// First what has been told, then the logs: a frame that is told later has a
	// larger LSN than told.
	told := d.journal.Notified()
	c := checkpoint{seq: d.ckptSeq + 1, durable: min(told, d.journal.Durable()), dirID: d.ident.Dir, journal: d.ident.Journal}
	redo := told + 1
	logs, deleted := d.logsAndDeleted()
	for _, l := range logs {
		lc, oldest := l.checkpointed()
		redo = min(redo, oldest)
		c.logs = append(c.logs, lc)
	}
	c.logs = append(c.logs, d.tombstones(deleted, redo)...)
	if fresh != nil && redo >= fresh.LSN {
		c.redo = *fresh
	} else {
		c.redo = d.journal.Oldest(redo)
	}
	if d.opt.broken.has(earlyRelease) {
		d.journal.Release(c.redo)
	}
	if err := d.writeCheckpoint(&c); err != nil {
		if unsure {
			d.unsure.Store(true)
		}
		return err
	}
	d.journal.Release(c.redo)
	return nil
}

func (d *Dir) writeCheckpoint(c *checkpoint) error {
	if err := d.saveCheckpoint(checkpointVersion, c.encode()); err != nil {
		return err
	}
	d.ckptSeq = c.seq
	return nil
}

// saveCheckpoint makes an encoded checkpoint durable, twice.
func (d *Dir) saveCheckpoint(version int, b []byte) error {
	names := []string{path.Join(d.path, checkpointFile), path.Join(d.path, checkpointCopy)}
	if d.opt.broken.has(lazyCopy) && d.ckptSeq > 1 {
		names = names[:1]
	}
	return statefile.WriteAll(d.opt.FS, "checkpoint", version, b, names...)
}

// checkpointed returns what a checkpoint says of the log, and the LSN of the
// oldest frame that it still needs.
func (l *Log) checkpointed() (logCheckpoint, journal.LSN) {
	l.smu.Lock()
	defer l.smu.Unlock()
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.asFound != nil {
		return *l.asFound, math.MaxUint64
	}
	lc := logCheckpoint{id: l.id, topic: l.topic, logStart: l.logStart.Load(), rp: l.rp}
	lc.clean, lc.swapping, lc.swap = l.clean, l.swapMark && !l.dir.opt.broken.has(forgetfulSwap), l.swapBase
	var err error
	// Epochs that began above the recovery point come back with the frames.
	if lc.epochs, _, err = epochs.Decode(l.epochs.Append(nil, l.rp.offset+1)); err != nil {
		lc.epochs = epochs.Cache{} // can't be: it has just been encoded
	}
	lc.producers = l.producers.Append(nil, l.rp.offset)
	if l.aside != nil {
		lc.aside, lc.rp.lsn = l.aside.name, max(lc.rp.lsn, l.aside.lsn)
	}
	if l.dir.opt.broken.has(earlyLSN) {
		lc.rp.lsn = max(lc.rp.lsn, l.dir.journal.Notified())
	}
	return lc, l.oldestLocked()
}
