package meter

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
)

var resident = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

// ProcessMemory returns the resident memory of a process in bytes, from Linux's /proc/PID/status.
func ProcessMemory(pid int) (int64, error) {
	fail := func(err error) (int64, error) {
		return 0, fmt.Errorf("memory of process %d: %w; set --server-pid to the broker's process id on this Linux machine", pid, err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fail(err)
	}
	m := resident.FindSubmatch(text)
	if m == nil {
		return fail(errors.New("it has ended"))
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		return fail(err)
	}
	return n << 10, nil
}
