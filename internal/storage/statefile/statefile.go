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
	err := vfs.WriteFile(fsys, name+temporary, encode(kind, version, payload), true)
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
	if err := vfs.WriteFile(fsys, name, encode(kind, version, payload), false); err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	return nil
}

// Read returns the payload of a state file written by a version up to max. A
// missing file matches fs.ErrNotExist.
func Read(fsys vfs.FS, name, kind string, max int) ([]byte, error) {
	if in, err := fsys.Stat(name); err == nil && in.Size > maxSize {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrCorrupt, name, in.Size)
	}
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kind, err)
	}
	return parse(b, name, kind, max)
}

// header returns the line before a payload.
func header(kind string, version int, payload []byte) []byte {
	return fmt.Appendf(nil, "chronik-%s %d %d %08x\n", kind, version, len(payload), crc32.Checksum(payload, castagnoli))
}

func encode(kind string, version int, payload []byte) []byte {
	return append(header(kind, version, payload), payload...)
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
