package cluster

import (
	"regexp"
	"strings"

	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// masked replaces a secret.
const masked = "***"

// redactor masks secrets. Brokers do not send the values of configs of type password, but a secret
// may be in a log line, mount options or a command line.
type redactor struct{ known []string }

// minSecret is the minimum length of a known secret to search for. A shorter one would match
// ordinary words.
const minSecret = 4

// newRedactor returns a redactor that knows the secrets of this run.
func newRedactor(a *app.App) *redactor {
	r := &redactor{}
	for _, ask := range []func() (secret.Secret, error){a.Settings.Password, a.Settings.AdminToken} {
		if s, err := ask(); err == nil && s.Len() >= minSecret { // a password that cannot be read is in no answer either
			r.known = append(r.known, string(s.Bytes()))
		}
	}
	return r
}

var (
	// named matches name=value, name: value and "name":"value" if the name suggests a secret. A
	// quoted value ends at its quote, another one at a space, comma or bracket.
	named = regexp.MustCompile(
		`(?i)((?:password|passwd|passphrase|secret|credential|token|sasl\.jaas\.config|api[-_.]?key)[\w.-]*\\?["']?\s*[:=]\s*)` +
			`(\\?"(?:[^"\\]|\\[^"])*\\?"|'[^']*'|[^\s,;"'{}\[\]]+)`)
	// valued matches the value in {"key":"…password","value":"…"}.
	valued = regexp.MustCompile(
		`(?i)("(?:key|name)"\s*:\s*"[^"]*(?:password|passwd|passphrase|secret|credential|token|jaas)[^"]*"\s*,\s*"value"\s*:\s*)"(?:[^"\\]|\\.)*"`)
	// inURL matches a password in a URL, which may contain an @.
	inURL = regexp.MustCompile(`(://[^/\s:@"']*:)[^/\s"']+@`)
	// private matches a PEM key, also within JSON.
	private = regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----)`)
	bearer  = regexp.MustCompile(`(?i)(bearer\s+)[\w.~+/=-]{8,}`)
)

// mask replaces the secrets in a text and returns their number.
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
			return g[0] // not a secret, but whether there is one
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
