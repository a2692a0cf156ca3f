package metadata

import "testing"

func TestIDTextRoundTrips(t *testing.T) {
	for range 1000 {
		id := NewID()
		s := FormatID(id)
		if len(s) != 22 || s[0] == '-' {
			t.Fatalf("text %q", s)
		}
		if back, err := ParseID(s); err != nil || back != id {
			t.Fatalf("ParseID(%q) = %v, %v", s, back, err)
		}
	}
}

func TestParseIDRefusesNonCanonicalText(t *testing.T) {
	for _, s := range []string{"", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB", "AAAAAAAAAAAAAAAAAAAA+A",
		"AAAAAAAAAAAAAAAAAAAA\nA"} {
		if id, err := ParseID(s); err == nil {
			t.Errorf("ParseID(%q) = %v, want an error", s, id)
		}
	}
}
