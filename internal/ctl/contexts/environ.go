package contexts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/text"
)

// envPrefix begins every variable that is chronikctl's alone.
const envPrefix = "CHRONIKCTL_"

// Strange are the variables, of a list of NAME=value, that look like a setting's
// and that nobody reads. One that is like a setting's is an error: what it was to
// say would be taken from elsewhere, and a topic of another cluster be deleted.
func Strange(environ []string) (strange []string, err error) {
	known := []string{EnvContext, EnvFile}
	for _, s := range All() {
		known = append(known, Env(s.Name))
	}
	var bare []string // with the prefix all names would be alike
	for _, k := range known {
		bare = append(bare, strings.TrimPrefix(k, envPrefix))
	}
	for _, kv := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(kv, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || value == "" || slices.Contains(known, name) {
			continue
		}
		if near, ok := text.Closest(rest, bare); ok {
			return nil, fmt.Errorf("there is no variable %s; did you mean %s%s?", name, envPrefix, near)
		}
		strange = append(strange, name)
	}
	return strange, nil
}
