// Package settings checks the settings of chronik-bench's measurements, so that a wrong one has the
// same error everywhere. Each error names its flag. It collects all errors: a command line is
// corrected at once. The packages of bench use it. It knows neither flags nor brokers.
package settings

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/cli"
)

// Broker is the address of a broker with default settings on this machine.
const Broker = "127.0.0.1:9092"

// PartitionBounds returns what Checks.Partitions accepts. The help of flags names it.
func PartitionBounds() cli.Bounds[int] { return cli.AtLeast(1) }

// NotNegative returns what Checks.NotNegative accepts.
func NotNegative() cli.Bounds[time.Duration] { return cli.AtLeast(time.Duration(0)) }

// PID returns the accepted process ids of a broker on this machine.
func PID() cli.Bounds[int] { return cli.AtLeast(1).Or(0, "none") }

// Positive is what Checks.Positive accepts.
const Positive = "above 0"

// Slowest is the smallest rate of an open loop per second: its times are durations, which a smaller
// one overflows.
const Slowest = 0.001

// Range names the values that Checks.Between accepts.
func Range[T cli.Number](least, most T) string { return cli.Between(least, most).String() }

// Checks collects the errors of settings. Each names the flag of its setting. The zero value has
// none.
type Checks struct{ errs []error }

// Add adds an error.
func (x *Checks) Add(format string, args ...any) {
	x.errs = append(x.errs, fmt.Errorf(format, args...))
}

// Brokers checks that there is an address, and that all are host:port.
func (x *Checks) Brokers(flag string, addresses ...string) {
	if len(addresses) == 0 {
		x.Add("--%s: name at least one host:port, for example %s", flag, Broker)
	}
	for _, at := range addresses {
		if _, _, err := net.SplitHostPort(at); err != nil {
			x.Add("--%s: %q is not host:port; write for example %s", flag, at, Broker)
		}
	}
}

// Between checks that least ≤ n ≤ most.
func (x *Checks) Between(flag string, n, least, most int) {
	if n < least || n > most {
		x.Add("--%s: %d is not between %d and %d", flag, n, least, most)
	}
}

// Rate checks the rate of an open loop. Not a number, which no comparison accepts, is none.
func (x *Checks) Rate(flag string, rate float64, accepts cli.Bounds[float64]) {
	if !accepts.Accepts(rate) {
		x.Add("--%s: must be %s, not %g", flag, accepts, rate)
	}
}

// OneOf checks that value is one of names.
func (x *Checks) OneOf(flag, value string, names ...string) {
	if !slices.Contains(names, value) {
		x.Add("--%s: %q is not one of %s", flag, value, strings.Join(names, ", "))
	}
}

// Partitions checks the number of a topic's partitions.
func (x *Checks) Partitions(n int) {
	if !PartitionBounds().Accepts(n) {
		x.Add("--partitions: %d is below 1, the minimum", n)
	}
}

// Positive checks that d is above zero.
func (x *Checks) Positive(flag string, d time.Duration) {
	if d <= 0 {
		x.Add("--%s: must be above zero, not %v", flag, d)
	}
}

// NotNegative checks that d is at least zero.
func (x *Checks) NotNegative(flag string, d time.Duration) {
	if !NotNegative().Accepts(d) {
		x.Add("--%s: %v is negative; 0s means none", flag, d)
	}
}

// Err returns the errors as one with cli.ExitUsage, nil if there are none.
func (x *Checks) Err() error { return cli.WithCode(cli.ExitUsage, errors.Join(x.errs...)) }
