// Package files reads certificates, keys and secrets from the operating system's file system.
//
// It owns who may be able to read a secret, where systemd and containers put secrets, and when a
// file counts as changed. It refuses a secret that other users can read, except one of root in
// memory, and every file above 1 MiB. It does not own what the files contain.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// MaxSize is the maximum size of a file in bytes.
const MaxSize = 1 << 20

// EnvCredentials is the variable with the directory of systemd's LoadCredential=.
const EnvCredentials = "CREDENTIALS_DIRECTORY"

// Stamp changes when a file is written, replaced, or reached through another symbolic link.
type Stamp struct {
	Modified time.Time
	Size     int64
	Inode    uint64
}

// Read returns the content of a file and its stamp. It reads at most MaxSize bytes; a larger file
// is an error.
func Read(path string) ([]byte, Stamp, error) {
	return read(path, func(*os.File, fs.FileInfo) error { return nil })
}

// read is Read for a file that a check accepts. The file is open then, so that the check is about
// the file that is read, even if the path leads to another one meanwhile.
func read(path string, check func(*os.File, fs.FileInfo) error) ([]byte, Stamp, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Stamp{}, bare(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, Stamp{}, bare(err)
	}
	if err := check(f, info); err != nil {
		return nil, Stamp{}, err
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, Stamp{}, bare(err)
	}
	if len(b) > MaxSize {
		return nil, Stamp{}, fmt.Errorf("is larger than %d bytes", MaxSize)
	}
	return b, stampOf(info), nil
}

// StampOf returns the stamp of a file, and the zero Stamp for one that cannot be read.
func StampOf(path string) Stamp {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{}
	}
	return stampOf(info)
}

// Locate returns the path of a secret. A name without a directory is looked for among systemd's
// credentials first.
func Locate(name string) string {
	if dir := os.Getenv(EnvCredentials); dir != "" && name != "" && !strings.ContainsRune(name, filepath.Separator) {
		if path := filepath.Join(dir, name); StampOf(path) != (Stamp{}) {
			return path
		}
	}
	return name
}

// ReadSecret is Read for a file that only the process's user may be able to read: a key, a token or
// passwords. A file of root's that no other user can write is accepted in memory (tmpfs), where
// systemd, Docker and Kubernetes put secrets.
func ReadSecret(name string) ([]byte, Stamp, error) { return read(Locate(name), checkMode) }

// Exposed returns an error with a remedy if ReadSecret would refuse a file because others may be
// able to read it. It is nil for pipes and terminals, and for what cannot be opened.
func Exposed(path string) error {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	return checkMode(f, info)
}

// checkMode returns an error with a remedy if others than the file's owner may read it.
func checkMode(f *os.File, info fs.FileInfo) error {
	mode := info.Mode().Perm()
	if mode&0o077 == 0 || mode&0o022 == 0 && ofRoot(info) && inMemory(f) {
		return nil
	}
	return fmt.Errorf("other users can read it (mode %04o); run chmod 600 %s", mode, f.Name())
}

// bare removes the path, which the caller's message names.
func bare(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
