package resolve

import "testing"

// Directories that would contain one another's files are rejected before anything is created.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		logs, journals string
		well           bool
	}{
		{"d/logs", "", true}, {"a,b", "", true}, {"a, b", "j,k", true}, {"a,b", "j", true}, {"d/logs", "d/logs/journal",
			true}, {"a,ab", "", true},
		{"a,a", "", false}, {"a,./a/", "", false}, {"a,a/b", "", false}, {"a/b,a", "", false}, {"d", "", false}, {"d/metadata", "", false},
		{"a,,b", "", false}, {"a", "j,k", false}, {"a,b", "j,j", false}, {"a,b", ",j", false}, {"a", "a", false}, {"a", "d",
			false}, {"a", "d/metadata", false},
	} {
		err := checkPlaces("d", map[string]string{"log.dirs": c.logs, "journal.dirs": c.journals})
		if (err == nil) != c.well {
			t.Errorf("log.dirs=%s journal.dirs=%s: %v", c.logs, c.journals, err)
		}
	}
}
