package text

import (
	"fmt"
	"strings"
	"unicode"
)

// Plain escapes control characters, so that a text stays on its line and cannot affect a terminal.
func Plain(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
