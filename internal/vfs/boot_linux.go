package vfs

import "os"

// BootID returns an identifier of this run of the operating system's kernel, which changes with
// each boot; zero if it is unknown. Containers on one machine share it.
func BootID() (id [16]byte) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id
	}
	return parseBootID(string(b))
}
