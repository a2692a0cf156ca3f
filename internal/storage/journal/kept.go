package journal

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/vfs"
)

// ReadKept calls fn for the frames in a file that Frame.Encode filled, in order.
// A payload is valid during the call. Every byte of such a file was synced before
// anything spoke of it: one that is not a whole valid frame matches ErrDamaged.
func ReadKept(fsys vfs.FS, name string, fn func(Frame) error) error {
	f, err := fsys.Open(name)
	if err != nil {
		return fmt.Errorf("read frames that were kept aside: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("read frames that were kept aside: %w", err)
	}
	var buf []byte
	read := func(at, n int64) error {
		if at+n > size {
			return fmt.Errorf("%w: %s has no whole frame at %d", ErrDamaged, name, at)
		}
		if int64(cap(buf)) < n {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		if _, err := f.ReadAt(buf, at); err != nil {
			return fmt.Errorf("read frames that were kept aside: %w", err)
		}
		return nil
	}
	for at := int64(0); at < size; {
		if err := read(at, frameHeader); err != nil {
			return err
		}
		n, ok := frameLen(buf)
		if ok {
			if err := read(at, n); err != nil {
				return err
			}
		}
		fr, _, valid := parseFrame(buf, 0)
		if !ok || !valid {
			return fmt.Errorf("%w: %s has no valid frame at %d", ErrDamaged, name, at)
		}
		if err := fn(fr); err != nil {
			return err
		}
		at += n
	}
	return nil
}
