package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	saslplain "github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// The audit log says who logged in, who failed to, what was refused and what was changed. A secret
// is in no output: the audit log, the log at level debug, configs, the admin port.
func TestAuditLogWithoutSecrets(t *testing.T) {
	dir := t.TempDir()
	users, file, logged := filepath.Join(dir, "users"), filepath.Join(dir, "logs", "audit.log"), filepath.Join(dir, "log")
	must.OK(t, os.WriteFile(users, []byte("admin:SCRAM-SHA-512:canary-admin\nbob:SCRAM-SHA-512:canary-bob\n"), 0o600))
	token := filepath.Join(dir, "token")
	must.OK(t, os.WriteFile(token, []byte(strings.Repeat("canary-token", 4)), 0o600))
	cfg, err := resolve.Load(config.Input{
		Set: []string{withLogins, "bootstrap.users=" + users, "authorization=acl", "super-users=User:admin", "audit.log=refusals",
			"audit.file=" + file, "admin.token-file=" + token, "connection.failed.authentication.delay.ms=1"},
		Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "127.0.0.1:0"},
	})
	must.OK(t, err)
	out, err := os.Create(logged)
	must.OK(t, err)
	defer func() { _ = out.Close() }()
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(out), zap.DebugLevel))
	b, err := Start(t.Context(), Options{Config: cfg, FS: vfs.Memory(), Log: log, Level: zap.NewAtomicLevelAt(zap.DebugLevel),
		Version: "test", JournalFileSize: 1 << 20, JournalBytes: 16 << 20})
	must.OK(t, err)
	defer func() { _ = b.Close() }()

	shown := auditedRequests(t, b)
	for _, path := range []string{"/", "/metrics", "/v1/health", "/v1/logs", "/v1/connections", "/v1/brokers", "/v1/log", "/v1/profiles",
		"/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline"} {
		shown = append(shown, fetched(t, "http://"+b.AdminAddr()+path))
	}
	for _, given := range []string{strings.Repeat("canary-token", 4), "canary-wrong"} {
		shown = append(shown, fetchedWith(t, "http://"+b.AdminAddr()+"/records?topic=orders&partition=0", given))
	}
	must.OK(t, b.Close())
	var text [3]string // what is changed, who logs in, and what is refused have files of their own
	for i, suffix := range []string{"", ".logins", ".refusals"} {
		read, err := os.ReadFile(file + suffix)
		must.OK(t, err)
		text[i] = string(read)
	}
	debug, err := os.ReadFile(logged)
	must.OK(t, err)
	for _, s := range append(shown, text[0], text[1], text[2], string(debug)) {
		if i := strings.Index(s, "canary"); i >= 0 {
			t.Errorf("a secret is shown: …%.200s", s[max(0, i-100):])
		}
	}
	wantEvents(t, text[0], "change User:admin CREATE Topic:orders", "change User:admin CREATE User:carol")
	wantEvents(t, text[1], "login User:admin  ", "login User:bob  ", "logout User:admin  ", "read  READ Partition:LITERAL:orders-0")
	if want := `"why":"1 records of offsets 0 to 0"`; !strings.Contains(text[1], want) {
		t.Errorf("no %s in %s", want, text[1])
	}
	wantEvents(t, text[2], "refused  ACCESS AdminPort", "login_failed  ACCESS AdminPort")
	wantEvents(t, text[2], "login_failed User:bob  ", "login_failed User:eve  ", "refused User:bob CREATE TOPIC:LITERAL:secret-plans")
}

// auditedRequests sends requests of several clients, and returns the configs that one was shown.
func auditedRequests(t *testing.T, b *Broker) (shown []string) {
	t.Helper()
	admin := clientOf(t, b, scram512("admin", "canary-admin"))
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "carol", Mechanism: kadm.ScramSha512, Iterations: 4096,
		Password: "canary-carol"}}); err != nil {
		t.Fatal(err)
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()[0]), kgo.SASL(scram512("admin", "canary-admin")))
	must.OK(t, err)
	must.OK(t, producer.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr())
	producer.Close()
	configs, err := admin.DescribeBrokerConfigs(t.Context(), 1)
	must.OK(t, err)
	for _, r := range configs {
		for _, c := range r.Configs {
			shown = append(shown, c.Key+"="+c.MaybeValue())
		}
	}
	if len(shown) < 10 {
		t.Errorf("configs %q", shown)
	}
	bob := clientOf(t, b, saslplain.Auth{User: "bob", Pass: "canary-bob"}.AsMechanism())
	if _, err := bob.CreateTopic(t.Context(), 1, 1, nil, "secret-plans"); err == nil {
		t.Error("bob may create a topic")
	}
	for user, password := range map[string]string{"bob": "canary-wrong", "eve": "canary-eve"} {
		for _, m := range []kgo.Opt{kgo.SASL(scram512(user, password)),
			kgo.SASL(saslplain.Auth{User: user, Pass: password}.AsMechanism())} {
			cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()[0]), m, kgo.RequestRetries(0))
			must.OK(t, err)
			if err := cl.Ping(t.Context()); err == nil {
				t.Errorf("%s logged in", user)
			} else {
				shown = append(shown, err.Error())
			}
			cl.Close()
		}
	}
	admin.Close()
	return shown
}

// fetched returns what the admin port answers.
func fetched(t *testing.T, url string) string {
	t.Helper()
	return fetchedWith(t, url, "")
}

// fetchedWith is fetched with a token.
func fetchedWith(t *testing.T, url, token string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must.OK(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	must.OK(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	return string(body)
}

// wantEvents expects lines "EVENT WHO OPERATION RESOURCE" in an audit log, each line with its time,
// node and number.
func wantEvents(t *testing.T, text string, want ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(text) {
		var e struct {
			T, Ev, Who, Op, Res, From string
			N, Node                   int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.T == "" || e.N < 1 || e.Node != 1 || e.From == "" {
			t.Errorf("line %s: %v", line, err)
		}
		got = append(got, e.Ev+" "+e.Who+" "+e.Op+" "+e.Res)
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("no line %q in %s", w, text)
		}
	}
}
