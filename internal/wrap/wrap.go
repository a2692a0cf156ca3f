// Package wrap breaks texts into lines for people: comments of a printed
// configuration file, columns of a terminal.
//
// It knows nothing of what the texts say.
package wrap

import "strings"

// Text breaks a text at its spaces into lines of at most width bytes. A word that
// is longer has a line to itself; a text without words has no line.
func Text(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
