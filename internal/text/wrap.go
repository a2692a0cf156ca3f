// Package text formats texts for people: it wraps lines, writes sizes and counts, and finds
// the known name closest to an unknown one.
//
// The broker and the command-line tools share it. A size never reads as more than it is, and a text
// that Plain has escaped never controls a terminal. It does not know what the texts say.
package text

import (
	"strings"
	"unicode"
)

// Wrap breaks s at its spaces into lines of at most width bytes. A longer word gets a line of
// its own; a text without words has no lines. Wrap never breaks a command in backticks: a
// shell would run only its first line.
func Wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range words(s) {
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

// words splits s at its spaces, except between two backticks.
func words(s string) (all []string) {
	open, first := false, -1 // inside backticks; start of the word, -1 between words
	for i, r := range s {
		if unicode.IsSpace(r) && !open {
			if first >= 0 {
				all, first = append(all, s[first:i]), -1
			}
			continue
		}
		if first < 0 {
			first = i
		}
		if r == '`' {
			open = !open && strings.Contains(s[i+1:], "`")
		}
	}
	if first >= 0 {
		all = append(all, s[first:])
	}
	return all
}
