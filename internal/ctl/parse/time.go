package parse

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Time reads a moment: RFC 3339, 2006-01-02 or 2006-01-02 15:04:05 (this
// machine's time where no zone stands there), @ and milliseconds since 1970,
// or how long ago: 90s, 5m, 2h, 7d. It is a whole number of milliseconds, not
// before 1970.
func Time(s string, now time.Time) (time.Time, error) {
	t, ok := moment(s, now)
	if !ok || t.UnixMilli() < 0 {
		return time.Time{}, fmt.Errorf("%q is no time; write 2006-01-02, \"2006-01-02 15:04:05\", 2006-01-02T15:04:05Z, @MILLISECONDS since 1970, or 5m, 2h, 7d for that long ago", s)
	}
	return t.Truncate(time.Millisecond), nil
}

// latest is the last moment that every layout can write.
const latest = 253402300799999 // 9999-12-31T23:59:59.999Z

func moment(s string, now time.Time) (time.Time, bool) {
	if ms, ok := strings.CutPrefix(s, "@"); ok {
		n, err := strconv.ParseInt(ms, 10, 64)
		return time.UnixMilli(n), err == nil && n <= latest
	}
	if ago, ok := Duration(s); ok {
		return now.Add(-ago), true
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999", "2006-01-02 15:04:05.999", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// Duration is time.ParseDuration of what is not negative, with days.
func Duration(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err == nil
	}
	d, err := time.ParseDuration(s)
	// Without a unit it is no duration: 0 is an offset.
	return d, err == nil && d >= 0 && s != "0" && s[0] != '+' && s[0] != '-'
}
