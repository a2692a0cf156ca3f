package text

import "unicode/utf8"

// Cut returns the first most bytes of a text, without a part of a character at the end. A text that
// is not longer is returned as it is. Bytes that are not UTF-8 stay: Plain shows them.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > max(most-utf8.UTFMax, 0) && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
