package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What is left are whole characters, and no other character would fit.
func TestCut(t *testing.T) {
	const s = "aé€𝄞b"
	for most := range len(s) + 2 {
		got := Cut(s, most)
		rest, isFirst := strings.CutPrefix(s, got)
		_, next := utf8.DecodeRuneInString(rest)
		if !isFirst || !utf8.ValidString(got) || len(got) > most || rest != "" && len(got)+next <= most {
			t.Errorf("%d bytes: %q", most, got)
		}
	}
	// Whatever bytes a client sends, most of them are left.
	for _, s := range []string{strings.Repeat("\xff", 300), strings.Repeat("\x80", 300), "\xf0\x9d" + strings.Repeat("a", 300)} {
		if got := Cut(s, 256); !strings.HasPrefix(s, got) || len(got) > 256 || len(got) < 256-utf8.UTFMax {
			t.Errorf("%q", got)
		}
	}
}
