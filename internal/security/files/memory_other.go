//go:build !linux

package files

import "os"

// inMemory is false: systems without systemd and containers keep their secrets elsewhere.
func inMemory(*os.File) bool { return false }
