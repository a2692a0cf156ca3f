package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the settings of logins and rights, as the file writes them. The keys of tls and oauth
// can also be written as a map: tls: {certificate: FILE, key: FILE}.
const (
	KeySecurity         = "security"
	KeySASL             = "sasl"
	KeyClientCerts      = "client.certificates"
	KeyTLSCertificate   = "tls.certificate"
	KeyTLSKey           = "tls.key"
	KeyTLSClientCA      = "tls.client-ca"
	KeyTLSMinVersion    = "tls.min-version"
	KeyTLSCipherSuites  = "tls.cipher-suites"
	KeyTLSRules         = "tls.principal-rules"
	KeyOAuthJWKS        = "oauth.jwks"
	KeyOAuthIssuer      = "oauth.issuer"
	KeyOAuthAudience    = "oauth.audience"
	KeyOAuthClockSkew   = "oauth.clock-skew"
	KeyOAuthPrincipal   = "oauth.principal-claim"
	KeyAuthorization    = "authorization"
	KeySuperUsers       = "super-users"
	KeyAllowEveryone    = "allow.everyone.if.no.acl.found"
	KeyBootstrapUsers   = "bootstrap.users"
	KeyClusterPrincipal = "cluster.principals"
	KeyMaxReauth        = "connections.max.reauth.ms"
	KeyFailedDelay      = "connection.failed.authentication.delay.ms"
	KeyLoginTimeout     = "login.timeout.ms"
	KeyLoginBytes       = "login.max.bytes"
	KeyMaxUnauth        = "max.connections.unauthenticated"
	KeyMaxUnauthPerIP   = "max.connections.unauthenticated.per.ip"
	KeyPlainWithoutTLS  = "sasl.plain.without.tls"
	KeyAuditLog         = "audit.log"
	KeyAuditFile        = "audit.file"
	KeyAdminSecurity    = "admin.security"
	KeyAdminTokenFile   = "admin.token-file"
	KeyAdminClientCA    = "admin.client-ca"
)

// Values of `security` and of `authorization`.
const (
	Plaintext = "plaintext"
	WithTLS   = "tls"
	NoRules   = "none"
	WithACLs  = "acl"
)

// Values of `audit.log` with Off, and of `audit.file`.
const (
	AuditRefusals = "refusals"
	AuditAll      = "all"
	Journald      = "journald"
)

// ClientCertificates reports whether clients of a TLS listener show a certificate.
type ClientCertificates string

// The values of `client-certificates`.
const (
	CertificatesNone    ClientCertificates = "none"    // they are not asked for one
	CertificatesRequest ClientCertificates = "request" // a client without one is anonymous, or logs in with SASL
	CertificatesRequire ClientCertificates = "require" // a client without one is refused
)

// TLS holds the settings of one TLS listener. The files are PEM and have not been read.
type TLS struct {
	Certificate, Key string
	ClientCA         string   // of client certificates; empty: none
	MinVersion       uint16   // tls.VersionTLS12 or 13
	CipherSuites     []uint16 // of TLS 1.2; empty: Go's choice
	// PrincipalRules has the form of Kafka's ssl.principal.mapping.rules; empty: DEFAULT.
	PrincipalRules string
}

// Security holds the settings that all listeners share.
type Security struct {
	// ACL reports whether requests need a right; SuperUsers ("User:admin") have all of them, and
	// AllowEveryone gives everybody those on resources without a rule.
	ACL           bool
	SuperUsers    []string
	AllowEveryone bool
	// BootstrapUsers is the file of the first users; empty for none.
	BootstrapUsers string
	// ClusterPrincipals are those of the other brokers' certificates; empty: this broker's own.
	ClusterPrincipals []string
	OAuth             OAuth
	// MaxReauth is the longest time between two logins of a connection; 0 means no limit.
	MaxReauth time.Duration
	// FailedDelay is the delay of the answer to a first failed login.
	FailedDelay time.Duration
	// LoginTimeout bounds TLS handshake and login together, LoginBytes a frame before the login.
	LoginTimeout time.Duration
	LoginBytes   int
	// MaxUnauthenticated and MaxUnauthenticatedPerIP bound connections that have not logged in.
	MaxUnauthenticated, MaxUnauthenticatedPerIP int
	// PlainWithoutTLS permits passwords and tokens in clear beyond loopback.
	PlainWithoutTLS bool
	// AuditLog is Off, AuditRefusals or AuditAll. AuditFile is a path, Journald, or empty for a
	// file in the data directory.
	AuditLog, AuditFile string
}

