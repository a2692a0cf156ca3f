package parse

import (
	"strconv"
	"strings"
	"testing"
)

func TestConfigsTakeUnits(t *testing.T) {
	for in, want := range map[string]string{
		"retention.ms=7d": "604800000", "retention.ms=1h30m": "5400000", "retention.ms=-1": "-1", "retention.ms=250": "250",
		"retention.ms=0s":        "0",
		"log.retention.hours=7d": "168", "log.retention.minutes=2h": "120", "x.seconds=2m": "120",
		"segment.bytes=512MiB": "536870912", "segment.bytes=1.5GiB": "1610612736", "segment.bytes=10MB": "10000000",
		"segment.bytes=1 KiB": "1024",
		"segment.bytes=":      "", "retention.bytes=-1": "-1", "cleanup.policy=7d": "7d", "compression.type=zstd": "zstd",
	} {
		name, value, _ := strings.Cut(in, "=")
		if got, err := Config(name, value); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"retention.ms=soon": `retention.ms: "soon" is not a whole number of milliseconds; write one, or 90s, 5m, 12h, 7d`,
		"retention.ms=1.5":  "milliseconds", "retention.ms=10us": "milliseconds",
		"log.retention.hours=90m": "hours", "segment.bytes=many": `segment.bytes: "many" is not a number of bytes`,
		"segment.bytes=1G": "1GiB", "segment.bytes=-1MiB": "bytes",
		"segment.bytes=0.3KiB": "bytes", "segment.bytes=9e99TiB": "bytes", "segment.bytes=NaN": "bytes", "segment.bytes=InfB": "bytes",
	} {
		name, value, _ := strings.Cut(in, "=")
		if got, err := Config(name, value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	if _, err := Configs([]string{"retention.ms"}); err == nil ||
		err.Error() != `"retention.ms" is not name=value; write for example retention.ms=7d` {
		t.Error(err)
	}
}

func FuzzSize(f *testing.F) {
	f.Add("1.5GiB")
	f.Add("9223372036854775807")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Size(s)
		if again, err2 := Size(strconv.FormatInt(n, 10)); err == nil && n < 1<<53 && (n < 0 || err2 != nil || again != n) {
			t.Errorf("%q is %d, which is %d, %v", s, n, again, err2)
		}
	})
}
