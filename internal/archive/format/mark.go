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

// FindMark returns a mark of the store: of several, the one whose name comes last. The zero value
// says that there is none.
func FindMark(ctx context.Context, s objects.Store, prefix string) (mark objects.Nonce, err error) {
	err = s.List(ctx, prefix+markFolder, func(in objects.Info) error {
		if n, err := objects.ParseNonce(strings.TrimPrefix(in.Name, prefix+markFolder)); err == nil && n.String() > mark.String() {
			mark = n
		}
		return nil
	})
	if err != nil {
		return objects.Nonce{}, fmt.Errorf("list the marks of the object store: %w", err)
	}
	return mark, nil
}
