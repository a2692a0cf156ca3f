package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Errors that all stores return. An error that matches none of them, and none of a context, may go
// away if the call is repeated.
var (
	// ErrNotFound reports that there is no object of that name, or that a list does not have it
	// yet.
	ErrNotFound = errors.New("object not found")
	// ErrRefused reports that the store refuses the call and will refuse it again: the bucket does
	// not exist, the key has no right, the name is not allowed.
	ErrRefused = errors.New("object store refuses the call")
	// ErrFull reports that the store has no space, or that a quota is used up.
	ErrFull = errors.New("object store is full")
)

// Body is the bytes of an object: a *bytes.Reader or an *io.SectionReader. Its bytes must never
// change, even after a call that failed: the call may still be in progress somewhere, and repeats
// then write what earlier ones wrote. If they cannot be read, the call fails and is not repeated.
type Body interface {
	io.ReaderAt
	Size() int64 // in bytes; at least 1, as some stores refuse empty objects
}

// Info describes an object of a list.
type Info struct {
	Name string
	Size int64 // bytes
}

// Store holds objects. Every method may be called concurrently, and returns when its context ends,
// even if the store hangs; the call may then take effect later, in whole or not at all. Names are
// those that CheckName accepts.
type Store interface {
	// Put creates an object, or replaces it with the same bytes. If Put returns nil, the object is
	// durable and Get finds it.
	Put(ctx context.Context, name string, body Body) error
	// Get reads len(p) bytes of an object from off on. n < len(p) only with an error, which is
	// io.EOF if the object ends before. Without an object, the error matches ErrNotFound. The bytes
	// are what the store returns: the caller verifies them.
	Get(ctx context.Context, name string, off int64, p []byte) (n int, err error)
	// Copy creates the object to with the bytes of from, within the store. from.Size is about its
	// size: it only decides how long the call may take.
	Copy(ctx context.Context, from Info, to string) error
	// List calls each for the objects whose name begins with prefix, which is empty or ends in a
	// slash. The names come in any order, and a name may come twice. A list may be old: it may lack
	// objects, and have objects that were deleted. It may have names of calls of Put that ended
	// early; see Unfinished. It ends with the first error of each.
	List(ctx context.Context, prefix string, each func(Info) error) error
	// Delete deletes an object; a missing one is no error. It may be durable later than the call.
	Delete(ctx context.Context, name string) error
}

// Bounds of names, in bytes. Files have the first one, S3 the second; the rest of it is for the
// prefix in the bucket.
const (
	maxElement = 200
	maxName    = 700
)

// unfinished ends the name of what a call of Put had not completed.
const unfinished = ".tmp"

// Unfinished reports whether a name in a list is not an object's, but that of a Put that is in
// progress or ended early. It can be deleted: a Put in progress then fails, and is repeated.
func Unfinished(name string) bool { return strings.HasSuffix(name, unfinished) }

// UnfinishedName returns a name under which a store prepares an object; random makes it unique.
func UnfinishedName(name, random string) string { return name + "." + random + unfinished }

// CheckName returns an error, which matches ErrRefused, unless name can be that of an object:
// elements of lower-case letters, digits, '-', '_' and '.', separated by slashes. Names that differ
// only in case would be one on some file systems.
func CheckName(name string) error {
	if err := CheckListed(name); err != nil {
		return err
	}
	if Unfinished(name) {
		return fmt.Errorf("%w: name %q ends in %s", ErrRefused, name, unfinished)
	}
	return nil
}

// CheckPut returns an error, which matches ErrRefused, unless Put accepts a name and a body.
func CheckPut(name string, body Body) error {
	if body.Size() <= 0 {
		return fmt.Errorf("%w: object %s is empty", ErrRefused, name)
	}
	return CheckName(name)
}

// CheckListed is CheckName for calls that also accept the names of unfinished objects.
func CheckListed(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("%w: a name of %d bytes, the limit is %d", ErrRefused, len(name), maxName)
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == "" || element[0] == '.' || len(element) > maxElement {
			return fmt.Errorf("%w: name %q has an element that is empty, begins with a dot or has more than %d bytes",
				ErrRefused, name, maxElement)
		}
		if i := strings.IndexFunc(element, foreign); i >= 0 {
			r, _ := utf8.DecodeRuneInString(element[i:])
			return fmt.Errorf("%w: name %q has %q", ErrRefused, name, r)
		}
	}
	return nil
}

// CheckPrefix returns an error, which matches ErrRefused, unless List accepts prefix.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	dir, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return fmt.Errorf("%w: prefix %q does not end in a slash", ErrRefused, prefix)
	}
	return CheckListed(dir)
}

// foreign reports whether a name must not have r.
func foreign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}
