package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of mapping rules, in rules and bytes.
const (
	maxRules = 32
	maxRule  = 256
)

// Rules turn the subject of a client certificate into the name of a principal. The zero Rules take
// the subject as it is.
type Rules struct{ rules []rule }

type rule struct {
	whole   *regexp.Regexp // the pattern, which must match the whole subject
	pattern *regexp.Regexp // nil: DEFAULT
	replace string         // for Regexp.Expand
	fold    func(string) string
}

// ruleForm is the form of a rule in Kafka's ssl.principal.mapping.rules (SslPrincipalMapper): a
// slash within a part is written \/.
var ruleForm = regexp.MustCompile(`^\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)`)

// ParseRules reads rules in the form of Kafka's ssl.principal.mapping.rules. Patterns are RE2, so
// that no subject makes them slow; what Java has and RE2 has not is refused. An empty text means
// DEFAULT.
func ParseRules(text string) (*Rules, error) {
	r := &Rules{}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		m := ruleForm.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("%q is not a rule; write DEFAULT or RULE:PATTERN/REPLACEMENT/, with L or U at the end for lower or upper case",
				rest)
		}
		rest = rest[len(m[0]):]
		if len(r.rules) == maxRules || len(m[0]) > maxRule {
			return nil, fmt.Errorf("there are at most %d rules of %d bytes", maxRules, maxRule)
		}
		one := rule{}
		if m[1] == "" {
			var err error
			if one, err = parseRule(m[2], m[3], m[4]); err != nil {
				return nil, err
			}
		}
		r.rules = append(r.rules, one)
	}
	return r, nil
}

func parseRule(pattern, replacement, fold string) (rule, error) {
	pattern = strings.ReplaceAll(pattern, `\/`, "/") // RE2 does not know the escape
	p, err := regexp.Compile(pattern)
	if err != nil {
		return rule{}, fmt.Errorf("RULE:%s: %w; patterns have the syntax of RE2, without look-around and back references", pattern,
			errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
	}
	whole, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return rule{}, err
	}
	r := rule{whole: whole, pattern: p}
	if r.replace, err = template(replacement, p.NumSubexp()); err != nil {
		return rule{}, fmt.Errorf("RULE:%s/%s: %w", pattern, replacement, err)
	}
	switch fold {
	case "L":
		r.fold = strings.ToLower
	case "U":
		r.fold = strings.ToUpper
	}
	return r, nil
}

// template converts a replacement of Java's to one of Go's: $1 is a group, a reference to a group
// that does not exist is text, and \c is c.
func template(java string, groups int) (string, error) {
	var b strings.Builder
	for i := 0; i < len(java); i++ {
		switch c := java[i]; {
		case c == '\\' && i+1 < len(java):
			i++
			writeLiteral(&b, java[i])
		case c == '$':
			n := 0
			for n < len(java)-i-1 && java[i+1+n] >= '0' && java[i+1+n] <= '9' {
				n++
			}
			if n == 0 {
				return "", errors.New("a $ needs the number of a group; write \\$ for the character")
			}
			// As Java, the longest number that is a group.
			digits := n
			for ; digits > 0; digits-- {
				if g, err := strconv.Atoi(java[i+1 : i+1+digits]); err == nil && g <= groups {
					break
				}
			}
			if digits == 0 {
				b.WriteString("$$" + java[i+1:i+1+n])
			} else {
				b.WriteString("${" + java[i+1:i+1+digits] + "}" + java[i+1+digits:i+1+n])
			}
			i += n
		default:
			writeLiteral(&b, c)
		}
	}
	return b.String(), nil
}

func writeLiteral(b *strings.Builder, c byte) {
	if c == '$' {
		b.WriteByte('$') // Go's escape
	}
	b.WriteByte(c)
}

// Apply returns the name for a subject: that of the first rule whose pattern matches all of it.
func (r *Rules) Apply(subject string) (string, error) {
	if r == nil || len(r.rules) == 0 {
		return subject, nil
	}
	for _, one := range r.rules {
		if one.pattern == nil {
			return subject, nil
		}
		if !one.whole.MatchString(subject) {
			continue
		}
		name := one.pattern.ReplaceAllString(subject, one.replace)
		if one.fold != nil {
			name = one.fold(name)
		}
		return name, nil
	}
	return "", fmt.Errorf("no rule of tls.principal-rules matches the subject %q of the client's certificate", subject)
}

// Principal returns the principal of a verified client certificate. Package network checks that its
// name can be a user's.
func (r *Rules) Principal(c *x509.Certificate) (string, error) {
	subject := DN(c)
	if subject == "" {
		return "", errors.New("the client's certificate has no subject")
	}
	name, err := r.Apply(subject)
	if err != nil {
		return "", err
	}
	if name == "" {
		return "", fmt.Errorf("tls.principal-rules make an empty name of the subject %q of the client's certificate", subject)
	}
	return "User:" + name, nil
}
