package parse

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/cli"
)

// Time parses a time: RFC 3339, 2006-01-02 or 2006-01-02 15:04:05 (in now's time zone unless it
// names one), @ and milliseconds since 1970, or a duration before now: 90s, 5m, 2h, 7d. The result
// is a whole number of milliseconds and not before 1970.
func Time(s string, now time.Time) (time.Time, error) {
	t, ok := moment(s, now)
	if !ok || t.UnixMilli() < 0 {
		return time.Time{},
			fmt.Errorf(
				"%q is not a time; write 2006-01-02, \"2006-01-02 15:04:05\", 2006-01-02T15:04:05Z, "+
					"@MILLISECONDS since 1970, or 5m, 2h, 7d for that long ago",
				s)
	}
	return t.Truncate(time.Millisecond), nil
}

// latest is the latest time that every layout can express.
const latest = 253402300799999 // 9999-12-31T23:59:59.999Z

func moment(s string, now time.Time) (time.Time, bool) {
	if ms, ok := strings.CutPrefix(s, "@"); ok {
		n, err := strconv.ParseInt(ms, 10, 64)
		return time.UnixMilli(n), err == nil && n <= latest
	}
	if ago, ok := cli.Duration(s); ok {
		return now.Add(-ago), true
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999", "2006-01-02 15:04:05.999", "2006-01-02 15:04",
		time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
