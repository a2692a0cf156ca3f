package contexts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/text"
)

// envPrefix is the prefix of chronikctl's own variables.
const envPrefix = "CHRONIKCTL_"

// UnknownVariables returns the variables in a list of NAME=value that look like settings but are
// not. A name close to that of a setting is an error: chronikctl would take the value from
// elsewhere and might delete a topic of another cluster.
func UnknownVariables(environ []string) (strange []string, err error) {
	known := []string{EnvContext, EnvFile}
	for _, s := range All() {
		known = append(known, Env(s.Name))
	}
	var bare []string // compare without the common prefix
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
