package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Kafka's names that cannot be translated alone: several settings of chronik depend on them.
const (
	kafkaProtocols  = "listener.security.protocol.map"
	kafkaMechanisms = "sasl.enabled.mechanisms"
	kafkaKeystore   = "ssl.keystore.location"
	kafkaKeyType    = "ssl.keystore.type"
	kafkaTruststore = "ssl.truststore.location"
	kafkaTrustType  = "ssl.truststore.type"
	kafkaClientAuth = "ssl.client.auth"
)

// alias is another name of a setting, Kafka's, whose meaning is the same.
type alias struct {
	name string // of the setting; empty: the value is kept until all sources are read
	// convert returns the setting's value for Kafka's; nil if they are equal.
	convert func(value string) (string, error)
	// sets is the setting of a value without a name.
	sets string
}

// aliases returns Kafka's names of settings that have shorter ones here, so that a line of a
// server.properties either works or is refused with what to write.
func aliases() map[string]alias {
	return map[string]alias{
		kafkaProtocols:  {sets: "`security` of the entries of `listeners:` with these names, and `sasl` for SASL_…"},
		kafkaKeystore:   {sets: "`tls.certificate` and `tls.key`, if `ssl.keystore.type` is PEM"},
		kafkaTruststore: {sets: "`tls.client-ca`, if `ssl.truststore.type` is PEM"},
		kafkaMechanisms: {convert: sameMechanisms,
			sets: "`sasl` of the listeners with SASL_… in `listener.security.protocol.map`"},
		kafkaKeyType:   {convert: pemOnly, sets: "nothing, and must be PEM"},
		kafkaTrustType: {convert: pemOnly, sets: "nothing, and must be PEM"},
		kafkaClientAuth: {convert: clientAuth,
			sets: "`client-certificates` of TLS listeners without SASL that do not say it"},
		"ssl.enabled.protocols":               {name: KeyTLSMinVersion, convert: lowestVersion},
		"ssl.cipher.suites":                   {name: KeyTLSCipherSuites},
		"ssl.principal.mapping.rules":         {name: KeyTLSRules},
		"sasl.oauthbearer.jwks.endpoint.url":  {name: KeyOAuthJWKS, convert: bareFile},
		"sasl.oauthbearer.expected.issuer":    {name: KeyOAuthIssuer},
		"sasl.oauthbearer.expected.audience":  {name: KeyOAuthAudience},
		"sasl.oauthbearer.clock.skew.seconds": {name: KeyOAuthClockSkew, convert: seconds},
		"sasl.oauthbearer.sub.claim.name":     {name: KeyOAuthPrincipal},
		"sasl.server.max.receive.size":        {name: KeyLoginBytes},
		"super.users":                         {name: KeySuperUsers},
		"authorizer.class.name":               {name: KeyAuthorization, convert: authorizer},
	}
}

// Aliases returns the names of Kafka's that are taken in place of a setting's own, sorted.
func Aliases() []string { return slices.Sorted(maps.Keys(aliases())) }

// AliasOf returns what a name of Kafka's sets, for people.
func AliasOf(kafka string) (sets string, ok bool) {
	a, ok := aliases()[kafka]
	if sets = a.sets; a.name != "" {
		sets = "`" + a.name + "`"
	}
	return sets, ok
}

// Known reports whether a setting of the daemon's own has this name.
func Known(name string) bool {
	return slices.ContainsFunc(Own(), func(d Def) bool { return d.Name == name })
}

// given is a value under a name of Kafka's, and its source.
type given struct{ value, source string }

// alias sets a setting by Kafka's name of it.
func (l *loader) alias(source, kafka, value string) {
	a := aliases()[kafka]
	if a.convert != nil {
		converted, err := a.convert(value)
		if err != nil {
			l.add(source, kafka, err.Error())
			return
		}
		value = converted
	}
	if a.name == "" {
		l.kafka[kafka] = given{value, source}
		return
	}
	before := len(l.errs)
	l.put(source, a.name, value)
	if len(l.errs) > before { // the operator looks for the name that is written there
		if e := (*Error)(nil); errors.As(l.errs[before], &e) {
			e.Key = kafka
		}
	}
}

func sameMechanisms(v string) (string, error) { return v, sasl(v) }

