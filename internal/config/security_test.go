package config

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"
)

const withCertificate = "tls: {certificate: s.pem, key: k.pem, client-ca: ca.pem}\n"

// The keys of a listener and of tls arrive as one checked value; a listener's own `tls:` goes over
// the common one key by key.
func TestSecurityOfListeners(t *testing.T) {
	c, err := load(withCertificate + "authorization: acl\nsuper-users: [\"User:CN=a,O=b\", \"User:admin\"]\nlisteners:\n" +
		"- {name: clients, listen: ':9093', security: tls, sasl: [SCRAM-SHA-512, PLAIN], tls: {min-version: '1.3', key: own.pem}}\n" +
		"- {name: peers, listen: ':9095', security: tls, client-certificates: require}\n" +
		"- {name: open, listen: '127.0.0.1:9092'}\n")
	loaded(t, c, err)
	one, two, three := c.Listeners[0], c.Listeners[1], c.Listeners[2]
	if !slices.Equal(one.SASL, []string{"SCRAM-SHA-512", "PLAIN"}) || one.TLS == nil || one.TLS.Key != "own.pem" ||
		one.TLS.Certificate != "s.pem" || one.TLS.MinVersion != tls.VersionTLS13 {
		t.Errorf("first: %+v %+v", one, one.TLS)
	}
	if two.ClientCertificates != CertificatesRequire || two.TLS.Key != "k.pem" || two.TLS.ClientCA != "ca.pem" ||
		two.TLS.MinVersion != tls.VersionTLS12 {
		t.Errorf("second: %+v %+v", two, two.TLS)
	}
	if three.TLS != nil || three.SASL != nil || three.ClientCertificates != CertificatesNone {
		t.Errorf("third: %+v", three)
	}
	s := c.Security
	if !s.ACL || !slices.Equal(s.SuperUsers, []string{"User:CN=a,O=b", "User:admin"}) {
		t.Errorf("rights: %+v", s)
	}
}

func TestSecurityIsOffByDefault(t *testing.T) {
	c, err := load("")
	loaded(t, c, err)
	s := c.Security
	if l := c.Listeners[0]; l.TLS != nil || l.SASL != nil || l.ClientCertificates != CertificatesNone || s.ACL ||
		c.AdminSecurity.TLS != nil {
		t.Errorf("%+v %+v", l, s)
	}
	if s.LoginTimeout != 10*time.Second || s.LoginBytes != 64<<10 || s.MaxUnauthenticated != 1000 || s.MaxUnauthenticatedPerIP != 64 ||
		s.MaxReauth != 0 || s.FailedDelay != 100*time.Millisecond || s.OAuth.ClockSkew != 30*time.Second ||
		s.OAuth.PrincipalClaim != "sub" {
		t.Errorf("%+v", s)
	}
}

// One listener without a list, as containers configure it.
func TestSecurityFromVariables(t *testing.T) {
	c, err := load("", env("CHRONIK_SECURITY=tls", "CHRONIK_SASL=SCRAM-SHA-256", "CHRONIK_TLS_CERTIFICATE=s", "CHRONIK_TLS_KEY=k",
		"CHRONIK_TLS_CLIENT_CA=c", "CHRONIK_CLIENT_CERTIFICATES=request", "CHRONIK_SUPER_USERS=User:a;User:b",
		"CHRONIK_LOGIN_TIMEOUT_MS=5s"))
	loaded(t, c, err)
	l := c.Listeners[0]
	if l.TLS == nil || l.TLS.Certificate != "s" || !slices.Equal(l.SASL, []string{"SCRAM-SHA-256"}) ||
		l.ClientCertificates != CertificatesRequest || len(c.Security.SuperUsers) != 2 || c.Security.LoginTimeout != 5*time.Second {
		t.Errorf("%+v %+v", l, c.Security)
	}
}

