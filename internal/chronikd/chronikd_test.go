package chronikd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/durability"
)

// chronikd runs a command line of chronikd that starts no broker.
func chronikd(t *testing.T, environ []string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(t.Context(), Process{Args: args, Environ: environ, Out: &o, Err: &e, Version: "v1.2.3"})
	return code, o.String(), e.String()
}

func TestVersion(t *testing.T) {
	if code, out, _ := chronikd(t, nil, "version"); code != exit.OK || out != "v1.2.3\n" {
		t.Errorf("%d %q", code, out)
	}
}

// The help of a flag names the values that the error about a wrong one does.
func TestFlagsNameTheirValues(t *testing.T) {
	_, help, _ := chronikd(t, nil, "--help")
	known := regexp.MustCompile(`(?:use one of|the known ones are) (.*)\n`)
	found := 0
	for _, name := range config.Flagged() {
		_, line, _ := strings.Cut(help, "--"+config.FlagName(name)+" ")
		line, _, _ = strings.Cut(line, "\n")
		_, _, errs := chronikd(t, nil, "config", "check", "--"+config.FlagName(name), "no-such")
		m := known.FindStringSubmatch(errs)
		if m == nil {
			continue // no fixed values
		}
		if found++; !strings.Contains(line, m[1]) {
			t.Errorf("the help of %s is %q, without %s", name, line, m[1])
		}
	}
	if found < 3 {
		t.Errorf("%d flags have values", found)
	}
}

// A mistake on the command line ends with 2 and one line that suggests what was meant.
func TestUsageErrorsNameWhatWasMeant(t *testing.T) {
	var profiles []string
	for _, p := range durability.Builtin() {
		profiles = append(profiles, p.Name)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--datadir", "x"}, "chronikd: unknown flag: --datadir; did you mean --data-dir?\n"},
		{[]string{"--port", "9092"}, "chronikd: unknown flag: --port; --listen HOST:PORT sets the address for clients\n"},
		{[]string{"--zzz"}, "chronikd: unknown flag: --zzz; chronikd --help lists the flags, and --set name=value accepts any setting\n"},
		{[]string{"start"},
			"chronikd: chronikd has no command \"start\"; chronikd --help lists the commands, and chronikd alone starts the broker\n"},
		{[]string{"config", "chek"}, "chronikd: chronikd config has no command \"chek\"; did you mean check?\n"},
		{[]string{"config", "check", "--set", "num.partition=1"},
			"chronikd: --set: num.partition: unknown key; did you mean num.partitions?\n"},
		{[]string{"config", "check", "--set", "num.partitions=0"},
			"chronikd: --set: num.partitions: invalid value \"0\": Value must be at least 1\n"},
		{[]string{"config", "check", "--set", "connections.max.idle.ms=10w"},
			"chronikd: --set: connections.max.idle.ms: invalid value \"10w\": write a whole number of milliseconds, at most 9223372036854775807, or one with a unit, such as 90s, 12h or 7d\n"},
		{[]string{"config", "check", "--set", "num.io.threads=8"},
			"chronikd: --set: num.io.threads: Kafka has this setting and chronik does not act on it; leave it out: threads and buffers are not configurable\n"},
		{[]string{"config", "check", "--set", "listeners=PLAINTEXT://:9092"},
			"chronikd: --set: listeners: is a list; write it in the file as listeners: [{listen: HOST:PORT}], or use listen for the first\n"},
		{[]string{"config", "check", "--set", "min.insync.replica=1"},
			"chronikd: --set: min.insync.replica: unknown key; did you mean min.insync.replicas?\n"},
		{[]string{"config", "check", "--wal-profile", "fsync"},
			"chronikd: --wal-profile: wal.profile: unknown durability profile \"fsync\": the known ones are " + strings.Join(profiles, ", ") + "\n"},
		{[]string{"config", "check", "--produce-profile", "max"},
			"chronikd: --produce-profile: produce.profile: unknown produce profile \"max\": the known ones are low-latency, balanced, high-throughput, extreme\n"},
	} {
		code, out, errs := chronikd(t, nil, c.args...)
		if code != exit.Usage || errs != c.want || out != "" {
			t.Errorf("%v: code %d\n got %swant %s", c.args, code, errs, c.want)
		}
	}
}