// OAuth holds what a token (OAUTHBEARER) has to prove. Without JWKS there is none.
type OAuth struct {
	JWKS             string // a file, or an https URL
	Issuer, Audience string // an empty issuer is not compared
	ClockSkew        time.Duration
	PrincipalClaim   string
}

// AdminSecurity holds the security of the admin port.
type AdminSecurity struct {
	// TLS is nil for plain text. Its ClientCA is that of admin.client-ca.
	TLS *TLS
	// TokenFile holds the token of requests beyond loopback; empty for none.
	TokenFile string
}

// HasTLS reports whether any port uses TLS.
func (c *Config) HasTLS() bool {
	return c.AdminSecurity.TLS != nil || slices.ContainsFunc(c.Listeners, func(l Listener) bool { return l.TLS != nil })
}

// HasSASL reports whether clients of any listener log in.
func (c *Config) HasSASL() bool {
	return slices.ContainsFunc(c.Listeners, func(l Listener) bool { return len(l.SASL) > 0 })
}

// mechanisms returns the SASL mechanisms in the order in which clients prefer them.
func mechanisms() []string { return []string{"SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER", "PLAIN"} }

func (l *loader) bool(name string) bool { return l.value(name) == "true" }

// number returns the value of a setting whose Check has accepted it.
func (l *loader) number(name string) int {
	n, _ := strconv.Atoi(l.value(name)) // Check has accepted it
	return n
}

func (l *loader) milliseconds(name string) time.Duration {
	return time.Duration(l.number(name)) * time.Millisecond
}

// security reads the settings that all listeners share, and checks it together with them.
func (l *loader) security() {
	skew, _ := parseWait(l.value(KeyOAuthClockSkew)) // Check has accepted it
	l.cfg.Security = Security{
		ACL:                     l.value(KeyAuthorization) == WithACLs,
		SuperUsers:              split(l.value(KeySuperUsers), ";"),
		AllowEveryone:           l.bool(KeyAllowEveryone),
		BootstrapUsers:          l.value(KeyBootstrapUsers),
		ClusterPrincipals:       split(l.value(KeyClusterPrincipal), ";"),
		MaxReauth:               l.milliseconds(KeyMaxReauth),
		FailedDelay:             l.milliseconds(KeyFailedDelay),
		LoginTimeout:            l.milliseconds(KeyLoginTimeout),
		LoginBytes:              l.number(KeyLoginBytes),
		MaxUnauthenticated:      l.number(KeyMaxUnauth),
		MaxUnauthenticatedPerIP: l.number(KeyMaxUnauthPerIP),
		PlainWithoutTLS:         l.bool(KeyPlainWithoutTLS),
		AuditLog:                l.value(KeyAuditLog),
		AuditFile:               l.value(KeyAuditFile),
		OAuth: OAuth{
			JWKS: l.value(KeyOAuthJWKS), Issuer: l.value(KeyOAuthIssuer), Audience: l.value(KeyOAuthAudience), ClockSkew: skew,
			PrincipalClaim: l.value(KeyOAuthPrincipal),
		},
	}
	l.keystores()
	for i := range l.cfg.Listeners {
		l.listenerSecurity(i)
	}
	l.adminSecurity()
	if l.source(KeyTLSCertificate) != SourceDefault && !l.cfg.HasTLS() {
		l.cfg.Warnings = append(l.cfg.Warnings, fmt.Sprintf("%s is not used: no listener and not the admin port has %s: %s",
			KeyTLSCertificate, KeySecurity, WithTLS))
	}
	if s := &l.cfg.Security; s.ACL && len(s.SuperUsers) == 0 {
		l.add(l.source(KeyAuthorization), KeyAuthorization,
			"acl without a super user locks everybody out; write super-users: [\"User:admin\"], "+
				"and create that user with `chronikd user add admin` or a file named by "+KeyBootstrapUsers)
	}
}

