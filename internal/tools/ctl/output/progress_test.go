package output

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestABarDrawsAtMostTenTimesASecondAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := NewBar(&out, true, "orders", 1000)
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			b.Add(5)
		}
		b.End()
		if n := strings.Count(out.String(), "\r"); n < 9 || n > 12 {
			t.Errorf("drawn %d times", n)
		}
		if !strings.Contains(out.String(), "orders [##") || !strings.HasSuffix(out.String(), "\r\x1b[K") {
			t.Errorf("%q", out.String())
		}
	})
}

func TestWithoutATerminalNothingIsDrawn(t *testing.T) {
	var out bytes.Buffer
	b := NewBar(&out, false, "x", 10)
	b.Add(5)
	b.End()
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
}

func TestLine(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		want        string
	}{
		{0, 100, "x [..............................]   0%"},
		{50, 100, "x [###############...............]  50% 10s left"},
		{100, 100, "x [##############################] 100%"},
		{150, 100, "x [##############################] 100%"},
		{70, 0, "x 70, 7/s"},
	} {
		b := NewBar(nil, true, "x", c.total)
		b.done = c.done
		if got := b.line(10 * time.Second); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.done, c.total, got, c.want)
		}
	}
}
