package app

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/chronik-io/chronik/internal/cli/contexts"
)

// clientOptions returns the client options for brokers and SASL; the dialer also needs TLSConfig.
// An error names a file that cannot be used.
func clientOptions(s contexts.Settings) ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(s.Seeds()...)}
	mechanism, err := mechanism(s)
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

// mechanism returns the SASL mechanism, or nil.
func mechanism(s contexts.Settings) (sasl.Mechanism, error) {
	if s.Get(contexts.SASL) == "" {
		return nil, nil
	}
	given, err := s.Password()
	if err != nil {
		return nil, err
	}
	password := string(given.Bytes())
	user := s.Get(contexts.SASLUser)
	switch s.Get(contexts.SASL) {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	}
	return oauth.Oauth(func(context.Context) (oauth.Auth, error) { return oauth.Auth{Token: password}, nil }), nil
}
