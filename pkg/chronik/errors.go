package chronik

import (
	"context"
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/datadir"
	"github.com/chronik-io/chronik/internal/exit"
)

// What errors of Open, OpenMemory and Dial match, by errors.Is. Their texts have the cause and the
// remedy, which may name commands of chronikd and chronikctl: the programs work on the directory of
// a broker that is not running. An error about the directory matches ErrDirectory, and one more if
// that is known. No error of a start has changed a record.
var (
	// ErrOptions: an option or a setting is wrong.
	ErrOptions = errors.New("wrong options")
	// ErrAddress: an address cannot be bound. Nothing was changed in the directory.
	ErrAddress = errors.New("address cannot be bound")
	// ErrDirectory: a directory cannot be used.
	ErrDirectory = errors.New("directory cannot be used")
	// ErrInUse: another broker uses the directory. It may be in another process, or in this one.
	ErrInUse = errors.New("directory is in use")
	// ErrNewer: a newer version of chronik wrote the directory.
	ErrNewer = errors.New("directory has a newer format")
	// ErrDamaged: files are damaged or missing, and starting could lose records. The text names the
	// command that shows what is lost, and the one that repairs.
	ErrDamaged = errors.New("directory is damaged")
	// ErrClosed: the broker was closed.
	ErrClosed = errors.New("broker is closed")
)

// startFault is an error of Open or OpenMemory.
type startFault struct {
	kinds []error
	err   error
}

// Error returns the cause and the remedy.
func (e *startFault) Error() string { return "chronik: " + e.err.Error() }

// Unwrap returns what the error matches.
func (e *startFault) Unwrap() []error { return append([]error{e.err}, e.kinds...) }

// startError classifies an error of the daemon. A start that ctx has ended says only that.
func startError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		if cause := context.Cause(ctx); cause != ctx.Err() { //nolint:errorlint // the same value
			return fmt.Errorf("chronik: the start was ended: %w: %w", ctx.Err(), cause)
		}
		return fmt.Errorf("chronik: the start was ended: %w", ctx.Err())
	}
	e := &startFault{err: err}
	switch exit.CodeOf(err) {
	case exit.Usage:
		e.kinds = []error{ErrOptions}
	case exit.Address:
		e.kinds = []error{ErrAddress}
	case exit.Data:
		e.kinds = []error{ErrDirectory}
	}
	for kind, is := range map[error]func(error) bool{ErrInUse: datadir.InUse, ErrNewer: datadir.Newer, ErrDamaged: datadir.Damaged} {
		if is(err) {
			e.kinds = append(e.kinds, kind)
		}
	}
	return e
}
