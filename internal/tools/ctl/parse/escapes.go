package parse

import (
	"fmt"
	"strconv"
	"strings"
)

// Escapes replaces the escapes \t, \n, \r, \0, \xHH (a byte) and \\, as consume --format does.
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
			return "", fmt.Errorf(`%q: a backslash must be followed by t, n, r, 0, xHH or another backslash`, s)
		}
		s = rest[n:]
	}
}
