package limits

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuKnown says whether processCPU works here.
const cpuKnown = true

// processCPU is the CPU time that all threads of a process have used, to the
// nanosecond: the clock that clock_getcpuclockid(3) names, not the hundredths of
// a second of /proc.
func processCPU(pid int) (time.Duration, error) {
	const scheduler = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil { //nolint:gosec // a clock's id is 32 bits, as a process's is
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
