//go:build !linux

package meter

import (
	"errors"
	"fmt"
	"time"
)

// ProcessCPU returns an error: this system does not report the CPU time of another process.
func ProcessCPU(pid int) (time.Duration, error) {
	return 0, fmt.Errorf("CPU time of process %d: %w", pid, errors.ErrUnsupported)
}
