package configdef

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// shortRetention is the retention below which a number without a unit is probably a mistake.
const shortRetention = time.Minute

// Unitless returns why a value probably does not mean what was intended, as it was written: a
// retention in milliseconds that is shorter than a minute and has no unit is more often a mistake
// for days. It returns "" for other configs and values, and for 0, which is the same in all units.
func Unitless(name, written string) string {
	n, err := strconv.ParseInt(written, 10, 64)
	if !strings.HasSuffix(name, "retention.ms") || err != nil || n <= 0 || n >= shortRetention.Milliseconds() {
		return ""
	}
	return fmt.Sprintf("%s=%s is %s milliseconds, because it has no unit: %sd are days, %sms milliseconds", name, written, written,
		written, written)
}
