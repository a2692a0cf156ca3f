package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/chronik-io/chronik/internal/objects"
)

// A mark is an object that the metadata name. A store without it is not that of the cluster: it is
// another one, or a directory on which nothing is mounted. Its content is never read, so that an
// operator can make a mark for a store that takes the place of a lost one. No collection deletes
// it.

const markFolder = "store/"

// MarkName returns the name of a mark. The objects of the cluster are below prefix.
func MarkName(prefix string, mark objects.Nonce) string { return prefix + markFolder + mark.String() }

// PutMark puts a mark.
func PutMark(ctx context.Context, s objects.Store, prefix string, mark objects.Nonce) error {
	name := MarkName(prefix, mark)
	if err := s.Put(ctx, name, strings.NewReader("This is the object store of the chronik cluster with the id above.\n")); err != nil {
		return fmt.Errorf("put %s, the mark of the object store: %w", name, err)
	}
	return nil
}

// CheckMark returns an error, which matches objects.ErrNotFound, unless the store has a mark.
func CheckMark(ctx context.Context, s objects.Store, prefix string, mark objects.Nonce) error {
	name := MarkName(prefix, mark)
	if _, err := s.Get(ctx, name, 0, make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) { // an empty one is there
		return fmt.Errorf("read %s, the mark of the object store: %w", name, err)
	}
	return nil
}

// Found is what a store has of a cluster.
type Found struct {
	Mark   objects.Nonce // of several, the one whose name comes last; zero: the store has none
	Others bool          // there are objects that are no marks
}

// FindMark lists the objects of a cluster.
func FindMark(ctx context.Context, s objects.Store, prefix string) (f Found, err error) {
	err = s.List(ctx, prefix, func(in objects.Info) error {
		rest, marks := strings.CutPrefix(in.Name, prefix+markFolder)
		n, err := objects.ParseNonce(rest)
		switch {
		case !marks:
			f.Others = f.Others || !objects.Unfinished(in.Name)
		case err == nil && n.String() > f.Mark.String():
			f.Mark = n
		}
		return nil
	})
	if err != nil {
		return Found{}, fmt.Errorf("list the objects of the cluster: %w", err)
	}
	return f, nil
}
