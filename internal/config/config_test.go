package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/durability"
)

// kafka returns settings in place of the registry of broker settings.
func kafka() []Def {
	return []Def{
		{Name: "num.partitions", Default: "1", Type: "int", Check: whole},
		{Name: "log.retention.ms", Default: "604800000", Type: "long", Check: whole},
		{Name: "log.segment.bytes", Default: "1073741824", Type: "int", Check: whole},
		{Name: "auto.create.topics.enable", Default: "true", Type: "boolean"},
		{Name: "log.dirs", Default: "", Type: "list"},
	}
}

func whole(v string) error {
	if _, err := strconv.ParseInt(v, 10, 64); err != nil {
		return errors.New("not a number of type LONG")
	}
	return nil
}

// load reads a file with this text and the sources that the options add.
func load(text string, options ...func(*Input)) (*Config, error) {
	in := Input{Broker: kafka(), Explain: func(key string) string {
		if key == "chronik.produce.profile" {
			return "is set as produce.profile"
		}
		return ""
	}, ReadFile: func(string) ([]byte, error) { return []byte(text), nil }}
	if text != "" {
		in.File = "c.yaml"
	}
	for _, o := range options {
		o(&in)
	}
	return Load(in)
}

func env(vars ...string) func(*Input)  { return func(in *Input) { in.Environ = vars } }
func sets(args ...string) func(*Input) { return func(in *Input) { in.Set = args } }
func flag(name, value string) func(*Input) {
	return func(in *Input) { in.Flags = map[string]string{name: value} }
}

func loaded(t *testing.T, c *Config, err error) *Config {
	t.Helper()
	must.OK(t, err)
	return c
}

// addressed returns a listener's name and addresses.
func addressed(l Listener) [3]string { return [3]string{l.Name, l.Listen, l.Advertise} }

func TestDefaultsNeedNoSource(t *testing.T) {
	c, err := load("")
	loaded(t, c, err)
	if c.DataDir != "data" || c.AdminListen != DefaultAdminListen || c.WALProfile != "sync" || c.LogLevel != "info" ||
		c.Produce.Name != "balanced" {
		t.Errorf("defaults: %+v", c)
	}
	if len(c.Listeners) != 1 || addressed(c.Listeners[0]) != ([3]string{"default", DefaultListen}) {
		t.Errorf("listeners: %+v", c.Listeners)
	}
	if len(c.Broker) != 0 || len(c.Warnings) != 0 {
		t.Errorf("nothing was set: broker %v, warnings %v", c.Broker, c.Warnings)
	}
}

// Every source overrides the one before it: defaults, file, environment, --set, flags.
func TestEachSourceOverridesTheOneBefore(t *testing.T) {
	file := "data.dir: file\nnum.partitions: 2\n"
	steps := []struct {
		options []func(*Input)
		want    string
		source  string
	}{
		{nil, "file", "c.yaml"},
		{[]func(*Input){env("CHRONIK_DATA_DIR=env")}, "env", "CHRONIK_DATA_DIR"},
		{[]func(*Input){env("CHRONIK_DATA_DIR=env"), sets("data.dir=one", "data.dir=set")}, "set", "--set"},
		{[]func(*Input){env("CHRONIK_DATA_DIR=env"), sets("data.dir=set"), flag(KeyDataDir, "flag")}, "flag", "--data-dir"},
	}
	for _, s := range steps {
		c, err := load(file, s.options...)
		loaded(t, c, err)
		if c.DataDir != s.want {
			t.Errorf("data.dir = %q, want %q", c.DataDir, s.want)
		}
		for _, x := range c.Settings {
			if x.Name == KeyDataDir && (x.Source != s.source || x.Value != s.want) {
				t.Errorf("data.dir is listed as %+v, want source %s", x, s.source)
			}
		}
		if c.Broker["num.partitions"] != "2" {
			t.Errorf("num.partitions = %q, want the file's 2", c.Broker["num.partitions"])
		}
	}
}

