package filestore

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/statelog"
)

var _ metadata.Store = (*Store)(nil)

// format is that of the store's files.
var format = statelog.Format{Name: "metadata", Magic: "chronikm", Version: 1}

// Open opens the store in a directory, making an empty one where there is none,
// and starts its committer. ErrDamaged, ErrNewerFormat: nothing was changed. The
// caller sees to it that no other process has the directory.
func Open(opts Options) (*Store, error) {
	if opts.History <= 0 {
		opts.History = defaultHistory
	}
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.CopyPatience <= 0 {
		opts.CopyPatience = copyPatience
	}
	s := &Store{
		opts: opts, queue: make(chan *request, queueLength), stop: make(chan struct{}), ended: make(chan struct{}),
		moved: make(chan struct{}), history: history{limit: opts.History}, state: newState(),
	}
	if err := s.recover(); err != nil {
		return nil, fmt.Errorf("open metadata in %s: %w", opts.Dir, err)
	}
	go s.run()
	return s, nil
}

// recover brings back the state and a log to append to.
func (s *Store) recover() error {
	log, content, err := statelog.Open(statelog.Options{
		FS: s.opts.FS, Dir: s.opts.Dir, Format: format, CompactBytes: s.opts.CompactBytes, Log: s.opts.Log,
	}, &s.state)
	if err != nil {
		return err
	}
	s.log, s.state.revision = log, int64(content.Sequence)
	if err := log.Rotate(s.state.emit); err != nil {
		_ = log.Close() // there is nothing to write
		return err
	}
	return nil
}
