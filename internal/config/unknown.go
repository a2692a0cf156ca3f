package config

import "github.com/chronik-io/chronik/internal/text"

// unknown returns the problem of an unknown name.
func unknown(kind, name string, known []string, all string) string {
	if near, ok := text.Closest(name, known); ok {
		return "unknown " + kind + "; did you mean " + near + "?"
	}
	return "unknown " + kind + "; " + all
}