func TestKafkaNamesInEverySource(t *testing.T) {
	c, err := load("log.segment.bytes: 1048576\nauto.create.topics.enable: false\nlog.dirs: [a, b]\n",
		env("CHRONIK_NUM_PARTITIONS=4"), sets("log.retention.ms=100000"))
	loaded(t, c, err)
	want := map[string]string{"log.segment.bytes": "1048576", "auto.create.topics.enable": "false", "log.dirs": "a,b",
		"num.partitions": "4", "log.retention.ms": "100000"}
	for k, v := range want {
		if c.Broker[k] != v {
			t.Errorf("%s = %q, want %q", k, c.Broker[k], v)
		}
	}
	if len(c.Broker) != len(want) {
		t.Errorf("broker settings %v", c.Broker)
	}
}

// Every source accepts a number with a unit for a setting whose name ends in a unit.
func TestUnitsInEverySource(t *testing.T) {
	c, err := load("log.retention.ms: 7d\n", env("CHRONIK_LOG_SEGMENT_BYTES=512MiB"))
	loaded(t, c, err)
	if got := c.Broker["log.retention.ms"] + " " + c.Broker["log.segment.bytes"]; got != "604800000 536870912" {
		t.Errorf("the file and the environment set %s", got)
	}
	for value, want := range map[string]string{"90s": "90000", "1h30m": "5400000", "0": "0", "-1": "-1", "500000": "500000"} {
		c, err := load("", sets("log.retention.ms="+value))
		loaded(t, c, err)
		if got := c.Broker["log.retention.ms"]; got != want {
			t.Errorf("--set log.retention.ms=%s sets %s, want %s", value, got, want)
		}
	}
}

// --listen and --advertise are the first entry of the file's own list.
func TestListenFlagsAreTheFirstEntryOfTheList(t *testing.T) {
	file := "listeners:\n- {name: in, listen: '10.0.0.1:9092', advertise: 'a.example:9092'}\n- {name: out, listen: ':9093'}\n"
	c, err := load(file)
	loaded(t, c, err)
	if addressed(c.Listeners[0]) != ([3]string{"in", "10.0.0.1:9092", "a.example:9092"}) ||
		addressed(c.Listeners[1]) != ([3]string{"out", ":9093", ""}) {
		t.Errorf("file: %+v", c.Listeners)
	}
	c, err = load(file, env("CHRONIK_ADVERTISE=b.example:1"), flag(KeyListen, "127.0.0.1:0"))
	loaded(t, c, err)
	if addressed(c.Listeners[0]) != ([3]string{"in", "127.0.0.1:0", "b.example:1"}) || c.Listeners[1].Name != "out" {
		t.Errorf("with flags: %+v", c.Listeners)
	}
}

// A file with one listener needs no list, and a list may leave out what stands before it.
func TestTheFirstListenerNeedsNoList(t *testing.T) {
	c, err := load("listen: ':9092'\nadvertise: 'a.example:9092'\n")
	loaded(t, c, err)
	if addressed(c.Listeners[0]) != ([3]string{"default", ":9092", "a.example:9092"}) || len(c.Listeners) != 1 {
		t.Errorf("%+v", c.Listeners)
	}
	c, err = load("advertise: 'a.example:9092'\nlisteners: [{name: in, listen: ':9093'}, {name: out, listen: ':9094'}]\n")
	loaded(t, c, err)
	if addressed(c.Listeners[0]) != ([3]string{"in", ":9093", "a.example:9092"}) || c.Listeners[1].Advertise != "" {
		t.Errorf("with a list: %+v", c.Listeners)
	}
}

func TestAdminCanBeOff(t *testing.T) {
	c, err := load("admin.listen: off\n")
	if err == nil && c.AdminListen != "" {
		t.Errorf("admin.listen = %q", c.AdminListen)
	}
	loaded(t, c, err)
}

// A mistake causes an error of one line: source, key, cause, remedy.
func TestMistakesAreOneLineWithCauseAndRemedy(t *testing.T) {
	for _, m := range mistakes() {
		_, err := load(m.file, m.options...)
		if err == nil {
			t.Errorf("%s%v: no error", m.file, m.want)
			continue
		}
		if got := err.Error(); got != m.want {
			t.Errorf("%q\n got %s\nwant %s", m.file, got, m.want)
		}
	}
}

type mistake struct {
	file    string
	options []func(*Input)
	want    string
}

