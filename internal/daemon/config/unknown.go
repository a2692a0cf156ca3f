package config

import "github.com/chronik-io/chronik/internal/text"

// unknown is the problem of a name that is not known.
func unknown(kind, name string, known []string, all string) string {
	if near, ok := text.Closest(name, known); ok {
		return "unknown " + kind + "; did you mean " + near + "?"
	}
	return "unknown " + kind + "; " + all
}
