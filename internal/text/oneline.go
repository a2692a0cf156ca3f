package text

import "strings"

// OneLine joins lines for messages that must be one line.
func OneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }
