//go:build !linux

package meter

import (
	"errors"
	"fmt"
	"time"
)

// ProcessCPU is the CPU time that all threads of a process have used. This system
// does not tell.
func ProcessCPU(pid int) (time.Duration, error) {
	return 0, fmt.Errorf("CPU time of process %d: %w", pid, errors.ErrUnsupported)
}