// listenerSecurity completes one listener and checks it.
func (l *loader) listenerSecurity(i int) {
	x := &l.cfg.Listeners[i]
	where, source := fmt.Sprintf("%s[%d]", keyListeners, i), l.cfg.File
	refuse := func(key, problem string) {
		if i == 0 {
			l.add(l.source(key), key, problem)
		} else {
			l.add(source, where, problem)
		}
	}
	if i == 0 {
		x.security = l.value(KeySecurity)
		if l.source(KeyClientCerts) != SourceDefault {
			x.clientCerts = l.value(KeyClientCerts)
		}
		x.SASL = split(l.value(KeySASL), ",")
	}
	l.protocolOf(x, refuse)
	x.ClientCertificates = ClientCertificates(x.clientCerts)
	if x.clientCerts == "" {
		x.ClientCertificates = CertificatesNone
	}
	if x.security == WithTLS {
		x.TLS = l.tls(x.over)
		switch {
		case x.TLS.Certificate == "" || x.TLS.Key == "":
			refuse(KeySecurity, "tls needs a certificate and its key; write tls: {certificate: FILE, key: FILE}, "+
				"or let `chronikd secure init DIR` make them")
		case x.ClientCertificates != CertificatesNone && x.TLS.ClientCA == "":
			refuse(KeyClientCerts, "client certificates need the authorities that signed them; write "+KeyTLSClientCA+": FILE")
		}
	} else {
		if x.ClientCertificates != CertificatesNone {
			refuse(KeyClientCerts, "client certificates need TLS; write security: tls")
		}
		if len(x.over) > 0 {
			refuse(KeySecurity, "the listener has `tls:` and no TLS; write security: tls, or remove `tls:`")
		}
	}
	for _, m := range x.SASL {
		open := m == "PLAIN" || m == "OAUTHBEARER"
		if open && x.TLS == nil && !l.cfg.Security.PlainWithoutTLS && !Loopback(x.Listen) {
			refuse(KeySASL, m+" without TLS sends the password or the token in clear; write security: tls, or "+KeyPlainWithoutTLS+": true")
		}
		if o := &l.cfg.Security.OAuth; m == "OAUTHBEARER" && (o.JWKS == "" || o.Audience == "") {
			refuse(KeySASL, "OAUTHBEARER needs the keys and the audience of the tokens; write oauth: {jwks: FILE or URL, audience: NAME}")
		}
	}
}

// tls returns the settings of TLS with those of one listener over them.
func (l *loader) tls(over map[string]string) *TLS {
	get := func(name string) string {
		if v, ok := over[strings.TrimPrefix(name, groupTLS+".")]; ok {
			return v
		}
		return l.value(name)
	}
	t := &TLS{Certificate: get(KeyTLSCertificate), Key: get(KeyTLSKey), ClientCA: get(KeyTLSClientCA), MinVersion: tls.VersionTLS12,
		PrincipalRules: get(KeyTLSRules)}
	if get(KeyTLSMinVersion) == "1.3" {
		t.MinVersion = tls.VersionTLS13
	}
	for _, s := range tls.CipherSuites() {
		if slices.Contains(split(get(KeyTLSCipherSuites), ","), s.Name) {
			t.CipherSuites = append(t.CipherSuites, s.ID)
		}
	}
	return t
}

