package text

import (
	"math"
	"testing"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 5 << 40: "5 TiB",
		1<<20 - 1: "1023.9 KiB", 2<<30 - 1: "1.9 GiB", 1<<30 + (1<<30+9)/10: "1.1 GiB", math.MaxInt64: "7.9 EiB", 9 << 57: "1.1 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", -999: "-999", -1234567: "-1,234,567", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := Number(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 topics", 1: "1 topic", 2: "2 topics", 1200: "1,200 topics"} {
		if got := Count(n, "topic"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	if got := Plural(2, "directory", "directories"); got != "2 directories" {
		t.Error(got)
	}
}
