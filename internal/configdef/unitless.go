package configdef

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// shortRetention is the retention below which a number without a unit is probably a mistake.
const shortRetention = time.Minute

// longRetention is the retention from which no one has meant seconds: it would be 2.7 years.
const longRetention = 24 * time.Hour

// meant is the sign of a number that is meant: 7ms becomes +7.
const meant = "+"

// Unitless returns why a value probably does not mean what was intended, as it was written: a
// retention in milliseconds without a unit is more often a mistake for days if it is shorter than a
// minute, and for seconds if it would be hours of a day or whole days then, and is not whole
// minutes, as 604800. Unitless returns "" for other configs and values, and for 0, which is the
// same in all units. A topic's configs are numbers without units, so a sign says there that the
// number is meant: see Meant.
func Unitless(name, written string) string {
	n, err := strconv.ParseInt(written, 10, 64)
	if !strings.HasSuffix(name, "retention.ms") || err != nil || n <= 0 || strings.HasPrefix(written, meant) {
		return ""
	}
	var other string
	const hour, day = int64(time.Hour / time.Second), int64(24 * time.Hour / time.Second)
	asSeconds := n < longRetention.Milliseconds() && n%time.Minute.Milliseconds() != 0 && (n%day == 0 || n < day && n%hour == 0)
	switch {
	case asSeconds:
		other = written + "s are seconds"
	case n < shortRetention.Milliseconds():
		other = written + "d are days"
	default:
		return ""
	}
	return fmt.Sprintf("%s=%s is %s milliseconds, because it has no unit: %s, %sms milliseconds", name, written, written, other, written)
}

// Meant returns a number that was written with a unit, as a topic keeps it: suspicious ones with a
// sign, which every reader of numbers accepts.
func Meant(name, number string) string {
	if Unitless(name, number) == "" {
		return number
	}
	return meant + number
}
