//go:build ignore

// Command sarama logs in with sarama in each way: see ../secure.sh, which builds it in a module of
// its own, and says what must succeed: the program does not know that. Its settings stand in
// docs/clients.md.
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

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

func read(name string) string {
	b, err := os.ReadFile(filepath.Join(os.Getenv("KEYS"), name))
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

// exchange is a login by SCRAM-SHA-512 with github.com/xdg-go/scram.
type exchange struct{ *scram.ClientConversation }

func (e *exchange) Begin(user, password, authorization string) error {
	client, err := scram.SHA512.NewClient(user, password, authorization)
	if err != nil {
		return err
	}
	e.ClientConversation = client.NewConversation()
	return nil
}

// fixed gives the same token to every connection.
type fixed string

func (f fixed) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(f)}, nil
}

func withPassword(config *sarama.Config, password, ca string) {
	config.Net.TLS.Enable, config.Net.TLS.Config = true, trusting(ca)
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLTypeSCRAMSHA512
	config.Net.SASL.User, config.Net.SASL.Password = "alice", password
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{} }
}

func withCertificate(config *sarama.Config, ca string) {
	cert, err := tls.X509KeyPair([]byte(read("client.pem")), []byte(read("client-key.pem")))
	if err != nil {
		panic(err)
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = true, trusting(ca)
	config.Net.TLS.Config.Certificates = []tls.Certificate{cert}
}

func withToken(config *sarama.Config, token, ca string) {
	config.Net.TLS.Enable, config.Net.TLS.Config = true, trusting(ca)
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLTypeOAuth
	config.Net.SASL.TokenProvider = fixed(token)
}

func life(broker string, login func(*sarama.Config), topic string) error {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = topic
	login(config)
	producer, err := sarama.NewSyncProducer([]string{broker}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	for i := range 10 {
		record := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint("value ", i))}
		if _, _, err := producer.SendMessage(record); err != nil {
			return err
		}
	}
	if err := producer.CommitTxn(); err != nil {
		return err
	}
	return consume(broker, login, topic, topic)
}

// reader ends its group's session after ten records.
type reader struct{ err error }

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for n := range 10 {
		msg, ok := <-claim.Messages()
		if want := fmt.Sprint("value ", n); !ok || string(msg.Value) != want {
			r.err = fmt.Errorf("did not read %q", want)
			return r.err
		}
		session.MarkMessage(msg, "")
	}
	session.Commit()
	return nil
}

func consume(broker string, login func(*sarama.Config), topic, group string) error {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	login(config)
	consumer, err := sarama.NewConsumerGroup([]string{broker}, group, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := &reader{}
	return errors.Join(consumer.Consume(ctx, []string{topic}, r), r.err, ctx.Err())
}

func produce(broker string, login func(*sarama.Config), topic string) error {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Return.Successes = true
	config.Metadata.Retry.Max = 0
	login(config)
	producer, err := sarama.NewSyncProducer([]string{broker}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("value")})
	return err
}

// unsigned is a token as clients make them for tests: alg none, and no signature.
const unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb2JvdCIsImF1ZCI6ImNocm9uaWsiLCJleHAiOjk5OTk5OTk5OTl9."

func play(name string) error {
	byPassword, byCertificate, byToken := os.Getenv("SCRAM"), os.Getenv("MTLS"), os.Getenv("OAUTH")
	alice := func(c *sarama.Config) { withPassword(c, read("alice.password"), "ca.pem") }
	switch name {
	case "scram":
		return life(byPassword, alice, "open-sarama-scram")
	case "mtls":
		return life(byCertificate, func(c *sarama.Config) { withCertificate(c, "ca.pem") }, "open-sarama-mtls")
	case "oauth":
		return life(byToken, func(c *sarama.Config) { withToken(c, read("token"), "ca.pem") }, "open-sarama-oauth")
	case "wrong-password":
		return produce(byPassword, func(c *sarama.Config) { withPassword(c, "wrong", "ca.pem") }, "hidden")
	case "wrong-ca":
		return produce(byPassword, func(c *sarama.Config) { withPassword(c, read("alice.password"), "stranger.pem") }, "hidden")
	case "no-certificate":
		return produce(byCertificate, func(c *sarama.Config) { c.Net.TLS.Enable, c.Net.TLS.Config = true, trusting("ca.pem") }, "hidden")
	case "unsigned":
		return produce(byToken, func(c *sarama.Config) { withToken(c, unsigned, "ca.pem") }, "hidden")
	case "forged":
		return produce(byToken, func(c *sarama.Config) { withToken(c, read("forged"), "ca.pem") }, "hidden")
	case "hidden-topic":
		return produce(byPassword, alice, "hidden")
	case "hidden-group":
		return consume(byPassword, alice, "open-sarama-scram", "hidden")
	}
	return errors.New("no such case")
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
