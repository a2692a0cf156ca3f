package cluster

import (
	"regexp"
	"strings"

	"github.com/chronik-io/chronik/internal/ctl/app"
)

// masked stands instead of a secret.
const masked = "***"

// redactor masks secrets. Brokers send no value of a config of type password; this is for
// what reaches a log line, a mount's options or a command line nevertheless.
type redactor struct{ known []string }

// leastSecret is how long a known secret must be to be searched for: a shorter one would be
// found in words that are none.
const leastSecret = 4

// newRedactor knows the secrets of this run.
func newRedactor(a *app.App) *redactor {
	r := &redactor{}
	if p, err := a.Settings.Password(); err == nil && len(p) >= leastSecret { // one that cannot be read is in no answer either
		r.known = append(r.known, p)
	}
	return r
}

var (
	// named is name=value, name: value and "name":"value" of a name that holds a secret. A
	// value in quotes ends with them, another one at a space, comma or bracket.
	named = regexp.MustCompile(`(?i)((?:password|passwd|passphrase|secret|credential|token|sasl\.jaas\.config|api[-_.]?key)[\w.-]*\\?["']?\s*[:=]\s*)` +
		`(\\?"(?:[^"\\]|\\[^"])*\\?"|'[^']*'|[^\s,;"'{}\[\]]+)`)
	// valued is the value that follows in {"key":"…password","value":"…"}.
	valued = regexp.MustCompile(`(?i)("(?:key|name)"\s*:\s*"[^"]*(?:password|passwd|passphrase|secret|credential|token|jaas)[^"]*"\s*,\s*"value"\s*:\s*)"(?:[^"\\]|\\.)*"`)
	// inURL is the password of an address; it may have an @ itself.
	inURL = regexp.MustCompile(`(://[^/\s:@"']*:)[^/\s"']+@`)
	// private is a key in PEM, also within a JSON text.
	private = regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----)`)
	bearer  = regexp.MustCompile(`(?i)(bearer\s+)[\w.~+/=-]{8,}`)
)

// mask replaces the secrets of a text and reports how many there were.
func (r *redactor) mask(text []byte) (clean []byte, n int) {
	s := string(text)
	for _, secret := range r.known {
		n += strings.Count(s, secret)
		s = strings.ReplaceAll(s, secret, masked)
	}
	replace := func(re *regexp.Regexp, with func(groups []string) string) {
		s = re.ReplaceAllStringFunc(s, func(found string) string {
			to := with(re.FindStringSubmatch(found))
			if to != found {
				n++
			}
			return to
		})
	}
	replace(private, func(g []string) string { return g[1] + masked + g[2] })
	replace(valued, func(g []string) string { return g[1] + `"` + masked + `"` })
	replace(named, func(g []string) string {
		switch v := g[2]; {
		case v == "null", v == "true", v == "false", v == masked:
			return g[0] // it says whether there is one
		case strings.HasPrefix(v, `\"`):
			return g[1] + `\"` + masked + `\"`
		case v[0] == '"', v[0] == '\'':
			return g[1] + v[:1] + masked + v[:1]
		}
		return g[1] + masked
	})
	replace(inURL, func(g []string) string { return g[1] + masked + "@" })
	replace(bearer, func(g []string) string { return g[1] + masked })
	return []byte(s), n
}
