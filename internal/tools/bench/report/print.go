package report

import (
	"errors"
	"io"

	"github.com/chronik-io/chronik/internal/tools/bench"
)

// Output is the result of a measurement.
type Output interface {
	Table(io.Writer) error
	// Succeeded reports whether there was anything to measure.
	Succeeded() bool
}

// Print writes a result to w as a table or as JSON. It returns bench.ErrNothing if there was
// nothing to measure.
func Print(w io.Writer, r Output, asJSON bool) error {
	var err error
	if asJSON {
		err = WriteJSON(w, r)
	} else {
		err = r.Table(w)
	}
	if !r.Succeeded() {
		err = errors.Join(err, bench.ErrNothing)
	}
	return err
}
