// Package wrap breaks texts into lines for people: comments of a printed
// configuration file, columns of a terminal.
//
// It knows nothing of what the texts say.
package wrap

import (
	"strings"
	"unicode"
)

// Wrap breaks a text at its spaces into lines of at most width bytes. A word that
// is longer has a line to itself; a text without words has no line. A command in
// backticks is one word and stays as it is: a shell into which its lines were copied
// would run the first one alone.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range words(text) {
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

// words splits a text at its spaces, except between two backticks.
func words(text string) (all []string) {
	open, first := false, -1 // inside backticks; where the word begins, -1 between words
	for i, r := range text {
		if unicode.IsSpace(r) && !open {
			if first >= 0 {
				all, first = append(all, text[first:i]), -1
			}
			continue
		}
		if first < 0 {
			first = i
		}
		if r == '`' {
			open = !open && strings.Contains(text[i+1:], "`")
		}
	}
	if first >= 0 {
		all = append(all, text[first:])
	}
	return all
}
