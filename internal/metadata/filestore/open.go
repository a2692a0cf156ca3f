package filestore

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/statelog"
)

var _ metadata.Store = (*Store)(nil)

// format describes the store's files.
var format = statelog.Format{Name: "metadata", Magic: "chronikm", Version: 1}

// Open opens the store in a directory, creates an empty one if there is none, and starts its
// committer. After ErrDamaged or ErrNewerFormat, nothing was changed. The caller must make sure
// that no other process uses the directory.
func Open(opts Options) (*Store, error) {
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.CopyPatience <= 0 {
		opts.CopyPatience = copyPatience
	}
	s := &Store{
		opts: opts, queue: make(chan *request, queueLength), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := s.recover(); err != nil {
		return nil, fmt.Errorf("open metadata in %s: %w", opts.Dir, err)
	}
	go s.run()
	return s, nil
}

// recover restores the state and opens the log for appending.
func (s *Store) recover() error {
	state := kv.NewState()
	log, content, err := statelog.Open(statelog.Options{
		FS: s.opts.FS, Dir: s.opts.Dir, Format: format, CompactBytes: s.opts.CompactBytes, Log: s.opts.Log,
	}, reader{state})
	if err != nil {
		return err
	}
	state.SetRevision(int64(content.Sequence))
	s.log, s.view = log, kv.NewView(state, s.opts.History, s.stop)
	if err := log.Rotate(s.emit()); err != nil {
		_ = log.Close() // nothing was written
		return err
	}
	return nil
}
