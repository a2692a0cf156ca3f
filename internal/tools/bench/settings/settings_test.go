package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/cli"
)

// Every wrong setting has an error with its flag, and a right one has none.
func TestChecks(t *testing.T) {
	var right, wrong Checks
	for n, x := range []*Checks{&right, &wrong} {
		x.Brokers("a", []string{Broker, "b"}[n])
		x.Brokers("b", [][]string{{Broker}, nil}[n]...)
		x.Between("c", []int{2, 3}[n], 1, 2)
		x.Between("d", []int{1, 0}[n], 1, 2)
		x.OneOf("e", []string{"y", "z"}[n], "x", "y")
		x.Partitions(1 - n)
		x.Positive("f", time.Duration(1-n))
		x.NotNegative("g", time.Duration(-n))
	}
	if err := right.Err(); err != nil {
		t.Error(err)
	}
	err := wrong.Err()
	if cli.ExitCode(err) != cli.ExitUsage {
		t.Fatal(err)
	}
	lines := strings.Split(err.Error(), "\n")
	for i, flag := range []string{"a", "b", "c", "d", "e", "partitions", "f", "g"} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], "--"+flag+": ") {
			t.Fatalf("line %d is not about --%s: %q", i, flag, lines)
		}
	}
}
