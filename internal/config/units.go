package config

import (
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

// sizeUnits returns the units in the order in which they are tested: "B" is a suffix of all others.
func sizeUnits() []unit {
	return []unit{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
	}
}

// parseSize parses a number of bytes with an optional unit.
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
		return 0, fmt.Errorf("%q is not a size; write bytes as a whole number, or with a unit as in 50MiB", v)
	}
	if n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q exceeds the largest size; write a smaller one", v)
	}
	return n * factor, nil
}

// parseWait parses a duration, which must have a unit.
func parseWait(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err == nil {
		return d, nil
	}
	if n, nerr := strconv.ParseInt(v, 10, 64); nerr == nil {
		return 0, fmt.Errorf("%d has no unit; write for example %dms", n, n)
	}
	return 0, fmt.Errorf("%q is not a duration; write for example 10ms or 1s", v)
}

// timeUnits returns the units that names of Kafka's end in.
func timeUnits() map[string]time.Duration {
	return map[string]time.Duration{
		".ms": time.Millisecond, ".seconds": time.Second, ".minutes": time.Minute, ".hours": time.Hour,
	}
}

// UnitHint returns the unit that the name of a number ends in, and values with another one, else
// "".
func UnitHint(name string) (unit, such string) {
	for suffix := range timeUnits() {
		if strings.HasSuffix(name, suffix) {
			unit = strings.TrimPrefix(suffix, ".")
			if suffix == ".ms" {
				unit = "milliseconds"
			}
			return unit, "90s, 12h or 7d"
		}
	}
	if strings.HasSuffix(name, ".bytes") {
		return "bytes", "64MiB or 1GiB"
	}
	return "", ""
}

// plainNumber returns value in the unit that name ends in, as Kafka does not know other units:
// log.retention.ms = 7d becomes 604800000. A value without a unit, or with one that does not suit
// the name, is returned unchanged, so that the setting's own check rejects it if it is invalid.
func plainNumber(name, value string) string {
	for suffix, unit := range timeUnits() {
		if d, err := parseDays(value); err == nil && strings.HasSuffix(name, suffix) && d%unit == 0 {
			return strconv.FormatInt(int64(d/unit), 10)
		}
	}
	if n, err := parseSize(value); err == nil && strings.HasSuffix(name, ".bytes") {
		return strconv.FormatInt(n, 10)
	}
	return value
}

// parseDays is time.ParseDuration that also accepts whole days.
func parseDays(v string) (time.Duration, error) {
	const day = 24 * time.Hour
	if days, ok := strings.CutSuffix(v, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 64)
		if err == nil && (n < 0 || n > int64(math.MaxInt64/day)) {
			err = strconv.ErrRange
		}
		return time.Duration(n) * day, err
	}
	return time.ParseDuration(v)
}
