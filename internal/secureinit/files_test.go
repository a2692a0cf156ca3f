package secureinit

import "testing"

// Properties are Latin-1 with escapes: a directory may have any name.
func TestPropertiesAreEscaped(t *testing.T) {
	if got := escapeProperty("/home/jürgen/C:\\x/\U0001F600"); got != `/home/j\u00fcrgen/C:\\x/\ud83d\ude00` {
		t.Error(got)
	}
}
