package secureinit

import (
	"strings"
	"testing"
)

// Properties are Latin-1 with escapes: a directory may have any name.
func TestPropertiesAreEscaped(t *testing.T) {
	if got := escapeProperty("/home/jürgen/C:\\x/\U0001F600"); got != `/home/j\u00fcrgen/C:\\x/\ud83d\ude00` {
		t.Error(got)
	}
}

// A password may have any characters; Java reads the settings first as properties, then as JAAS.
func TestPasswordsAreEscapedTwice(t *testing.T) {
	got := clientProperties("/d", []nodePlan{{}}, `a"b\c`)
	if want := `username="admin" password="a\\"b\\\\c";`; !strings.Contains(got, want) {
		t.Errorf("%s\nhas no %s", got, want)
	}
}
