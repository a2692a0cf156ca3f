package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain escapes what a terminal may interpret instead of showing it: control characters, also line
// ends, invalid bytes, and characters without a shape of their own, such as those that reverse the
// direction of what follows. So a text stays on its line and cannot affect a terminal.
func Plain(s string) string { return plain(s, "") }

// PlainLines is Plain for a text of several lines: their ends and tabs stay.
func PlainLines(s string) string { return plain(s, "\n\t") }

func plain(s, allowed string) string {
	var b strings.Builder
	for at := 0; at < len(s); {
		r, n := utf8.DecodeRuneInString(s[at:])
		switch {
		case strings.ContainsRune(allowed, r):
			b.WriteRune(r)
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[at])
		case unicode.IsControl(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		at += n
	}
	return b.String()
}
