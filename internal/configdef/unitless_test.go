package configdef

import (
	"strings"
	"testing"
)

// A retention is suspicious only if its unit is not written, and it is shorter than a minute or a
// usual time in seconds.
func TestUnitless(t *testing.T) {
	for _, c := range []struct {
		name, written string
		want          bool
	}{
		{"retention.ms", "7", true}, {"log.retention.ms", "59999", true}, {"log.retention.ms", "0", false},
		{"log.local.retention.ms", "30", true}, {"log.cleaner.delete.retention.ms", "1", true},
		{"retention.ms", "3600", true}, {"retention.ms", "86400", true}, {"retention.ms", "604800", true},
		{"retention.ms", "2592000", true},
		{"retention.ms", "31536000", true}, {"retention.ms", "3600000", false}, {"retention.ms", "86400000", false},
		{"retention.ms", "90000", false}, {"retention.ms", "604800000", false}, {"retention.ms", "+604800", false},
		{"retention.ms", "60000", false}, {"retention.ms", "-1", false}, {"retention.ms", "7d", false},
		{"retention.ms", "7ms", false}, {"retention.ms", "+7", false}, {"retention.bytes", "7", false}, {"log.retention.hours", "7", false},
		{"log.retention.check.interval.ms", "7", false},
	} {
		got := Unitless(c.name, c.written)
		if (got != "") != c.want || c.want && !strings.HasPrefix(got, c.name+"="+c.written+" is "+c.written+" milliseconds") {
			t.Errorf("%s=%s: %q, want a text: %v", c.name, c.written, got, c.want)
		}
	}
}

// A topic's config has no unit, so a short retention that was written with one gets a sign.
func TestMeant(t *testing.T) {
	for _, c := range [][3]string{
		{"retention.ms", "7", "+7"}, {"retention.ms", "60000", "60000"}, {"retention.ms", "-1", "-1"}, {"retention.ms", "+7", "+7"},
		{"log.retention.ms", "7", "+7"}, {"flush.ms", "7", "7"},
	} {
		if got := Meant(c[0], c[1]); got != c[2] || Unitless(c[0], got) != "" {
			t.Errorf("%s=%s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
