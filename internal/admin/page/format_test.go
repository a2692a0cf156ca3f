package page

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNumbersAreReadable(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{bytesText(0), "0 B"}, {bytesText(999), "999 B"}, {bytesText(1000), "0.98 KiB"}, {bytesText(1024),
			"1.00 KiB"}, {bytesText(1 << 20), "1.00 MiB"},
		{bytesText(12.34 * (1 << 30)), "12.3 GiB"}, {bytesText(1 << 60), "1024 PiB"}, {bytesText(math.NaN()), "–"}, {bytesText(-1), "–"},
		{shortText(0), "0"}, {shortText(0.25), "0.2"}, {shortText(9), "9"}, {shortText(999.6), "1.00k"}, {shortText(92_000),
			"92.0k"}, {shortText(4e12), "4T"}, {shortText(math.NaN()), "–"},
		{secondsText(0), "0 s"}, {secondsText(25e-6), "25 µs"}, {secondsText(0.00142), "1.42 ms"}, {secondsText(0.9),
			"900 ms"}, {secondsText(12), "12.0 s"}, {secondsText(math.NaN()), "–"},
		{spanText(0), "0 s"}, {spanText(59 * time.Second), "59 s"}, {spanText(61 * time.Second), "1 min"}, {spanText(3 * time.Hour), "3 h"},
		{spanText(3*time.Hour + 5*time.Minute), "3 h 5 min"}, {spanText(76 * time.Hour), "3 d 4 h"}, {spanText(-time.Second), "0 s"},
		{ago(now(), now()), "now"}, {ago(now(), now().Add(-3*time.Minute)), "3 min ago"}, {ago(now(), time.Time{}), "–"},
		{moment(time.Time{}), "–"},
		{name("orders"), "orders"}, {name("a\x00\u202eb\xff"), `a\x00\u202eb\xff`}, {name(strings.Repeat("x", 300)),
			strings.Repeat("x", 200) + "…"},
		{prose(strings.Repeat("y", 300)), strings.Repeat("y", 300)},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if p := percent(1, 3); p != 33.3 || percent(5, 0) != 0 || percent(9, 3) != 100 || percent(-1, 3) != 0 {
		t.Error(p)
	}
}

// Text is shown as text and everything else as hex; a text that is cut within a rune is still text.
func TestContentOfRecords(t *testing.T) {
	euros := []byte(strings.Repeat("€", 1000))
	for _, c := range []struct {
		name string
		of   []byte
		size int
		want Content
	}{
		{"null", nil, 0, Content{Null: true}},
		{"empty", []byte{}, 0, Content{}},
		{"text", []byte("a\tb\r\nü"), 7, Content{Text: "a\tb\r\nü"}},
		{"cut text", euros[:MaxShown], 3000, Content{Text: string(euros[:2046]), More: 954}},
		{"binary", []byte{0, 1, 0xff}, 3, Content{Hex: true, Text: "00 01 ff"}},
		{"escape sequence", []byte("\x1b[31m"), 5, Content{Hex: true, Text: "1b 5b 33 31 6d"}},
		{"text that is shown backwards", []byte("\u202eabc"), 6, Content{Hex: true, Text: "e2 80 ae 61 62 63"}},
		{"long binary", make([]byte, MaxShown), 5000, Content{Hex: true, Text: hexText(make([]byte, 256)), More: 4744}},
	} {
		if got := contentOf(c.of, c.size); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := hexText(make([]byte, 17)); got != "00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00\n00" {
		t.Errorf("%q", got)
	}
}

func TestCommandsOfARemedy(t *testing.T) {
	for text, want := range map[string][]phrase{
		"":                         nil,
		"wait":                     {{"wait", false}},
		"run `a -b`, then `c\x00`": {{"run ", false}, {"a -b", true}, {", then ", false}, {`c\x00`, true}},
		"`a` b":                    {{"a", true}, {" b", false}},
		"it`s":                     {{"it`s", false}},
		"`a` it`s":                 {{"a", true}, {" it`s", false}},
	} {
		if got := commands(text); !slices.Equal(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
