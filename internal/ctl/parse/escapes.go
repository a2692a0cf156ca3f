package parse

import (
	"fmt"
	"strconv"
	"strings"
)

// Escapes replaces what a shell makes hard to write: \t, \n, \r, \0, \xHH for a byte, and
// \\ for a backslash. They are those of consume --format.
func Escapes(s string) (string, error) {
	var b strings.Builder
	for {
		plain, rest, found := strings.Cut(s, `\`)
		b.WriteString(plain)
		if !found {
			return b.String(), nil
		}
		n := 1
		switch rest[:min(1, len(rest))] {
		case "t":
			b.WriteByte('\t')
		case "n":
			b.WriteByte('\n')
		case "r":
			b.WriteByte('\r')
		case "0":
			b.WriteByte(0)
		case `\`:
			b.WriteByte('\\')
		case "x":
			n = 3
			v, err := strconv.ParseUint(rest[1:min(3, len(rest))], 16, 8)
			if err != nil || len(rest) < 3 {
				return "", fmt.Errorf(`%q: \x needs two hexadecimal digits, as in \x1f`, s)
			}
			b.WriteByte(byte(v))
		default:
			return "", fmt.Errorf(`%q: after a backslash stands one of t, n, r, 0, xHH or another backslash`, s)
		}
		s = rest[n:]
	}
}
