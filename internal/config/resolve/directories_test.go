package resolve

import (
	"testing"

	"github.com/chronik-io/chronik/internal/config"
)

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

// An object store in a directory of the broker would be lost together with it.
func TestAnArchiveIsNoDirectoryOfTheBroker(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	for url, well := range map[string]bool{
		"": true, "s3://b/data": true, "file:///backups": true, "file://" + here + "/database": true, "file://" + here: true,
		"file://" + here + "/data": false, "file://" + here + "/data/archive": false, "file:///l/one": false, "file:///l/one/x": false,
		"file:///l": true, "file:///j/x/": false,
	} {
		err := checkPlaces("data", map[string]string{"log.dirs": "/l/one,/l/two", "journal.dirs": "/j", "archive.url": url})
		if (err == nil) != well {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// The default of log.dirs is a list that is made of data.dir. With log directories of their own, a
// name with a comma is no problem.
func TestTheDefaultListOfLogDirectories(t *testing.T) {
	for data, ok := range map[string]bool{"a": true, "a,b": false, " a": false, "a b": true} {
		in := config.Input{Flags: map[string]string{config.KeyDataDir: data}}
		if _, err := Load(in); (err == nil) != ok {
			t.Errorf("%q: %v", data, err)
		}
		in.Set = []string{"log.dirs=elsewhere"}
		if _, err := Load(in); err != nil {
			t.Errorf("%q: %v", data, err)
		}
	}
}