// A server.properties whose lines mean the same works with the same result as the short names.
func TestKafkasNamesOfSecurity(t *testing.T) {
	c, err := load("listeners: [{name: CLIENTS, listen: ':9093'}, {name: IN, listen: ':9094'}]\n"+
		"listener.security.protocol.map: CLIENTS:SASL_SSL,IN:SSL\nsasl.enabled.mechanisms: SCRAM-SHA-512\n"+
		"ssl.keystore.type: PEM\nssl.keystore.location: both.pem\nssl.truststore.type: PEM\nssl.truststore.location: ca.pem\n"+
		"ssl.enabled.protocols: TLSv1.3\nauthorizer.class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"+
		"super.users: User:admin;User:other\nsasl.server.max.receive.size: 4096\n",
		env("CHRONIK_SSL_CLIENT_AUTH=required"), sets("sasl.oauthbearer.clock.skew.seconds=7"))
	loaded(t, c, err)
	one, two := c.Listeners[0], c.Listeners[1]
	if one.TLS == nil || one.TLS.Certificate != "both.pem" || one.TLS.Key != "both.pem" || one.TLS.ClientCA != "ca.pem" ||
		one.TLS.MinVersion != tls.VersionTLS13 || !slices.Equal(one.SASL, []string{"SCRAM-SHA-512"}) ||
		one.ClientCertificates != CertificatesNone { // KIP-684
		t.Errorf("first: %+v %+v", one, one.TLS)
	}
	if two.TLS == nil || two.SASL != nil || two.ClientCertificates != CertificatesRequire {
		t.Errorf("second: %+v", two)
	}
	s := c.Security
	if !s.ACL || len(s.SuperUsers) != 2 || s.LoginBytes != 4096 || s.OAuth.ClockSkew != 7*time.Second {
		t.Errorf("%+v", s)
	}
}

func TestMistakesOfSecurity(t *testing.T) {
	for _, c := range []struct {
		file string
		want string // the whole line without the file's name
	}{
		{"listeners: [{listen: ':1', security: tls}]", "security: tls needs a certificate and its key"},
		{"listeners: [{listen: ':1', security: ssl}]", `listeners[0].security: "ssl" is not valid; use one of plaintext, tls`},
		{"listeners: [{listen: ':1', sasl: [PLAIN]}]", "sasl: PLAIN without TLS sends the password"},
		{"listeners: [{listen: ':1', sasl: [GSSAPI]}]", `"GSSAPI" is not a mechanism of chronik; use SCRAM-SHA-512`},
		{"listeners: [{listen: ':1', client-certificates: require}]", "client.certificates: client certificates need TLS"},
		{"tls: {certificate: a, key: b}\nlisteners: [{listen: ':1', security: tls, client-certificates: require}]",
			"client certificates need the authorities that signed them"},
		{"listeners: [{listen: ':1', tls: {key: a}}]", "the listener has `tls:` and no TLS"},
		{"listeners: [{listen: ':1', security: tls, tls: {min-version: '1.1'}}]", `listeners[0].tls.min-version: "1.1" is not valid`},
		{"listeners: [{listen: ':1', sasl: [OAUTHBEARER]}]\nsasl.plain.without.tls: true", "OAUTHBEARER needs the keys and the audience"},
		{"tls: {certificat: a}", "tls.certificat: unknown key; did you mean certificate?"},
		{"tls: {key: a}\ntls.key: b", "tls.key: is there twice"},
		{"sasl: [PLAIN]", "in the file this belongs to the first entry of `listeners:`; write listeners: [{sasl: [SCRAM-SHA-512]}]"},
		{"authorization: acl", "acl without a super user locks everybody out"},
		{"super-users: [admin]", `"admin" is not User:NAME`},
		{"super.users: User:a\nsuper-users: User:b", "super.users: is Kafka's name of super-users, which the file has too"},
		{"ssl.keystore.location: k.jks", "ssl.keystore.location: is a Java key store unless ssl.keystore.type is PEM"},
		{"ssl.keystore.type: JKS", "openssl pkcs12 -in STORE.p12"},
		{"ssl.enabled.protocols: TLSv1.1,TLSv1.2", `ssl.enabled.protocols: "TLSv1.1" is not safe`},
		{"ssl.client.auth: want", `ssl.client.auth: "want" is not valid; use one of none, requested, required`},
		{"authorizer.class.name: com.example.Mine", "chronik loads no classes; write authorization: acl"},
		{"sasl.server.max.receive.size: 1", "sasl.server.max.receive.size: \"1\" is not a whole number of 1024"},
		{"sasl.enabled.mechanisms: PLAIN", "says not which listeners"},
		{"listener.security.protocol.map: default:TLS", `"TLS" is not a protocol`},
		{"listener.security.protocol.map: default:SASL_PLAINTEXT", "SASL_PLAINTEXT needs mechanisms"},
		{"listener.name.in.ssl.client.auth: required", "write the setting in the entry of `listeners:` whose name is in"},
		{"tls: {cipher-suites: [TLS_RSA_WITH_RC4_128_SHA]}", "is not a safe cipher suite"},
		{"tls: {cipher-suites: [TLS_AES_128_GCM_SHA256]}", "belongs to TLS 1.3"},
		{"oauth: {jwks: 'http://a/keys'}", "keys must not come in clear"},
		{"oauth: {clock-skew: 2h}", "is not 0s to 1h"},
		{"admin.client-ca: a", "client certificates need TLS; write admin.security: tls"},
		{"admin.listen: ':9644'\nadmin.token-file: a", "without TLS the token is sent in clear"},
		{"admin.security: tls", "tls needs a certificate and its key"},
	} {
		_, err := load(c.file + "\n")
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\n  says %v\n  want %s", c.file, err, c.want)
		}
	}
}

