package configdef

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// shortRetention is the retention below which a number without a unit is probably a mistake.
const shortRetention = time.Minute

// meant is the sign of a number that is meant: 7ms becomes +7.
const meant = "+"

// Unitless returns why a value probably does not mean what was intended, as it was written: a
// retention in milliseconds that is shorter than a minute and has no unit is more often a mistake
// for days. It returns "" for other configs and values, and for 0, which is the same in all units.
// A topic's configs are numbers without units, so a sign says there that the number is meant: see
// Meant.
func Unitless(name, written string) string {
	n, err := strconv.ParseInt(written, 10, 64)
	if !strings.HasSuffix(name, "retention.ms") || err != nil || n <= 0 || n >= shortRetention.Milliseconds() ||
		strings.HasPrefix(written, meant) {
		return ""
	}
	return fmt.Sprintf("%s=%s is %s milliseconds, because it has no unit: %sd are days, %sms milliseconds", name, written, written,
		written, written)
}

// Meant returns a number that was written with a unit, as a topic keeps it: short retentions with a
// sign, which every reader of numbers accepts.
func Meant(name, number string) string {
	if Unitless(name, number) == "" {
		return number
	}
	return meant + number
}
