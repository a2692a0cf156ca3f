package parse

import "testing"

func TestEscapes(t *testing.T) {
	for in, want := range map[string]string{"": "", ":": ":", `\t`: "\t", `a\n\r\0b`: "a\n\r\x00b", `\\t`: `\t`, `\x1f\x41`: "\x1fA",
		"ä→": "ä→"} {
		if got, err := Escapes(in); err != nil || got != want {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{`\`, `a\`, `\q`, `\x`, `\x1`, `\xgg`, `\x+1`} {
		if got, err := Escapes(in); err == nil {
			t.Errorf("%s is %q", in, got)
		}
	}
}
