//go:build !linux

package limits

import (
	"errors"
	"time"
)

// cpuKnown says whether processCPU works here.
const cpuKnown = false

// processCPU is of Linux alone.
func processCPU(int) (time.Duration, error) {
	return 0, errors.New("the CPU time of another process is known on Linux only")
}