func mistakes() []mistake {
	opt := func(o ...func(*Input)) []func(*Input) { return o }
	return []mistake{
		{"num.partition: 3\n", nil, "c.yaml: num.partition: unknown key; did you mean num.partitions?"},
		{"color: red\n", nil, "c.yaml: color: unknown key; `chronikd config print-defaults` lists all of them"},
		{"listener: []\n", nil, "c.yaml: listener: unknown key; did you mean listeners?"},
		{"num: {partitions: 3}\n", nil, "c.yaml: num: a name with dots is one key; write num.partitions: VALUE on one line"},
		{"log.retention.ms: 7w\n", nil, `c.yaml: log.retention.ms: not a number of type LONG`},
		{"log.retention.ms: 200000d\n", nil, `c.yaml: log.retention.ms: not a number of type LONG`},
		{"log.retention.ms: 1MB\n", nil, `c.yaml: log.retention.ms: not a number of type LONG`},
		{"num.partitions: 1d\n", nil, `c.yaml: num.partitions: not a number of type LONG`},
		{"num.partitions: many\n", nil, "c.yaml: num.partitions: not a number of type LONG"},
		{"num.partitions:\n", nil, "c.yaml: num.partitions: has no value; write one, or leave out the key for the default"},
		{"num.partitions: {a: 1}\n", nil, "c.yaml: num.partitions: takes a single value, not keys below it"},
		{
			"listen: ':9092'\nlisteners: [{listen: ':9093'}]\n",
			nil,
			"c.yaml: listen: the first entry of `listeners:` has it too; remove one of the two",
		},
		{"listeners: ':9092'\n", nil, "c.yaml: listeners: is not a list of 1 to 64 entries; write listeners: [{listen: localhost:9092}]"},
		{"listeners: [{listem: ':9092'}]\n", nil, "c.yaml: listeners[0].listem: unknown key; did you mean listen?"},
		{"listeners: [{listen: 9092}]\n", nil, `c.yaml: listeners[0].listen: "9092" is not HOST:PORT; write for example localhost:9092`},
		{
			"listeners: [{listen: ':1'}, {listen: ':2'}]\n",
			nil,
			"c.yaml: listeners[1]: has no name or no listen; every listener after the first needs both",
		},
		{
			"listeners: [{name: a, listen: ':1'}, {name: a, listen: ':2'}]\n",
			nil,
			`c.yaml: listeners[1]: the name "a" is taken by an earlier listener; give each its own`,
		},
		{
			"listeners: [{name: a, listen: ':1'}, {name: b, listen: ':1'}]\n",
			nil,
			"c.yaml: listeners[1]: :1 and :1 of an earlier listener have the same port; give each its own",
		},
		{
			"wal.profile: fast\nprofiles: {quick: {max_wait: 5}}\n",
			nil,
			`c.yaml: profiles.quick.max_wait: 5 has no unit; write for example 5ms`,
		},
		{"profiles: {quick: {ack: maybe}}\n", nil, `c.yaml: profiles.quick.ack: unknown ack "maybe": the known ones are synced, written`},
		{
			"profiles: {quick: {ack: written, max_wait: 5ms}}\n",
			nil,
			"c.yaml: profiles.quick: max_wait is set but sync is os, which forms no groups: remove it, or set sync to group and ack to synced",
		},
		{
			"profiles: {sync: {max_wait: 5ms}}\n",
			nil,
			`c.yaml: profiles: durability profile "sync" is built in and cannot be redefined: choose another name`,
		},
		{"chronik.produce.profile: extreme\n", nil, "c.yaml: chronik.produce.profile: is set as produce.profile"},
		{"profiles: {quick: {maxwait: 5ms}}\n", nil, "c.yaml: profiles.quick.maxwait: unknown key; did you mean max_wait?"},
		{"", opt(sets("num.partitions")), "--set: num.partitions: has no value; write --set name=value"},
		{"", opt(sets("nmu.partitions=3")), "--set: nmu.partitions: unknown key; did you mean num.partitions?"},
		{"", opt(env("CHRONIK_NUM_PARTITIONS=x")), "CHRONIK_NUM_PARTITIONS: num.partitions: not a number of type LONG"},
		{"", opt(flag(KeyLogLevel, "loud")), `--log-level: log.level: "loud" is not valid; use one of debug, info, warn, error`},
		{
			"",
			opt(flag(KeyListen, "0.0.0.0:99999")),
			`--listen: listen: "0.0.0.0:99999" has no port of 0 to 65535; write for example 0.0.0.0:9092`,
		},
		{
			"",
			opt(flag(KeyAdvertise, "0.0.0.0:9092")),
			`--advertise: advertise: "0.0.0.0:9092" is not an address that a client can dial; write a name or address under which clients reach this machine`,
		},
		{"", opt(flag(KeyDataDir, "")), "--data-dir: data.dir: is empty; leave out the key for the default"},
		{
			"",
			opt(flag(KeyAdminListen, DefaultListen)),
			"--admin-listen: listen: localhost:9092 and localhost:9092 of admin.listen have the same port; give each its own",
		},
	}
}

