// Package statefile stores small state in files that are replaced as a whole.
//
// A state file is one line
//
//	chronik-<kind> <version> <payload length> <CRC-32C of the payload, hex>
//
// and the payload. Write replaces it so that after a crash either the old or the new file exists;
// Read rejects a file that is not whole. The package does not interpret the payload.
package statefile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"path"

	"github.com/chronik-io/chronik/internal/vfs"
)

// ErrCorrupt marks a state file that is incomplete or has a wrong checksum.
var ErrCorrupt = errors.New("state file is damaged")

// ErrNewer marks a state file whose version this program does not know.
var ErrNewer = errors.New("state file has a newer format")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maxSize bounds the size of a file that Read reads into memory.
const maxSize = 1 << 30

// Write makes payload the durable content of a file: temporary name, datasync, rename, sync of the
// directory. After an error or a crash the file has its old or its new content.
func Write(fsys vfs.FS, name, kind string, version int, payload []byte) error {
	err := vfs.WriteFile(fsys, name+Temporary, encode(kind, version, payload), true)
	if err == nil {
		err = fsys.Rename(name+Temporary, name)
	}
	if err == nil {
		err = fsys.SyncDir(path.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	return nil
}

// Temporary ends the name of a file that Write had not completed.
const Temporary = ".tmp"

// WriteCache makes payload the content of a file without making it durable: after a crash Read
// either returns all of it, or reports a missing or damaged file.
func WriteCache(fsys vfs.FS, name, kind string, version int, payload []byte) error {
	if err := vfs.WriteFile(fsys, name, encode(kind, version, payload), false); err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	return nil
}

// Read returns the payload of a state file written by a version up to max. If the file is missing,
// the error matches fs.ErrNotExist.
func Read(fsys vfs.FS, name, kind string, max int) ([]byte, error) {
	if in, err := fsys.Stat(name); err == nil && in.Size > maxSize {
		return nil, fmt.Errorf("%w: %s has %d bytes, the limit is %d", ErrCorrupt, name, in.Size, maxSize)
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
		return nil, fmt.Errorf("%w: %s has version %d, this program reads up to %d; start the version that wrote it",
			ErrNewer, name, version, max)
	case !bytes.HasPrefix(b, header(kind, version, payload)):
		return nil, fmt.Errorf("%w: %s does not match its checksum", ErrCorrupt, name)
	}
	return payload, nil
}
