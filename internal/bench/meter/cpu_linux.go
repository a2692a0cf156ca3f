package meter

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessCPU is the CPU time that all threads of a process have used, by its own
// clock (clock_getcpuclockid(3)), which is finer than the hundredths of a second
// of /proc.
func ProcessCPU(pid int) (time.Duration, error) {
	if pid <= 0 || pid > math.MaxInt32>>3 {
		return 0, fmt.Errorf("CPU time of process %d: no such process; give the id of the broker's with --server-pid, or leave it out", pid)
	}
	const scheduler = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w; give the id of the broker's with --server-pid, or leave it out", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
