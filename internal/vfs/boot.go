package vfs

import (
	"encoding/hex"
	"strings"
)

// booted is an FS that loses what is not synced at other times than the operating system.
type booted interface {
	BootID() (id [16]byte)
}

// BootIDOf returns the identifier of the boot since which fsys lost nothing that was written to it:
// BootID, unless fsys has its own.
func BootIDOf(fsys FS) (id [16]byte) {
	if f, ok := fsys.(booted); ok {
		return f.BootID()
	}
	return BootID()
}

// parseBootID parses a UUID. It returns zero if s is not one.
func parseBootID(s string) (id [16]byte) {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(s), "-", ""))
	if err != nil || len(b) != len(id) {
		return id
	}
	return [16]byte(b)
}
