// Package statefile keeps small state in files that are replaced as a whole.
//
// A state file is one line
//
//	chronik-<kind> <version> <payload length> <CRC-32C of the payload, hex>
//
// and the payload. Write replaces it so that a crash leaves the old or the new
// one; Read refuses anything that is not whole. It knows nothing of what the
// payload means.
package statefile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"

	"github.com/chronik-io/chronik/internal/vfs"
)

// ErrCorrupt marks a state file that is not whole.
var ErrCorrupt = errors.New("state file is damaged")

// ErrNewer marks a state file of a version that this program doesn't know.
var ErrNewer = errors.New("state file has a newer format")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maxSize bounds what Read takes into memory.
const maxSize = 1 << 30

// Write makes payload the durable content of a file: temporary name, datasync,
// rename, sync of the directory. After an error, and after a crash, it is what it was
// or what it was to be.
func Write(fsys vfs.FS, name, kind string, version int, payload []byte) error {
	err := write(fsys, name+temporary, kind, version, payload, vfs.File.Datasync)
	if err == nil {
		err = fsys.Rename(name+temporary, name)
	}
	if err == nil {
		err = fsys.SyncDir(path.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	return nil
}

const temporary = ".tmp"

// WriteCache makes payload the content of a file without making it durable: after a crash
// Read finds all of it, or reports a file that is missing or damaged.
func WriteCache(fsys vfs.FS, name, kind string, version int, payload []byte) error {
	if err := write(fsys, name, kind, version, payload, func(vfs.File) error { return nil }); err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	return nil
}

// write makes a file anew.
func write(fsys vfs.FS, name, kind string, version int, payload []byte, sync func(vfs.File) error) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteVecAt([][]byte{header(kind, version, payload), payload}, 0)
	if err == nil {
		err = sync(f)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// Read returns the payload of a state file written by a version up to max. A
// missing file matches fs.ErrNotExist.
func Read(fsys vfs.FS, name, kind string, max int) ([]byte, error) {
	b, err := content(fsys, name, kind)
	if err != nil {
		return nil, err
	}
	return parse(b, name, kind, max)
}

func content(fsys vfs.FS, name, kind string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kind, err)
	}
	defer func() { _ = f.Close() }()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kind, err)
	}
	if size > maxSize {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrCorrupt, name, size)
	}
	b := make([]byte, size)
	if size > 0 {
		if _, err := f.ReadAt(b, 0); err != nil {
			return nil, fmt.Errorf("read %s: %w", kind, err)
		}
	}
	return b, nil
}

// header returns the line before a payload.
func header(kind string, version int, payload []byte) []byte {
	return fmt.Appendf(nil, "chronik-%s %d %d %08x\n", kind, version, len(payload), crc32.Checksum(payload, castagnoli))
}

func parse(b []byte, name, kind string, max int) ([]byte, error) {
	line, payload, ok := bytes.Cut(b, []byte("\n"))
	var gotKind string
	var version, length int
	if ok {
		n, _ := fmt.Sscanf(string(line), "chronik-%s %d %d", &gotKind, &version, &length)
		ok = n == 3 && gotKind == kind && version > 0
	}
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: %s has no header of kind %s", ErrCorrupt, name, kind)
	case version > max:
		return nil, fmt.Errorf("%w: %s has version %d, this program reads up to %d; start the version that wrote it", ErrNewer, name, version, max)
	case !bytes.HasPrefix(b, header(kind, version, payload)):
		return nil, fmt.Errorf("%w: %s does not match its checksum", ErrCorrupt, name)
	}
	return payload, nil
}
