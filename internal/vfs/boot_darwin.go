package vfs

import "golang.org/x/sys/unix"

// BootID returns an identifier of this run of the operating system's kernel, which changes with
// each boot; zero if it is unknown.
func BootID() (id [16]byte) {
	s, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return id
	}
	return parseBootID(s)
}
