package config

import "github.com/chronik-io/chronik/internal/nearest"

// unknown returns the problem of an unknown name.
func unknown(kind, name string, known []string, all string) string {
	if near, ok := nearest.Name(name, known); ok {
		return "unknown " + kind + "; did you mean " + near + "?"
	}
	return "unknown " + kind + "; " + all
}
