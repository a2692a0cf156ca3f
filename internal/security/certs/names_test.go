package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// recorded holds what Kafka 4.3.1 and Java 17 made of names and rules: X500Principal.getName, and
// SslPrincipalMapper.getName ("!" for an exception). Kafka refuses an empty list of rules; here it
// means DEFAULT.
type recorded struct {
	Names []struct{ DER, Name string }
	Rules []struct{ Rules, Subject, Name string }
}

func kafkas(t *testing.T) recorded {
	t.Helper()
	b, err := os.ReadFile("testdata/kafka-4.3.1-names.json")
	must.OK(t, err)
	var r recorded
	must.OK(t, json.Unmarshal(b, &r))
	return r
}

func TestNamesAreKafkas(t *testing.T) {
	for _, c := range kafkas(t).Names {
		der, err := hex.DecodeString(c.DER)
		must.OK(t, err)
		if got := name(der); got != c.Name {
			t.Errorf("%s\n is %s\nwant %s", c.DER, got, c.Name)
		}
	}
}

func TestRulesAreKafkas(t *testing.T) {
	for _, c := range kafkas(t).Rules {
		got := "!"
		r, err := ParseRules(c.Rules)
		if err == nil {
			if got, err = r.Apply(c.Subject); err != nil {
				got = "!"
			}
		}
		if got != c.Name {
			t.Errorf("%s of %s\n is %s (%v)\nwant %s", c.Rules, c.Subject, got, err, c.Name)
		}
	}
}

// What Java has and RE2 has not is refused at the start, not at the first login.
func TestRulesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"RULE:(?=x)/a/":                        "without look-around",
		"RULE:a":                               "is not a rule",
		"default":                              "is not a rule",
		"RULE:(a/$1/":                          "missing closing",
		"RULE:a/$x/":                           "needs the number of a group",
		strings.Repeat("DEFAULT,", maxRules+1): "at most 32 rules",
		"RULE:" + strings.Repeat("a", 300) + "//": "at most 32 rules of 256 bytes",
	} {
		if _, err := ParseRules(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
	}
}

// Two values that a certificate keeps apart give two names, and none is empty.
func TestNamesOfPrincipals(t *testing.T) {
	subject, err := asn1.Marshal(pkix.Name{CommonName: "admin"}.ToRDNSequence())
	must.OK(t, err)
	for rules, want := range map[string]string{"": "User:CN=admin", "RULE:CN=(.*)/$1/U": "User:ADMIN", "RULE:.*//": ""} {
		r, err := ParseRules(rules)
		must.OK(t, err)
		if got, err := r.Principal(&x509.Certificate{RawSubject: subject}); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", rules, got, err)
		}
	}
	a := escape(`admin,OU=x`)
	if a == "admin,OU=x" || escape(`admin\`) != `admin\\` {
		t.Errorf("%s", a)
	}
}

func FuzzNames(f *testing.F) {
	seed := pkix.Name{CommonName: `a,b=c\ `, Organization: []string{"o"}, ExtraNames: []pkix.AttributeTypeAndValue{
		{Type: asn1.ObjectIdentifier{1, 2, 3}, Value: "x"}}}
	der, err := asn1.Marshal(seed.ToRDNSequence())
	must.OK(f, err)
	f.Add(der, "RULE:^CN=(.*?),.*$/$1/L,DEFAULT")
	f.Add([]byte{0x30, 0}, "RULE:(a|b)*/\\$$1/U")
	f.Fuzz(func(t *testing.T, der []byte, rules string) {
		subject := name(der)
		if len(subject) > 64*len(der)+64 {
			t.Errorf("%d bytes of DER are %d bytes", len(der), len(subject))
		}
		r, err := ParseRules(rules)
		if err != nil {
			return
		}
		if got, err := r.Apply(subject); err == nil && len(r.rules) == 0 && got != subject {
			t.Errorf("no rules changed %q to %q", subject, got)
		}
	})
}
