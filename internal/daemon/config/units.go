package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

type unit struct {
	name   string
	factor int64
}

// sizeUnits are tried in order: the longer names come first.
func sizeUnits() []unit {
	return []unit{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
	}
}

// parseSize reads a number of bytes with an optional unit.
func parseSize(v string) (int64, error) {
	number, factor := strings.TrimSpace(v), int64(1)
	for _, u := range sizeUnits() {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no size; write bytes as a whole number, or with a unit as in 50MiB", v)
	}
	if n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is more bytes than a number can hold; write a smaller one", v)
	}
	return n * factor, nil
}

// parseWait reads a duration, which must have a unit.
func parseWait(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err == nil {
		return d, nil
	}
	if n, nerr := strconv.ParseInt(v, 10, 64); nerr == nil {
		return 0, fmt.Errorf("%d has no unit; write for example %dms", n, n)
	}
	return 0, fmt.Errorf("%q is no duration; write for example 10ms or 1s", v)
}

// timeUnits are the units of Kafka's names that end in them.
func timeUnits() map[string]time.Duration {
	return map[string]time.Duration{".ms": time.Millisecond, ".seconds": time.Second, ".minutes": time.Minute, ".hours": time.Hour}
}

// translate answers what to write for a value with a unit where Kafka's name
// already is in one: log.retention.ms = 7d wants 604800000.
func translate(name, value string) (string, error) {
	for suffix, u := range timeUnits() {
		if strings.HasSuffix(name, suffix) {
			d, err := parseDays(value)
			if err != nil || d%u != 0 {
				return "", errors.New("no duration")
			}
			return strconv.FormatInt(int64(d/u), 10), nil
		}
	}
	if strings.HasSuffix(name, ".bytes") {
		n, err := parseSize(value)
		return strconv.FormatInt(n, 10), err
	}
	return "", errors.New("no unit in the name")
}

// parseDays is time.ParseDuration that also takes whole days.
func parseDays(v string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(v, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(v)
}
