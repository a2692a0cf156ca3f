package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/chronik-io/chronik/internal/text"
)

// The page formats sizes in powers of 1024 with their IEC unit, counts with commas, and durations
// in the largest unit that leaves a number above 1. Sizes have one digit more than those of
// chronikctl, so that a change is visible. An unknown value is an en dash.
const unknown = "–"

// bytesText formats a size with three significant digits: "1.42 GiB".
func bytesText(n float64) string {
	if math.IsNaN(n) || n < 0 {
		return unknown
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for ; n >= 1000 && i < len(units)-1; i++ { // 1000 and more would need a fourth digit
		n /= 1024
	}
	if i == 0 {
		return strconv.FormatFloat(n, 'f', 0, 64) + " B"
	}
	return digits(n) + " " + units[i]
}

// digits formats a number below 1000 with three significant digits.
func digits(n float64) string {
	switch {
	case n >= 100:
		return strconv.FormatFloat(n, 'f', 0, 64)
	case n >= 10:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

// shortText formats a count with three significant digits: "12.3k", or as a whole number below
// 1000.
func shortText(n float64) string {
	if math.IsNaN(n) {
		return unknown
	}
	if n < 10 && n != math.Trunc(n) {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	for _, u := range []string{"", "k", "M", "G"} {
		if n < 999.5 {
			if u == "" {
				return strconv.FormatFloat(n, 'f', 0, 64)
			}
			return digits(n) + u
		}
		n /= 1000
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + "T"
}

// secondsText formats a short duration: "850 µs", "1.42 ms", "12.0 s".
func secondsText(s float64) string {
	switch {
	case math.IsNaN(s):
		return unknown
	case s <= 0:
		return "0 s"
	case s < 1e-3:
		return strconv.FormatFloat(s*1e6, 'f', 0, 64) + " µs"
	case s < 1:
		return digits(s*1e3) + " ms"
	}
	return digits(s) + " s"
}

// spanText formats a long duration in its two largest units: "3 d 4 h", "12 min", "8 s".
func spanText(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	units := []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.of && u.of > time.Second {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.of, u.name)
		if i == 0 || i == 1 {
			if rest := d % u.of / units[i+1].of; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return unknown
}

// ago formats the time since then: "3 min ago".
func ago(now, then time.Time) string {
	switch d := now.Sub(then); {
	case then.IsZero():
		return unknown
	case d < time.Second:
		return "now"
	default:
		return spanText(d) + " ago"
	}
}

// moment formats a time for people, in UTC as everywhere in chronik.
func moment(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// percent returns part/whole in percent, 0 to 100; 0 for a whole of 0.
func percent(part, whole int64) float64 {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return math.Min(100, math.Round(1000*float64(part)/float64(whole))/10)
}

// Content is a key, a value or a header as the page shows it.
type Content struct {
	Null, Hex bool
	Text      string
	// More is the number of bytes that are not shown.
	More int
}

// contentOf shows bytes as text if they are UTF-8 without control characters other than line breaks
// and tabs, and as hex otherwise. A rune that is cut at the limit does not make a text binary.
func contentOf(b []byte, size int) Content {
	if b == nil {
		return Content{Null: true}
	}
	c := Content{More: max(size-len(b), 0)}
	text := b
	if c.More > 0 {
		for cut := 0; cut < utf8.UTFMax-1 && len(text) > 0; cut++ {
			if r, n := utf8.DecodeLastRune(text); r != utf8.RuneError || n != 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	if printable(text) {
		c.Text, c.More = string(text), c.More+len(b)-len(text)
		return c
	}
	c.Hex = true
	shown := b[:min(len(b), maxHex)]
	c.Text, c.More = hexText(shown), size-len(shown)
	return c
}

// maxHex is the number of bytes shown of binary data: 16 lines.
const maxHex = 256

// printable reports whether all of b is text that a page can show unchanged. Format characters are
// not: some of them show text in another order than it is stored.
func printable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if r != '\n' && r != '\t' && r != '\r' && !unicode.IsGraphic(r) {
			return false
		}
	}
	return true
}

// hexText formats 16 bytes a line, in two halves.
func hexText(b []byte) string {
	var out []byte
	for i, c := range b {
		switch {
		case i > 0 && i%16 == 0:
			out = append(out, '\n')
		case i > 0 && i%8 == 0:
			out = append(out, ' ', ' ')
		case i > 0:
			out = append(out, ' ')
		}
		out = append(out, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
	}
	return string(out)
}

// name cuts a name that a client chose and writes everything that is not graphic as an escape.
func name(s string) string {
	const most = 200
	if len(s) > most {
		return prose(text.Cut(s, most)) + "…"
	}
	return prose(s)
}

// prose formats a text that may contain input of a client: it writes everything that is not graphic
// as an escape.
func prose(s string) string {
	if printable([]byte(s)) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if printable([]byte(s[:n])) {
			b.WriteString(s[:n])
		} else {
			q := strconv.QuoteRuneToASCII(r)
			if r == utf8.RuneError && n == 1 {
				q = strconv.QuoteToASCII(s[:1])
			}
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// phrase is a part of a text: words, or a command in backticks.
type phrase struct {
	Text    string
	Command bool
}

// commands splits a text at its commands. A backtick without a partner is part of the words.
func commands(text string) (all []phrase) {
	add := func(s string, command bool) {
		if s != "" {
			all = append(all, phrase{prose(s), command})
		}
	}
	for {
		words, rest, opened := strings.Cut(text, "`")
		command, after, closed := strings.Cut(rest, "`")
		if !opened || !closed {
			add(text, false)
			return all
		}
		add(words, false)
		add(command, true)
		text = after
	}
}
