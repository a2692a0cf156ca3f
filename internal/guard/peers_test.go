package guard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestSecretsOfTheCluster(t *testing.T) {
	one, two := strings.Repeat("1", 32), strings.Repeat("2", 32)
	for text, want := range map[string]string{
		one:                                   "",
		"\n " + one + "\r\n" + two + "\n\n":   "",
		"":                                    "it is empty",
		"\n":                                  "it is empty",
		one + "\nshort\n":                     "a line has 5 characters",
		one + "\n" + two + "\n" + one + "two": "it has 3 lines",
	} {
		name := filepath.Join(t.TempDir(), "secret")
		must.OK(t, os.WriteFile(name, []byte(text), 0o600))
		all, err := ReadSecrets(name)
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "write 32 random") == strings.Contains(want, "lines")) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if want == "" && (err != nil || string(all[0].Bytes()) != one || len(all) == 2 && string(all[1].Bytes()) != two) {
			t.Errorf("%q: %d, %v", text, len(all), err)
		}
	}
}
