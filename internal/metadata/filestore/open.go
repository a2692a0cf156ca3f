package filestore

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/vfs"
)

var _ metadata.Store = (*Store)(nil)

// Open opens the store in a directory, making an empty one where there is none,
// and starts its committer. ErrDamaged, ErrNewerFormat: nothing was changed. The
// caller sees to it that no other process has the directory.
func Open(opts Options) (*Store, error) {
	if opts.CompactBytes <= 0 {
		opts.CompactBytes = defaultCompactBytes
	}
	if opts.History <= 0 {
		opts.History = defaultHistory
	}
	s := &Store{
		opts: opts, queue: make(chan *request, queueLength), stop: make(chan struct{}), ended: make(chan struct{}),
		moved: make(chan struct{}), history: history{limit: opts.History},
	}
	if err := s.recover(); err != nil {
		return nil, fmt.Errorf("open metadata in %s: %w", opts.Dir, err)
	}
	go s.run()
	return s, nil
}

// recover brings back the state and a log to append to.
func (s *Store) recover() error {
	found, err := survey(s.opts.FS, s.opts.Dir)
	if err != nil {
		return err
	}
	if !found.any {
		return s.create()
	}
	s.id, s.state, err = readSnapshot(s.opts.FS, s.opts.Dir, found.newest)
	if err != nil {
		return err
	}
	if _, err := replay(s.opts.FS, s.opts.Dir, s.id, &s.state); err != nil {
		return err
	}
	// What was read may be in the page cache only, and reading it proves nothing
	// about the disk: write it again, somewhere else.
	s.id.generation++
	if err := s.begin(); err != nil {
		return err
	}
	removeOlder(s.opts, s.id.generation)
	return nil
}

// begin makes the generation of s.id from the state.
func (s *Store) begin() error {
	log, floor, err := begin(s.opts.FS, s.opts.Dir, s.id, &s.state)
	if err != nil {
		return err
	}
	s.file, s.floor, s.end = log, floor, headerSize
	return nil
}

// create makes the first generation of an empty store.
func (s *Store) create() error {
	if err := s.opts.FS.MkdirAll(s.opts.Dir); err != nil {
		return err
	}
	if err := s.opts.FS.SyncDir(path.Dir(s.opts.Dir)); err != nil {
		return err
	}
	s.state = newState()
	s.id.generation = 1
	if _, err := rand.Read(s.id.store[:]); err != nil {
		return err
	}
	return s.begin()
}

// inventory is what a directory holds.
type inventory struct {
	any    bool
	newest uint64 // generation of the newest snapshot
}

// survey looks for the generation in force. A log of a later one is the remains
// of one that never came into force; transactions in it mean that its snapshot
// is lost.
func survey(fsys vfs.FS, dir string) (inventory, error) {
	var inv inventory
	list, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return inv, nil
	}
	if err != nil {
		return inv, err
	}
	for _, info := range list {
		if g, kind := parseName(info.Name); kind == "snapshot" {
			inv.any, inv.newest = true, max(inv.newest, g)
		}
	}
	for _, info := range list {
		g, kind := parseName(info.Name)
		if kind != "log" || inv.any && g <= inv.newest {
			continue
		}
		p, err := vfs.ReadFile(fsys, logName(dir, g))
		if err != nil {
			return inv, err
		}
		if len(p) > headerSize {
			return inv, &Damage{File: snapshotName(dir, g), What: fmt.Sprintf("the file is missing, and %s has transactions", logName(dir, g)), Lost: true}
		}
	}
	return inv, nil
}

// replay applies a log to the state of its snapshot and returns how many bytes at
// its end are none of it: a frame that was torn.
func replay(fsys vfs.FS, dir string, id identity, st *state) (torn int, err error) {
	name := logName(dir, id.generation)
	damaged := func(off int, what string) (int, error) { return 0, &Damage{File: name, Offset: off, What: what} }
	p, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, &Damage{File: name, What: "the file is missing", Lost: true}
	}
	if err != nil {
		return 0, err
	}
	have, err := parseHeader(p, kindLog)
	if errors.Is(err, ErrNewerFormat) {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if err != nil {
		return damaged(0, err.Error())
	}
	if have != id {
		return damaged(16, "of another store or generation")
	}
	for off := headerSize; off < len(p); {
		f, ok := id.parseFrame(p[off:])
		if !ok {
			if next := id.findFrame(p, off+1); next >= 0 {
				return damaged(off, fmt.Sprintf("no valid frame, but one at offset %d", next))
			}
			return len(p) - off, nil // torn: nothing from here on was ever synced as a whole
		}
		if what := st.replay(f); what != "" {
			return damaged(off, what)
		}
		off += f.size()
		if f.kind == frameClosed && off < len(p) {
			return damaged(off, "more behind the mark of a clean stop")
		}
	}
	return 0, nil
}

// findFrame looks for a valid frame at or behind an offset; -1 for none.
func (id identity) findFrame(p []byte, off int) int {
	for off < len(p) {
		i := bytes.Index(p[off:], []byte(frameMagic))
		if i < 0 {
			return -1
		}
		if _, ok := id.parseFrame(p[off+i:]); ok {
			return off + i
		}
		off += i + 1
	}
	return -1
}

// replay applies one frame of a log and says what is wrong with it, empty for
// nothing.
func (s *state) replay(f frame) string {
	switch f.kind {
	case frameClosed:
		if f.revision != s.revision || len(f.payload) > 0 {
			return "the mark of a clean stop is of another revision"
		}
		return ""
	case frameTxns:
		txns, err := parseTxns(f.payload)
		if err != nil {
			return err.Error()
		}
		if f.revision != s.revision+int64(len(txns)) {
			return fmt.Sprintf("revision %d, with %d transactions after %d", f.revision, len(txns), s.revision)
		}
		for _, t := range txns {
			s.apply(t)
		}
		return ""
	}
	return fmt.Sprintf("unknown frame of kind %d", f.kind)
}