func bareFile(v string) (string, error) { return strings.TrimPrefix(v, "file://"), nil }

func pemOnly(v string) (string, error) {
	if v != "PEM" {
		return "", errJKS
	}
	return v, nil
}

func clientAuth(v string) (string, error) {
	kafka := []string{"none", "requested", "required"}
	i := slices.Index(kafka, v)
	if i < 0 {
		return "", fmt.Errorf("%q is not valid; use one of %s", v, strings.Join(kafka, ", "))
	}
	return []string{string(CertificatesNone), string(CertificatesRequest), string(CertificatesRequire)}[i], nil
}

func lowestVersion(v string) (string, error) {
	lowest := ""
	for _, p := range split(v, ",") {
		switch {
		case p == "TLSv1.2":
			lowest = "1.2"
		case p == "TLSv1.3" && lowest == "":
			lowest = "1.3"
		case p != "TLSv1.3":
			return "", fmt.Errorf("%q is not safe, or unknown; write TLSv1.2,TLSv1.3 or %s: \"1.2\"", p, KeyTLSMinVersion)
		}
	}
	if lowest == "" {
		return "", notEmpty("")
	}
	return lowest, nil
}

func seconds(v string) (string, error) {
	n, err := strconv.Atoi(v)
	if err != nil {
		return "", fmt.Errorf("%q is not a whole number of seconds", v)
	}
	return strconv.Itoa(n) + "s", nil
}

func authorizer(v string) (string, error) {
	switch v {
	case "":
		return NoRules, nil
	case "org.apache.kafka.metadata.authorizer.StandardAuthorizer":
		return WithACLs, nil
	}
	return "", errors.New("chronik loads no classes; write " + KeyAuthorization + ": acl")
}

// keystores applies Kafka's names of the files. A PEM key store holds the key and the certificates.
func (l *loader) keystores() {
	for _, k := range []struct {
		location, kind string
		names          []string
	}{
		{kafkaKeystore, kafkaKeyType, []string{KeyTLSCertificate, KeyTLSKey}},
		{kafkaTruststore, kafkaTrustType, []string{KeyTLSClientCA}},
	} {
		at, ok := l.kafka[k.location]
		if !ok {
			continue
		}
		if _, pem := l.kafka[k.kind]; !pem { // Kafka's default is JKS
			l.add(at.source, k.location, "is a Java key store unless "+k.kind+" is PEM: "+errJKS.Error())
			continue
		}
		for _, name := range k.names {
			if l.value(name) == "" {
				l.put(at.source, name, at.value)
			}
		}
	}
}

// protocolOf applies Kafka's names of a listener's security to a listener that does not say it
// itself: SSL and SASL_SSL use TLS, the SASL ones the mechanisms of sasl.enabled.mechanisms. As in
// Kafka (KIP-684), ssl.client.auth has no effect on listeners with SASL.
func (l *loader) protocolOf(x *Listener, refuse func(key, problem string)) {
	defer func() {
		if auth, ok := l.kafka[kafkaClientAuth]; ok && x.clientCerts == "" && x.security == WithTLS && len(x.SASL) == 0 {
			x.clientCerts = auth.value
		}
	}()
	protocols, ok := l.kafka[kafkaProtocols]
	enabled, some := l.kafka[kafkaMechanisms]
	if !ok {
		if some && x == &l.cfg.Listeners[0] {
			l.add(enabled.source, kafkaMechanisms, "says not which listeners; write sasl: [MECHANISM] in their entries of `listeners:`")
		}
		return
	}
	for _, p := range split(protocols.value, ",") {
		name, protocol, _ := strings.Cut(p, ":")
		if name != x.Name {
			continue
		}
		bare, login := strings.CutPrefix(protocol, "SASL_")
		if bare != "SSL" && bare != "PLAINTEXT" {
			l.add(protocols.source, kafkaProtocols,
				fmt.Sprintf("%q is not a protocol; use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", protocol))
			return
		}
		if bare == "SSL" {
			x.security = WithTLS
		}
		if login && len(x.SASL) == 0 {
			x.SASL = split(enabled.value, ",")
		}
		if login && len(x.SASL) == 0 {
			refuse(KeySASL, protocol+" needs mechanisms; write sasl: [SCRAM-SHA-512]")
		}
	}
}
