package meter

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessCPU returns the CPU time that all threads of a process have used, from its own clock
// (clock_getcpuclockid(3)), which is more precise than the hundredths of a second in /proc.
func ProcessCPU(pid int) (time.Duration, error) {
	if pid <= 0 || pid > math.MaxInt32>>3 {
		return 0, fmt.Errorf("CPU time of process %d: no such process; set --server-pid to the broker's process id, or remove it", pid)
	}
	const scheduler = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w; set --server-pid to the broker's process id, or remove it", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
