package meter

import (
	"os"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestProcessCPUCountsThisProcess(t *testing.T) {
	before, err := ProcessCPU(os.Getpid())
	must.OK(t, err)
	x := uint64(1)
	for i := range uint64(20_000_000) {
		x = x*31 + i
	}
	after, err := ProcessCPU(os.Getpid())
	if err != nil || after <= before {
		t.Errorf("CPU time went from %v to %v (%v; %d)", before, after, err, x)
	}
}

func TestProcessCPUOfNone(t *testing.T) {
	for _, pid := range []int{0, -1, 1 << 30} {
		if d, err := ProcessCPU(pid); err == nil {
			t.Errorf("process %d: %v without an error", pid, d)
		}
	}
}