// adminSecurity reads and checks the security of the admin port.
func (l *loader) adminSecurity() {
	a := &l.cfg.AdminSecurity
	a.TokenFile = l.value(KeyAdminTokenFile)
	ca := l.value(KeyAdminClientCA)
	if l.value(KeyAuthorization) == WithACLs && l.cfg.AdminListen != "" && a.TokenFile == "" && ca == "" {
		l.cfg.Warnings = append(l.cfg.Warnings, fmt.Sprintf("with %s: %s and without %s the admin port answers only /healthz and /readyz, "+
			"and refuses /metrics and the rest to everyone, also on this machine; write %s: FILE", KeyAuthorization, WithACLs,
			KeyAdminTokenFile, KeyAdminTokenFile))
	}
	if l.value(KeyAdminSecurity) != WithTLS {
		if ca != "" {
			l.add(l.source(KeyAdminClientCA), KeyAdminClientCA, "client certificates need TLS; write "+KeyAdminSecurity+": tls")
		}
		if a.TokenFile != "" && l.cfg.AdminListen != "" && !Loopback(l.cfg.AdminListen) {
			l.add(l.source(KeyAdminTokenFile), KeyAdminTokenFile, "without TLS the token is sent in clear; write "+KeyAdminSecurity+": tls")
		}
		return
	}
	a.TLS = l.tls(map[string]string{"client-ca": ca})
	if a.TLS.Certificate == "" || a.TLS.Key == "" {
		l.add(l.source(KeyAdminSecurity), KeyAdminSecurity,
			"tls needs a certificate and its key; write tls: {certificate: FILE, key: FILE}")
	}
}

// split returns the parts of a list without blanks and empty parts; nil if there is none.
func split(v, separator string) []string {
	var parts []string
	for p := range strings.SplitSeq(v, separator) {
		if p = strings.TrimSpace(p); p != "" {
			parts = append(parts, p)
		}
	}
	return parts
}

// sasl accepts a list of mechanisms, or nothing.
func sasl(v string) error {
	for _, m := range split(v, ",") {
		if !slices.Contains(mechanisms(), m) {
			return fmt.Errorf("%q is not a mechanism of chronik; use %s", m, strings.Join(mechanisms(), ", "))
		}
	}
	return nil
}

// principals accepts Kafka's form User:NAME;User:NAME, or nothing.
func principals(v string) error {
	for _, p := range split(v, ";") {
		if name, ok := strings.CutPrefix(p, "User:"); !ok || name == "" {
			return fmt.Errorf("%q is not User:NAME; write for example User:admin, and separate several with ;", p)
		}
	}
	return nil
}

func cipherSuites(v string) error {
	for _, name := range split(v, ",") {
		i := slices.IndexFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.Name == name })
		if i < 0 {
			return fmt.Errorf("%q is not a safe cipher suite of TLS 1.2; leave out %s for a good choice", name, KeyTLSCipherSuites)
		}
		if slices.Equal(tls.CipherSuites()[i].SupportedVersions, []uint16{tls.VersionTLS13}) {
			return fmt.Errorf("%q belongs to TLS 1.3, whose suites are all safe and always on; leave it out", name)
		}
	}
	return nil
}

// jwks accepts a file or an https URL: keys that come in clear prove nothing.
func jwks(v string) error {
	scheme, _, url := strings.Cut(v, "://")
	if url && scheme != "https" {
		return fmt.Errorf("%q is neither a file nor an https URL; keys must not come in clear", v)
	}
	return nil
}

func clockSkew(v string) error {
	d, err := parseWait(v)
	if err == nil && (d < 0 || d > time.Hour) {
		return fmt.Errorf("%q is not 0s to 1h", v)
	}
	return err
}

// integer accepts whole numbers in bounds.
func integer(low, high int) func(string) error {
	return func(v string) error {
		if n, err := strconv.Atoi(v); err != nil || n < low || n > high {
			return fmt.Errorf("%q is not a whole number of %d to %d", v, low, high)
		}
		return nil
	}
}

var errJKS = errors.New("key stores of Java are not read; convert it once: openssl pkcs12 -in STORE.p12 -nodes -out server.pem " +
	"(a JKS first: keytool -importkeystore -srckeystore STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12), " +
	"then write tls: {certificate: server.pem, key: server.pem}")

// OnlyStoredUsers reports whether all principals are stored users: clients log in, and neither with
// tokens nor with certificates, whose names no broker knows before.
func (c *Config) OnlyStoredUsers() bool {
	return c.HasSASL() && !slices.ContainsFunc(c.Listeners, func(l Listener) bool {
		return slices.Contains(l.SASL, "OAUTHBEARER") || len(l.SASL) == 0 && l.ClientCertificates != CertificatesNone && l.TLS != nil
	})
}
