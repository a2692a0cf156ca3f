package text

import "testing"

func TestPlain(t *testing.T) {
	for s, want := range map[string]string{
		"":                     "",
		"größe – 木 😀":          "größe – 木 😀",
		"\x1b[2Ja\u009b":       `\x1b[2Ja\x9b`,
		"a\nb\tc\r":            `a\x0ab\x09c\x0d`,
		"a\xff\x9bb\ufffd":     `a\xff\x9bb` + "\ufffd",
		"a\u202etxt.exe\u202c": `a\u202etxt.exe\u202c`,
		"a\u200bb\u2028c":      `a\u200bb\u2028c`,
	} {
		if got := Plain(s); got != want {
			t.Errorf("%q is shown as %q, want %q", s, got, want)
		}
	}
	if got, want := PlainLines("a\n\tb\x1b\u202e\r\n"), "a\n\tb\\x1b\\u202e\\x0d\n"; got != want {
		t.Errorf("lines: %q, want %q", got, want)
	}
}
