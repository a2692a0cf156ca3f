package parse

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/cli"
)

// Configs parses configs as KeyValues does, and accepts times and sizes with units.
func Configs(list []string) (map[string]string, error) {
	for _, s := range list {
		if _, _, err := KeyValue(s); err != nil {
			return nil, fmt.Errorf("%w; write for example retention.ms=7d", err)
		}
	}
	m, err := KeyValues(list)
	if err != nil {
		return nil, err
	}
	for name, value := range m {
		if m[name], err = Config(name, value); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Config converts a value with a unit to the unit of the config: retention.ms=7d to 604800000,
// segment.bytes=512MiB to 536870912. The names of Kafka's configs end with their unit. It returns
// other values unchanged.
func Config(name, value string) (string, error) {
	if _, err := strconv.ParseInt(value, 10, 64); err == nil || value == "" {
		return value, nil
	}
	switch unit := name[strings.LastIndexByte(name, '.')+1:]; unit {
	case "bytes":
		n, err := Size(value)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return strconv.FormatInt(n, 10), nil
	case "ms", "seconds", "minutes", "hours":
		each := map[string]struct {
			one   time.Duration
			words string
		}{"ms": {time.Millisecond, "milliseconds"}, "seconds": {time.Second, unit}, "minutes": {time.Minute, unit},
			"hours": {time.Hour, unit}}[unit]
		d, ok := cli.Duration(value)
		if !ok || d%each.one != 0 {
			return "", fmt.Errorf("%s: %q is not a whole number of %s; write one, or 90s, 5m, 12h, 7d", name, value, each.words)
		}
		return strconv.FormatInt(int64(d/each.one), 10), nil
	}
	return value, nil
}

// Sizes makes the values of a flag with bounds numbers of bytes, as Size parses them.
func Sizes[T int32 | int64](b cli.Bounds[T]) cli.Bounds[T] {
	return b.In("bytes", "a number of bytes like 1048576, 512KiB, 1GiB, or 10MB for powers of ten",
		func(s string) (T, error) {
			n, err := Size(s)
			if err == nil && int64(T(n)) != n {
				err = strconv.ErrRange
			}
			return T(n), err
		},
		func(v T) string {
			for i, unit := range []string{"GiB", "MiB", "KiB"} {
				if one := int64(1) << (30 - 10*i); v > 0 && int64(v)%one == 0 {
					return strconv.FormatInt(int64(v)/one, 10) + unit
				}
			}
			return strconv.FormatInt(int64(v), 10)
		})
}

// Size parses a non-negative number of bytes: 1048576, 512KiB, 1.5GiB, or 10MB for powers of ten.
func Size(s string) (int64, error) {
	number := strings.TrimRight(s, "BKMGTikb ")
	unit, known := map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[strings.TrimSpace(s[len(number):])]
	n, err := strconv.ParseFloat(number, 64)
	bytes := n * unit
	if err != nil || !known || !(bytes >= 0 && bytes < math.MaxInt64) || bytes != math.Trunc(bytes) {
		return 0, fmt.Errorf("%q is not a number of bytes; write 1048576, 512KiB, 1GiB, or 10MB for powers of ten", s)
	}
	return int64(bytes), nil
}