// What is refused beyond loopback is allowed on it, and where the operator forces it.
func TestPlainWithoutTLS(t *testing.T) {
	for _, file := range []string{
		"listeners: [{listen: '127.0.0.1:1', sasl: [PLAIN]}]",
		"listeners: [{listen: 'localhost:1', sasl: [PLAIN]}]",
		"listeners: [{listen: ':1', sasl: [PLAIN]}]\nsasl.plain.without.tls: true",
		"listeners: [{listen: ':1', sasl: [SCRAM-SHA-512]}]",
	} {
		if _, err := load(file + "\n"); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestUsersThatAreNotStored(t *testing.T) {
	for _, c := range []struct {
		listeners []Listener
		stored    bool
	}{
		{[]Listener{{}}, false},
		{[]Listener{{SASL: []string{"SCRAM-SHA-512"}}, {ClientCertificates: CertificatesNone}}, true},
		{[]Listener{{SASL: []string{"SCRAM-SHA-512", "OAUTHBEARER"}}}, false},
		{[]Listener{{SASL: []string{"PLAIN"}}, {TLS: new(TLS), ClientCertificates: CertificatesRequest}}, false},
	} {
		if got := (&Config{Listeners: c.listeners}).OnlyStoredUsers(); got != c.stored {
			t.Errorf("%+v: %v", c.listeners, got)
		}
	}
}

// A certificate that nothing uses is a warning: the operator who wrote it expects TLS.
func TestACertificateThatIsNotUsed(t *testing.T) {
	for _, x := range []struct {
		name, file string
		warned     bool
	}{
		{"plaintext", "tls: {certificate: c.pem, key: k.pem}\n", true},
		{"tls", "tls: {certificate: c.pem, key: k.pem}\nlisteners: [{name: a, security: tls}]\n", false},
		{"admin port", "tls: {certificate: c.pem, key: k.pem}\nadmin.security: tls\n", false},
		{"none", "", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, err := load(x.file)
			loaded(t, c, err)
			warned := slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "tls.certificate is not used") })
			if warned != x.warned {
				t.Errorf("warnings %q", c.Warnings)
			}
		})
	}
}