func TestConfigCheckSaysWhatIsSetAndFromWhere(t *testing.T) {
	code, out, errs := chronikd(
		t,
		[]string{"CHRONIK_NUM_PARTITIONS=4", "CHRONIK_SERVICE_PORT=1", "PATH=/"},
		"config",
		"check",
		"--data-dir",
		"/d",
		"--set",
		"broker.rack=a",
	)
	want := "broker.rack = a (--set)\ndata.dir = /d (--data-dir)\nnum.partitions = 4 (CHRONIK_NUM_PARTITIONS)\n" +
		"listener default: localhost:9092\nthe configuration is valid\n"
	if code != exit.OK || out != want || errs != "warning: the variable CHRONIK_SERVICE_PORT is not read: no setting has this name\n" {
		t.Errorf("code %d\nout %s\nerr %s", code, out, errs)
	}
}

// Who checks a configuration sees every listener, and what an admin port without a token refuses.
func TestConfigCheckShowsListenersAndAClosedAdminPort(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	must.OK(t, os.WriteFile(file, []byte("listeners:\n  - {name: default, listen: 127.0.0.1:9092}\n"+
		"  - {name: clients, listen: 127.0.0.1:9094, route: forward, advertise: k.example.com:9094}\nauthorization: acl\nsuper-users: [\"User:admin\"]\n"), 0o600))
	code, out, errs := chronikd(t, nil, "config", "check", "--config", file)
	want := "listener default: 127.0.0.1:9092\n" +
		"listener clients: 127.0.0.1:9094, advertise: k.example.com:9094, route: forward\nthe configuration is valid\n"
	if code != exit.OK || !strings.HasSuffix(out, want) ||
		!strings.Contains(errs, "without admin.token-file the admin port answers only /healthz and /readyz") {
		t.Errorf("code %d\nout %s\nerr %s", code, out, errs)
	}
	_, _, errs = chronikd(t, nil, "config", "check", "--config", file, "--set", "admin.listen=off")
	if strings.Contains(errs, "admin") {
		t.Errorf("without an admin port: %s", errs)
	}
}

func TestPrintedDefaultsAreAValidFile(t *testing.T) {
	code, out, errs := chronikd(t, nil, "config", "print-defaults")
	if code != exit.OK || errs != "" {
		t.Fatalf("code %d, %s", code, errs)
	}
	read := func(string) ([]byte, error) { return []byte(out), nil }
	cfg, err := resolve.Load(config.Input{File: "f", ReadFile: read})
	must.OK(t, err)
	if len(cfg.Broker) != 0 {
		t.Errorf("it sets %v", cfg.Broker)
	}
	// The packages' file starts with these settings, so a renamed setting would be missing there.
	first, _, _ := strings.Cut(out, "# ---- All other settings")
	if n := strings.Count(first, "\n#  "); n != 6 {
		t.Errorf("listeners has %d lines in the first part, want 6:\n%s", n, first)
	}
	if n := len(regexp.MustCompile(`(?m)^# [a-z.]+:( |$)`).FindAllString(first, -1)); n != 10 {
		t.Errorf("%d settings come first, want 10:\n%s", n, first)
	}
	for _, name := range []string{"data.dir", "wal.profile", "num.partitions", "min.insync.replicas", "socket.request.max.bytes"} {
		if !strings.Contains(out, "\n# "+name+":") {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestTwoNamesOfOneSettingMustAgree(t *testing.T) {
	code, _, errs := chronikd(t, nil, "config", "check", "--set", "node.id=1", "--set", "broker.id=2")
	if code != exit.Usage || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "broker.id") {
		t.Errorf("code %d, %s", code, errs)
	}
}

// A log is JSON unless a person reads it, and its level can change while it is in use.
func TestLogFormats(t *testing.T) {
	var b bytes.Buffer
	log, level, err := newLogger(&b, "auto", "warn")
	must.OK(t, err)
	log.Info("hidden")
	level.SetLevel(zap.InfoLevel)
	log.Info("shown", zap.String("topic", "t"))
	var line map[string]any
	if err := json.Unmarshal(b.Bytes(), &line); err != nil || line["msg"] != "shown" || line["topic"] != "t" {
		t.Errorf("%s: %v", b.String(), err)
	}
	b.Reset()
	if log, _, err = newLogger(&b, "console", "debug"); err != nil {
		t.Fatal(err)
	}
	log.Warn("shown")
	if strings.HasPrefix(b.String(), "{") || !strings.Contains(b.String(), "WARN  shown") {
		t.Errorf("console: %q", b.String())
	}
	if _, _, err := newLogger(&b, "json", "loud"); err == nil {
		t.Error("an unknown level was accepted")
	}
}
