package secureinit

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestFormatOfRosterIsFixed(t *testing.T) {
	r := roster{{1, []string{"a.example.com", "10.0.0.1"}}, {2, nil}, {17, []string{"[::1]"}}}
	want := rosterHead + "1 a.example.com 10.0.0.1\n2\n17 [::1]\n"
	if got := string(r.text()); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got, err := parseRoster(strings.ReplaceAll(want, "\n", "\r\n"))
	if must.OK(t, err); len(got) != 3 || !reflect.DeepEqual(got[0], r[0]) || got[1].id != 2 || !reflect.DeepEqual(got[2], r[2]) {
		t.Errorf("%v", got)
	}
}

// FuzzRoster parses any text, and what it has found again from the text that it writes.
func FuzzRoster(f *testing.F) {
	f.Add("1 a b\n")
	f.Add("# text\n\n02\tx\n")
	f.Add("0 a")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRoster(text)
		if err != nil {
			return
		}
		again, err := parseRoster(string(r.text()))
		if must.OK(t, err); !bytes.Equal(again.text(), r.text()) {
			t.Fatalf("%q: %v, then %v", text, r, again)
		}
	})
}