// All mistakes are reported at once, one line each.
func TestAllMistakesAreReported(t *testing.T) {
	_, err := load("a.b.c.d.e.f: 1\nlog.retention.ms: 1w\n", sets("x"))
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three lines, got %v", err)
	}
}

func TestUnknownProfileNamesTheKnownOnes(t *testing.T) {
	_, err := load("", flag(KeyWALProfile, "fsync"))
	if err == nil || !strings.HasPrefix(err.Error(), "--wal-profile: wal.profile: ") || !strings.Contains(err.Error(), "interval") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	_, err = load("", env("CHRONIK_PRODUCE_PROFILE=huge"))
	if err == nil || !strings.HasPrefix(err.Error(), "CHRONIK_PRODUCE_PROFILE: produce.profile: ") ||
		!strings.Contains(err.Error(), "extreme") {
		t.Errorf("got %v", err)
	}
}

func TestNoYAML(t *testing.T) {
	for text, want := range map[string]string{
		"a: [1\n": "is not valid YAML: ", "\t:\n": "is not valid YAML: ", "- a\n": "has no settings at its top level; ",
		"num.partitions=1\n":                     "has no settings at its top level; ",
		"num.partitions: 1\nnum.partitions: 2\n": "line 2: ",
		"num.partitions: 1\n---\nnode.id: 2\n":   "has more than one document", "---\n# a\n---\nx:\n---": "has more",
	} {
		_, err := load(text)
		if err == nil || !strings.HasPrefix(err.Error(), "c.yaml: "+want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestMissingFileSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.yaml")
	_, err := Load(Input{File: path, ReadFile: os.ReadFile})
	want := path + ": cannot read the configuration file: " + fs.ErrNotExist.Error()
	if err == nil || !strings.Contains(err.Error(), "cannot read the configuration file: no such file or directory; check --config") {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Kubernetes sets variables of its own; they only cause warnings.
func TestUnknownVariablesAreWarnings(t *testing.T) {
	c, err := load("", env("CHRONIK_PORT_9092_TCP=tcp://10.0.0.1", "CHRONIK_NUM_PARTITION=3", "PATH=/bin", "CHRONIK_CONFIG=x",
		"CHRONIKD_DATA_DIR=/data", "CHRONIKD_VERSION=3"))
	loaded(t, c, err)
	want := []string{
		"the variable CHRONIKD_DATA_DIR is not read: chronikd's variables begin with CHRONIK_; did you mean CHRONIK_DATA_DIR?",
		"the variable CHRONIKD_VERSION is not read: chronikd's variables begin with CHRONIK_",
		"the variable CHRONIK_NUM_PARTITION is not read: no setting has this name; did you mean CHRONIK_NUM_PARTITIONS?",
		"the variable CHRONIK_PORT_9092_TCP is not read: no setting has this name",
	}
	if strings.Join(c.Warnings, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %s\nwant %s", strings.Join(c.Warnings, "\n"), strings.Join(want, "\n"))
	}
}

// A retention whose unit was forgotten deletes records within minutes: the value that takes effect
// is refused, from any source.
func TestAShortRetentionNeedsAUnit(t *testing.T) {
	const why = ": log.retention.ms: 7 is 7 milliseconds, because it has no unit: 7d are days, 7ms milliseconds; write the one that you mean"
	for _, c := range []struct {
		yaml string
		set  func(*Input)
		want string
	}{
		{"log.retention.ms: 7\n", func(*Input) {}, "c.yaml" + why},
		{"", sets("log.retention.ms=7"), "--set" + why},
		{"", env("CHRONIK_LOG_RETENTION_MS=7"), "CHRONIK_LOG_RETENTION_MS" + why},
		{"log.retention.ms: 7\n", env("CHRONIK_LOG_RETENTION_MS=7d"), ""},
		{"log.retention.ms: 7ms\n", func(*Input) {}, ""},
	} {
		got, err := load(c.yaml, c.set)
		switch {
		case c.want == "":
			loaded(t, got, err)
		case err == nil || err.Error() != c.want:
			t.Errorf("%q: %v, want %s", c.yaml, err, c.want)
		}
	}
}

func TestProfilesOfTheProgram(t *testing.T) {
	mine := durability.Profile{Name: "mine", MaxRecords: 1, MaxBytes: 1 << 20}
	c, err := load(
		"profiles: {other: {max_wait: 1ms}}\n",
		func(in *Input) { in.Profiles = []durability.Profile{mine} },
		flag(KeyWALProfile, "mine"),
	)
	loaded(t, c, err)
	if p, err := c.Durability.Lookup("mine"); err != nil || p.MaxRecords != 1 || c.WALProfile != "mine" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := c.Durability.Lookup("other"); err != nil {
		t.Error(err)
	}
	if _, err := load("profiles: {mine: {max_wait: 1ms}}\n", func(in *Input) { in.Profiles = []durability.Profile{mine} }); err == nil {
		t.Error("one name for two profiles")
	}
}

func TestAnEmptyVariableIsNotSet(t *testing.T) {
	c, err := load("num.partitions: 3\n", env("CHRONIK_NUM_PARTITIONS=", "CHRONIK_DATA_DIR="))
	loaded(t, c, err)
	if c.Broker["num.partitions"] != "3" || c.DataDir != "data" {
		t.Errorf("num.partitions %q, data.dir %q", c.Broker["num.partitions"], c.DataDir)
	}
}

func TestProfilesOfTheFile(t *testing.T) {
	c, err := load(`
wal.profile: patient
profiles:
  patient: {doc: waits a while, ack: synced, sync: group, max_wait: 20ms, max_records: 5000, max_bytes: 20MB}
  loose: {ack: written, sync: interval, interval: 200ms}
  short: {max_wait: 1ms}
`)
	loaded(t, c, err)
	p, err := c.Durability.Lookup("patient")
	must.OK(t, err)
	if p.Ack != durability.Synced || p.Sync != durability.SyncGroup || p.MaxWait != 20*time.Millisecond || p.MaxRecords != 5000 ||
		p.MaxBytes != 20_000_000 {
		t.Errorf("patient: %+v", p)
	}
	if p, err = c.Durability.Lookup("loose"); err != nil || p.Ack != durability.Written || p.Sync != durability.SyncInterval ||
		p.Interval != 200*time.Millisecond {
		t.Errorf("loose: %+v, %v", p, err)
	}
	if p, err = c.Durability.Lookup("short"); err != nil || p.MaxWait != time.Millisecond || p.MaxRecords != 10_000 ||
		p.MaxBytes != 50_000_000 {
		t.Errorf("short: %+v, %v", p, err)
	}
	if _, err := c.Durability.Lookup("os"); err != nil {
		t.Errorf("the built-in ones are missing: %v", err)
	}
}

// The output of print-defaults is read as the defaults, commented out or not.
func TestPrintedDefaultsAreTheDefaults(t *testing.T) {
	var b strings.Builder
	must.OK(t, Defaults(&b, kafka()))
	c, err := load(b.String())
	loaded(t, c, err)
	if len(c.Broker) != 0 {
		t.Errorf("a printed file sets %v", c.Broker)
	}
	var live []string
	settings := false
	for _, line := range strings.Split(b.String(), "\n") {
		settings = settings || strings.HasPrefix(line, "# Directory of the metadata")
		for _, d := range append(Own(), kafka()...) {
			if text, ok := strings.CutPrefix(line, "# "+d.Name+":"); ok && settings {
				live = append(live, d.Name+":"+text)
			}
		}
	}
	c, err = load(strings.Join(live, "\n"))
	loaded(t, c, err)
	if len(c.Broker) != len(kafka()) || c.DataDir != "data" {
		t.Errorf("uncommented it sets %v of\n%s", c.Broker, strings.Join(live, "\n"))
	}
	for _, d := range kafka() {
		if c.Broker[d.Name] != d.Default {
			t.Errorf("%s = %q, want %q", d.Name, c.Broker[d.Name], d.Default)
		}
	}
}

// New operators read the first screen of the file: it holds the settings that most brokers change.
// The file has each setting once.
func TestPrintedDefaultsBeginWithTheEssentials(t *testing.T) {
	defs := kafka()
	known := append(Own(), defs...)
	for _, name := range essentials {
		if !slices.ContainsFunc(known, func(d Def) bool { return d.Name == name }) {
			defs = append(defs, Def{Name: name, Default: "1", Type: "int"})
		}
	}
	var b strings.Builder
	must.OK(t, Defaults(&b, defs))
	first, rest, ok := strings.Cut(b.String(), "# ---- All other settings")
	if !ok {
		t.Fatalf("no second part in\n%s", b.String())
	}
	printed := func(text, name string) int { return strings.Count("\n"+text, "\n# "+name+":") }
	last := strings.Index(first, "\n# listeners:")
	for _, name := range essentials {
		at := strings.Index(first, "\n# "+name+":")
		if at < last || last < 0 {
			t.Errorf("%s is not at its position among the first settings", name)
		}
		last = at
	}
	for _, d := range append(Own(), defs...) {
		want := 1
		if InListeners(d.Name) { // fields of listeners
			want = 0
		}
		if n := printed(first, d.Name) + printed(rest, d.Name); n != want {
			t.Errorf("%s is in the file %d times, want %d", d.Name, n, want)
		}
	}
	if lines := strings.Count(first, "\n"); lines > 70 {
		t.Errorf("the first part has %d lines; a screen or two is what a new operator reads", lines)
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "127.9.9.9:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false} {
		if Loopback(address) != want {
			t.Errorf("Loopback(%s) = %v", address, !want)
		}
	}
}

// A duplicate name would make one of two settings unreachable.
func TestASettingIsDefinedOnce(t *testing.T) {
	if _, err := Load(Input{Broker: []Def{{Name: KeyDataDir}}}); err == nil {
		t.Error("no error")
	}
}

func FuzzFile(f *testing.F) {
	for _, m := range mistakes() {
		f.Add(m.file)
	}
	f.Add("profiles: {a: {max_bytes: 99999999GiB}}\nlisteners: [[]]\n? [a]\n: b\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := load(text)
		if (c == nil) == (err == nil) {
			t.Errorf("config %v, error %v", c, err)
		}
	})
}

// A file may begin with a document marker, and have --- inside a value.
func TestOneDocumentIsRead(t *testing.T) {
	for _, text := range []string{"---\nnum.partitions: 4\n", "# a\n--- # b\nnum.partitions: 4\n",
		"%YAML 1.1\n---\nnum.partitions: 4", "num.partitions: 4\ndata.dir: |\n  ---\n"} {
		cfg, err := load(text)
		if err != nil || cfg.Broker["num.partitions"] != "4" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Two addresses with the same port are reported before either is opened.
func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"127.0.0.1:1", "127.0.0.1:1", true}, {":1", "127.0.0.1:1", true}, {"10.0.0.1:1", "0.0.0.0:1", true}, {"[::]:1", "h:1", true},
		{"127.0.0.1:1", "127.0.0.1:2", false}, {"127.0.0.1:1", "127.0.0.2:1", false}, {":0", ":0", false}, {"", ":1", false},
		{"localhost:1", "127.0.0.1:1", true}, {"localhost:1", "[::1]:1", true}, {"localhost:1", ":1", true}, {"localhost:1",
			"127.0.0.2:1", false},
	} {
		if overlap(c.a, c.b) != c.want || overlap(c.b, c.a) != c.want {
			t.Errorf("%s and %s: not %v", c.a, c.b, c.want)
		}
	}
}
