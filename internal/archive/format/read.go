package format

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// OpenLog reads the footer of the log object that a run of the partition id is in, and verifies it.
// s has the objects of the cluster below prefix.
func OpenLog(ctx context.Context, s objects.Store, prefix string, id ID, run *Run) (*Log, error) {
	name := prefix + run.Name(id)
	b := make([]byte, run.Size-run.Len)
	if err := get(ctx, s, name, run.Len, b); err != nil {
		return nil, err
	}
	l, err := openFooter(b, id, run)
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", name, err)
	}
	return l, nil
}

// get is Store.Get for bytes that the object must have.
func get(ctx context.Context, s objects.Store, name string, off int64, p []byte) error {
	n, err := s.Get(ctx, name, off, p)
	if n == len(p) && (err == nil || errors.Is(err, io.EOF)) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("read object %s: %w: it ends at %d and not at %d", name, objects.ErrDamaged, off+int64(n), off+int64(len(p)))
	}
	return fmt.Errorf("read object %s: %w", name, err)
}

// openFooter decodes footer and trailer, which are the bytes of the object from run.Len on.
func openFooter(b []byte, id ID, run *Run) (*Log, error) {
	t, err := objects.ParseTrailer(b, objects.Log, logVersion)
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-objects.TrailerSize]
	if t.Length != run.Len+int64(len(b)) || len(b) < footerEnd {
		return nil, fmt.Errorf("%w: it has %d bytes of content instead of %d", objects.ErrDamaged, t.Length, run.Len+int64(len(b)))
	}
	le := binary.LittleEndian
	fields, end := b[:len(b)-footerEnd], b[len(b)-footerEnd:]
	if int(le.Uint32(end)) != len(fields) || le.Uint32(end[4:]) != crc32.Checksum(b[:len(b)-4], castagnoli) {
		return nil, fmt.Errorf("%w: its footer does not match its checksum", objects.ErrDamaged)
	}
	l, err := parseFooter(fields)
	if err != nil {
		return nil, err
	}
	if !l.Has(id, run) {
		return nil, fmt.Errorf("%w: it is another object: %x-%d [%d, %d)", objects.ErrDamaged, l.ID.Topic, l.ID.Partition, l.Base, l.End)
	}
	return l, nil
}

// Has reports whether l is the footer of the object of a run of the partition id.
func (l *Log) Has(id ID, run *Run) bool {
	return l.ID == id && l.Base == run.Base && l.End == run.End && l.Len == run.Len && l.Sum == run.Sum &&
		l.MaxTimestamp == run.Newest && l.FirstAborted() == run.FirstAborted
}

// ReadChunk reads the bytes of a chunk into p, which has ChunkSize bytes, and verifies them. Chunk
// i begins at position i*ChunkSize of the object name.
func (l *Log) ReadChunk(ctx context.Context, s objects.Store, name string, i int, p []byte) ([]byte, error) {
	if i < 0 || i >= len(l.Chunks) {
		return nil, fmt.Errorf("object %s has %d chunks, and not chunk %d", name, len(l.Chunks), i)
	}
	at := int64(i) * ChunkSize
	p = p[:min(ChunkSize, l.Len-at)]
	if err := get(ctx, s, name, at, p); err != nil {
		return nil, err
	}
	if crc32.Checksum(p, castagnoli) != l.Chunks[i] {
		return nil, fmt.Errorf("read object %s: %w: chunk %d does not match its checksum", name, objects.ErrDamaged, i)
	}
	return p, nil
}

// ReadPart passes the batches of a part to each, ChunkSize bytes at a time or fewer; each must not
// keep them. Only bytes that match their checksum are passed. It reads the chunks of a log object
// that the part needs, and holds one. A piece of a pack is read and held as a whole.
func ReadPart(ctx context.Context, s objects.Store, prefix string, id ID, part *Part, each func([]byte) error) error {
	if part.Run.Kind == objects.Log {
		return readChunks(ctx, s, prefix, id, part, each)
	}
	run := &part.Run
	name := prefix + run.Name(id)
	b := make([]byte, run.Len)
	for at := int64(0); at < run.Len; at += ChunkSize {
		if err := get(ctx, s, name, run.Pos+at, b[at:min(at+ChunkSize, run.Len)]); err != nil {
			return err
		}
	}
	if crc32.Checksum(b, castagnoli) != run.Sum {
		return fmt.Errorf("read object %s: %w: the batches [%d, %d) do not match their checksum", name, objects.ErrDamaged, run.Base,
			run.End)
	}
	for b = b[part.From:part.To]; len(b) > 0; b = b[min(ChunkSize, len(b)):] {
		if err := each(b[:min(ChunkSize, len(b))]); err != nil {
			return err
		}
	}
	return nil
}

// readChunks is ReadPart for a log object.
func readChunks(ctx context.Context, s objects.Store, prefix string, id ID, part *Part, each func([]byte) error) error {
	l, err := OpenLog(ctx, s, prefix, id, &part.Run)
	if err != nil {
		return err
	}
	name, b := prefix+part.Run.Name(id), make([]byte, min(ChunkSize, part.Run.Len))
	for i := part.From / ChunkSize; i*ChunkSize < part.To; i++ {
		p, err := l.ReadChunk(ctx, s, name, int(i), b)
		if err != nil {
			return err
		}
		from, to := max(part.From-i*ChunkSize, 0), min(part.To-i*ChunkSize, int64(len(p)))
		if err := each(p[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// Epochs returns the leader epochs of parts that follow each other in log objects. It reads the
// footers of those that may begin with another epoch than they end with: each part has the epoch of
// its last record.
func Epochs(ctx context.Context, s objects.Store, prefix string, id ID, parts []Part) (all epochs.Cache, err error) {
	for i := range parts {
		p := &parts[i]
		if i > 0 && p.Epoch == parts[i-1].Epoch {
			continue
		}
		l, err := OpenLog(ctx, s, prefix, id, &p.Run)
		if err != nil {
			return all, err
		}
		own, err := epochs.Of(l.Epochs)
		if err != nil {
			return all, fmt.Errorf("%w: %w", ErrContradiction, err)
		}
		of := own.Within(p.Base, p.End)
		for _, e := range of.Entries() {
			all.Assign(e.Epoch, e.Start)
		}
	}
	return all, nil
}
