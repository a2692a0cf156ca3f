package filestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/vfs"
)

// snapshotChunk is about how much of a snapshot one frame holds.
const snapshotChunk = 1 << 20

func snapshotName(dir string, generation uint64) string {
	return path.Join(dir, fmt.Sprintf("%016x.snapshot", generation))
}

func logName(dir string, generation uint64) string {
	return path.Join(dir, fmt.Sprintf("%016x.log", generation))
}

// parseName takes a file's name apart; kind is "snapshot", "log", "tmp", or
// empty for a file that is not the store's.
func parseName(name string) (generation uint64, kind string) {
	for suffix, k := range map[string]string{".snapshot": "snapshot", ".log": "log", ".snapshot.tmp": "tmp"} {
		if len(name) != 16+len(suffix) || name[16:] != suffix {
			continue
		}
		if _, err := fmt.Sscanf(name[:16], "%016x", &generation); err == nil && fmt.Sprintf("%016x", generation) == name[:16] {
			return generation, k
		}
	}
	return 0, ""
}

// begin writes a new generation that starts with the given state, and returns
// its open log and the size of its snapshot. When it returns, the generation is
// in force; after an error either the old or the new one is. See the package
// comment for the steps.
func begin(fsys vfs.FS, dir string, id identity, st *state) (vfs.File, int64, error) {
	log, err := newFile(fsys, logName(dir, id.generation), id.header(kindLog))
	if err != nil {
		return nil, 0, err
	}
	content := id.snapshot(st)
	if err = fsys.SyncDir(dir); err == nil {
		err = writeSnapshot(fsys, dir, id.generation, content)
	}
	if err != nil {
		_ = log.Close() // the first error tells more
		return nil, 0, fmt.Errorf("begin generation %d: %w", id.generation, err)
	}
	return log, int64(len(content)), nil
}

// writeSnapshot puts a snapshot in its place as a whole.
func writeSnapshot(fsys vfs.FS, dir string, generation uint64, content []byte) error {
	name := snapshotName(dir, generation)
	f, err := newFile(fsys, name+".tmp", content)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := fsys.Rename(name+".tmp", name); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// newFile creates a file with a content and syncs it. A file of that name is the
// remains of a generation that never came into force.
func newFile(fsys vfs.FS, name string, content []byte) (vfs.File, error) {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	f, err := fsys.Create(name)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = f.Datasync()
	}
	if err != nil {
		_ = f.Close() // the first error tells more
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return f, nil
}

// snapshot is the content of a snapshot file.
func (id identity) snapshot(st *state) []byte {
	p := id.header(kindSnapshot)
	var chunk []byte
	flush := func() {
		if len(chunk) > 0 {
			p = id.appendFrame(p, frame{kind: frameKeys, revision: st.revision, payload: chunk})
			chunk = chunk[:0]
		}
	}
	for _, kv := range st.sorted(func(string) bool { return true }) {
		if chunk = appendKey(chunk, kv); len(chunk) >= snapshotChunk {
			flush()
		}
	}
	flush()
	return id.appendFrame(p, frame{kind: frameEnd, revision: st.revision, payload: binary.AppendUvarint(nil, uint64(len(st.keys)))})
}

// readSnapshot is the inverse. Every fault is damage.
func readSnapshot(fsys vfs.FS, dir string, generation uint64) (identity, state, error) {
	name, st := snapshotName(dir, generation), newState()
	damaged := func(off int, what string) (identity, state, error) {
		return identity{}, st, &Damage{File: name, Offset: off, What: what}
	}
	p, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return identity{}, st, err
	}
	id, err := parseHeader(p, kindSnapshot)
	if errors.Is(err, ErrNewerFormat) {
		return id, st, fmt.Errorf("%s: %w", name, err)
	}
	if err != nil {
		return damaged(0, err.Error())
	}
	if id.generation != generation {
		return damaged(32, "of another generation")
	}
	for off := headerSize; ; {
		f, ok := id.parseFrame(p[off:])
		if !ok {
			return damaged(off, "no valid frame")
		}
		off += f.size()
		if f.kind == frameEnd {
			r := parser{p: f.payload}
			if r.uvarint() != uint64(len(st.keys)) || r.bad || len(r.p) > 0 || off != len(p) || f.revision < 0 {
				return damaged(off, "end does not match what is before it")
			}
			st.revision = f.revision
			return id, st, nil
		}
		kvs, err := parseKeys(f.payload)
		if f.kind != frameKeys || err != nil {
			return damaged(off-f.size(), "frame cannot be read")
		}
		st.load(kvs)
	}
}

// load takes in keys of a snapshot.
func (s *state) load(kvs []metadata.KV) {
	for _, kv := range kvs {
		s.bytes += size(kv) - size(s.keys[kv.Key])
		s.keys[kv.Key] = kv
	}
}

// compact begins a new generation with what is there. Transactions wait
// meanwhile: the state is small, and this is rare.
func (s *Store) compact() error {
	old := s.file
	s.id.generation++
	if err := s.begin(); err != nil {
		return err
	}
	if err := old.Close(); err != nil {
		s.opts.Log.Warn("close of a metadata log that is not needed any more", zap.String("file", old.Name()), zap.Error(err))
	}
	removeOlder(s.opts, s.id.generation)
	return nil
}

// removeOlder removes what a generation in force has made superfluous. What
// cannot be removed now is tried again with the next generation.
func removeOlder(opts Options, generation uint64) {
	list, err := opts.FS.List(opts.Dir)
	for _, info := range list {
		g, kind := parseName(info.Name)
		if kind == "" || g >= generation && kind != "tmp" {
			continue
		}
		if rerr := opts.FS.Remove(path.Join(opts.Dir, info.Name)); err == nil {
			err = rerr
		}
	}
	if err != nil {
		opts.Log.Warn("remove old metadata files", zap.String("dir", opts.Dir), zap.Error(err))
	}
}
