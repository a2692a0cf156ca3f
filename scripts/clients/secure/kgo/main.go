// Command kgo logs in with franz-go in each way; ../../secure.sh says what must succeed, and
// the command does not know that. Its settings stand in docs/clients.md.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var keys = os.Getenv("KEYS")

func read(name string) string {
	b, err := os.ReadFile(filepath.Join(keys, name))
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(b))
}

// trusting returns TLS settings that trust the authority in a file.
func trusting(ca string) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(read(ca)))
	return &tls.Config{RootCAs: pool}
}

func withPassword(config *tls.Config, user, password string) []kgo.Opt {
	return []kgo.Opt{
		kgo.DialTLSConfig(config),
		kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()),
		kgo.SeedBrokers(os.Getenv("SCRAM")),
	}
}

func withCertificate(config *tls.Config) []kgo.Opt {
	cert, err := tls.LoadX509KeyPair(filepath.Join(keys, "client.pem"), filepath.Join(keys, "client-key.pem"))
	if err != nil {
		panic(err)
	}
	config.Certificates = []tls.Certificate{cert}
	return []kgo.Opt{kgo.DialTLSConfig(config), kgo.SeedBrokers(os.Getenv("MTLS"))}
}

func withToken(config *tls.Config, token string) []kgo.Opt {
	tokens := func(context.Context) (oauth.Auth, error) { return oauth.Auth{Token: token}, nil }
	return []kgo.Opt{
		kgo.DialTLSConfig(config),
		kgo.SASL(oauth.Oauth(tokens)),
		kgo.SeedBrokers(os.Getenv("OAUTH")),
	}
}

// life writes ten records in a transaction, and reads them as a member of a group that commits.
func life(login []kgo.Opt, topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	producer, err := kgo.NewClient(append(login, kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))...)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.Ping(ctx); err != nil {
		return err
	}
	if err := producer.BeginTransaction(); err != nil {
		return err
	}
	for i := range 10 {
		if err := producer.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint("value ", i))).FirstErr(); err != nil {
			return err
		}
	}
	if err := producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	return consume(login, topic, topic)
}

// consume reads ten records as a member of a group and commits.
func consume(login []kgo.Opt, topic, group string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	consumer, err := kgo.NewClient(append(login, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer consumer.Close()
	for n := 0; n < 10; {
		fetched := consumer.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return err
		}
		for _, r := range fetched.Records() {
			if want := fmt.Sprint("value ", n); string(r.Value) != want {
				return fmt.Errorf("read %q, not %q", r.Value, want)
			}
			n++
		}
	}
	return consumer.CommitUncommittedOffsets(ctx)
}

// produce writes one record without a transaction.
func produce(login []kgo.Opt, topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	producer, err := kgo.NewClient(append(login, kgo.DefaultProduceTopic(topic))...)
	if err != nil {
		return err
	}
	defer producer.Close()
	return producer.ProduceSync(ctx, kgo.StringRecord("value")).FirstErr()
}

// unsigned is a token as clients make them for tests: alg none, and no signature.
const unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb2JvdCIsImF1ZCI6ImNocm9uaWsiLCJleHAiOjk5OTk5OTk5OTl9."

func play(name string) error {
	login := withPassword(trusting("ca.pem"), "alice", read("alice.password"))
	switch name {
	case "scram":
	case "mtls":
		login = withCertificate(trusting("ca.pem"))
	case "oauth":
		login = withToken(trusting("ca.pem"), read("token"))
	case "wrong-password":
		login = withPassword(trusting("ca.pem"), "alice", "wrong")
	case "unknown-user":
		login = withPassword(trusting("ca.pem"), "stranger", "wrong")
	case "wrong-ca":
		login = withPassword(trusting("stranger.pem"), "alice", read("alice.password"))
	case "no-certificate":
		login = []kgo.Opt{kgo.DialTLSConfig(trusting("ca.pem")), kgo.SeedBrokers(os.Getenv("MTLS"))}
	case "unsigned":
		login = withToken(trusting("ca.pem"), unsigned)
	case "forged":
		login = withToken(trusting("ca.pem"), read("forged"))
	case "hidden-topic":
		return produce(login, "hidden")
	case "hidden-group":
		return consume(login, "open-kgo-scram", "hidden")
	default:
		return errors.New("no such case")
	}
	return life(login, "open-kgo-"+name)
}

func main() {
	for _, name := range os.Args[1:] {
		result := "ok"
		if err := play(name); err != nil {
			result = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Printf("%s: %s\n", name, result)
	}
}
