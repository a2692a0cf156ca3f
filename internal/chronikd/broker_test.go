package chronikd

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const withLogins = "sasl=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN"

// tryStart starts a broker as the settings and the flags say.
func tryStart(t *testing.T, fsys vfs.FS, set []string, flags map[string]string) (*daemon.Broker, error) {
	t.Helper()
	cfg, err := resolve.Load(config.Input{Set: set, Flags: flags})
	must.OK(t, err)
	return daemon.Start(t.Context(), daemon.Options{Config: cfg, FS: fsys, Log: zap.NewNop(), Level: zap.NewAtomicLevel(),
		Version: "test", JournalFileSize: 1 << 20, JournalBytes: 16 << 20})
}

// start starts a broker with its data in /data until the end of the test.
func start(t *testing.T, fsys vfs.FS, set ...string) *daemon.Broker {
	t.Helper()
	b, err := tryStart(t, fsys, set, here())
	must.OK(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func here() map[string]string {
	return map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: config.Off}
}

// clientOf returns a client that makes one attempt.
func clientOf(t *testing.T, b *daemon.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addrs()...), kgo.RequestRetries(0), kgo.RetryTimeout(5*time.Second))...)
	must.OK(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func scram512(user, password string) sasl.Mechanism {
	return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
}

// tryLogin logs a client in and asks for the topics.
func tryLogin(t *testing.T, b *daemon.Broker, m sasl.Mechanism) error {
	t.Helper()
	_, err := kadm.NewClient(clientOf(t, b, kgo.SASL(m))).ListTopics(t.Context())
	return err
}

// produce appends a record to a topic, which it creates if it is not there.
func produce(t *testing.T, b *daemon.Broker, topic string) error {
	t.Helper()
	cl := clientOf(t, b)
	_, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	return cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr()
}
