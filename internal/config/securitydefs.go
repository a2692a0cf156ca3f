package config

import (
	"math"
	"strings"
)

// securityDefs returns the settings of TLS, logins and rights in reading order.
func securityDefs() []Def {
	truth := oneOf([]string{"true", "false"})
	list := func(all ...string) string { return strings.Join(all, ", ") }
	defs := []Def{
		{Name: KeySecurity, Default: Plaintext, Type: "string", Bounds: list(Plaintext, WithTLS),
			Check: oneOf([]string{Plaintext, WithTLS}),
			Doc:   "Whether the listener uses TLS, with the certificate of tls.certificate. In the file, it is the `security` of each entry of `listeners:`; here it is that of the first."},
		{Name: KeySASL, Default: "", Type: "list", Bounds: list(mechanisms()...), Check: sasl,
			Doc: "The SASL mechanisms with which clients of the listener log in; empty means that they do not log in. In the file, it is the `sasl` of each entry of `listeners:`."},
		{Name: KeyClientCerts, Default: string(CertificatesNone), Type: "string",
			Bounds: list(string(CertificatesNone), string(CertificatesRequest), string(CertificatesRequire)), Check: clientCertificates,
			Doc: "Whether clients of a TLS listener show a certificate of tls.client-ca. Its name becomes their principal unless they log in with SASL. In the file, it is the `client-certificates` of each entry of `listeners:`."},
		{Name: KeyTLSCertificate, Default: "", Type: "string", Bounds: "PEM file",
			Doc: "The server's certificate, followed by those of the authorities between it and the root. " +
				"A changed file is read within a second, or at once on SIGHUP; connections stay."},
		{Name: KeyTLSKey, Default: "", Type: "string", Bounds: "PEM file",
			Doc: "The key of tls.certificate, not encrypted. Only the broker's user may be able to read it."},
		{Name: KeyTLSClientCA, Default: "", Type: "string", Bounds: "PEM file",
			Doc: "The certificates of the authorities whose client certificates are accepted."},
		{Name: KeyTLSMinVersion, Default: "1.2", Type: "string", Bounds: "1.2, 1.3", Check: oneOf([]string{"1.2", "1.3"}),
			Doc: "The lowest version of TLS."},
		{Name: KeyTLSCipherSuites, Default: "", Type: "list", Bounds: "IANA's names of suites of TLS 1.2", Check: cipherSuites,
			Doc: "The cipher suites of TLS 1.2; empty means the safe ones. Those of TLS 1.3 cannot be chosen."},
		{Name: KeyTLSRules, Default: "DEFAULT", Type: "string", Bounds: "at most 32 rules: DEFAULT or RULE:PATTERN/REPLACEMENT/[LU]",
			Doc: "How the subject of a client certificate becomes the principal's name, in the form of Kafka's ssl.principal.mapping.rules with the expressions of RE2. The first rule that matches applies; if none does, the client is refused."},
	}
	defs = append(defs, oauthDefs()...)
	return append(defs, []Def{
		{Name: KeyAuthorization, Default: NoRules, Type: "string", Bounds: list(NoRules, WithACLs),
			Check: oneOf([]string{NoRules, WithACLs}),
			Doc:   "Whether requests need rights: none permits everything to every client, acl only what the stored rules and super-users grant."},
		{Name: KeySuperUsers, Default: "", Type: "list", Bounds: "User:NAME, separated by ;", Check: principals,
			Doc: "The principals that may do everything. They come from here only: no client can change them."},
		{Name: KeyAllowEveryone, Default: "false", Type: "boolean", Bounds: "true, false", Check: truth,
			Doc: "Whether everybody may use a resource that no stored rule names."},
		{Name: KeyBootstrapUsers, Default: "", Type: "string", Bounds: "file of lines NAME:MECHANISM:PASSWORD",
			Doc: "The first users. The file is read once, when the cluster's metadata is written for the first time; $CREDENTIALS_DIRECTORY/chronik-users is read without this setting."},
		{Name: KeyClusterPrincipal, Default: "", Type: "list", Bounds: "User:NAME, separated by ;", Check: principals, Live: LiveBySIGHUP,
			Doc: "The principals of the certificates that other brokers of the cluster show. Empty means the subject of this broker's own certificate. Connections of brokers that a changed list leaves out end."},
		{Name: KeyMaxReauth, Default: "0", Type: "long", Bounds: "0 to 2147483647", Check: integer(0, math.MaxInt32),
			Doc: "The number of milliseconds after which a client that logged in with SASL must log in again (KIP-368); 0 means never. One hour is a good value."},
		{Name: KeyFailedDelay, Default: "100", Type: "int", Bounds: "0 to 5000", Check: integer(0, 5000),
			Doc: "The number of milliseconds by which the answer to a failed login is delayed. It doubles with each further failure from an address, up to 5 seconds; 0 means no delay."},
		{Name: KeyLoginTimeout, Default: "10000", Type: "int", Bounds: "100 to 600000", Check: integer(100, 600_000),
			Doc: "The number of milliseconds that a client has for the TLS handshake and the login together."},
		{Name: KeyLoginBytes, Default: "65536", Type: "int", Bounds: "1024 to 1048576", Check: integer(1024, 1<<20),
			Doc: "The maximum number of bytes of a request before the login."},
		{Name: KeyMaxUnauth, Default: "1000", Type: "int", Bounds: "1 to 2147483647", Check: integer(1, math.MaxInt32),
			Doc: "The maximum number of connections that have not completed the TLS handshake and the login."},
		{Name: KeyMaxUnauthPerIP, Default: "64", Type: "int", Bounds: "1 to 2147483647", Check: integer(1, math.MaxInt32),
			Doc: "The maximum number of such connections from one address."},
		{Name: KeyPlainWithoutTLS, Default: "false", Type: "boolean", Bounds: "true, false", Check: truth,
			Doc: "Whether a listener beyond loopback may offer PLAIN or OAUTHBEARER without TLS. Everybody on the path then reads the passwords or tokens."},
		{Name: KeyAuditLog, Default: Off, Type: "string", Bounds: list(Off, AuditRefusals, AuditAll),
			Check: oneOf([]string{Off, AuditRefusals, AuditAll}),
			Doc:   "What is recorded in the audit log. refusals: logins and logouts, requests without the right, and what clients change in topics, configs, rights, users and quotas; also reads of records and wrong tokens at the admin port. all: also what is permitted, which costs time with each request."},
		{Name: KeyAuditFile, Default: "", Type: "string", Bounds: "file or journald",
			Doc: "The file of the audit log, in JSON lines, of changes. Logins are in FILE.logins, refusals and failed logins in FILE.refusals. Each has at most 64 MiB, and 7 older ones as FILE.1. So a flood of one displaces no other. journald writes to systemd's journal instead. Empty means audit/audit.log in the data directory."},
		{Name: KeyAdminSecurity, Default: Plaintext, Type: "string", Bounds: list(Plaintext, WithTLS),
			Check: oneOf([]string{Plaintext, WithTLS}),
			Doc:   "Whether the admin port uses TLS, with the certificate of tls.certificate."},
		{Name: KeyAdminTokenFile, Default: "", Type: "string", Bounds: "file of at least 32 characters",
			Doc: "A token for the admin port (Authorization: Bearer TOKEN, or as a password). Who sends it may do everything. Without it, other machines get only health, and with authorization: acl this machine as well. Only the broker's user may be able to read the file."},
		{Name: KeyAdminClientCA, Default: "", Type: "string", Bounds: "PEM file",
			Doc: "The authorities whose client certificates do the same as the token."},
	}...)
}

func oauthDefs() []Def {
	return []Def{
		{Name: KeyOAuthJWKS, Default: "", Type: "string", Bounds: "file or https URL", Check: jwks,
			Doc: "The public keys (JWKS) of tokens for OAUTHBEARER."},
		{Name: KeyOAuthIssuer, Default: "", Type: "string", Doc: "The issuer (iss) that a token must have; empty means any."},
		{Name: KeyOAuthAudience, Default: "", Type: "string", Doc: "The audience (aud) that a token must have."},
		{Name: KeyOAuthClockSkew, Default: "30s", Type: "string", Bounds: "0s to 1h", Check: clockSkew,
			Doc: "How far the clocks of the issuer and of the broker may differ. A token is accepted for that long after its end, " +
				"so set it no higher than the clocks need."},
		{Name: KeyOAuthPrincipal, Default: "sub", Type: "string", Check: notEmpty, Doc: "The claim that names the user."},
	}
}

func clientCertificates(v string) error {
	return oneOf([]string{string(CertificatesNone), string(CertificatesRequest), string(CertificatesRequire)})(v)
}
