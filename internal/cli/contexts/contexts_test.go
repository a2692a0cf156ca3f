package contexts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// env returns an environment with a home directory and this contexts file.
func env(t *testing.T, file string, more map[string]string) func(string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(name string) string {
		if name == EnvFile {
			return path
		}
		return more[name]
	}
}

const twoContexts = "current: a\ncontexts:\n  a: {brokers: [one:1, two:2], tls: true, timeout: 5s}\n  b: {brokers: 'three:3'}\n"

func TestFlagOverVariableOverContextOverDefault(t *testing.T) {
	for _, c := range []struct {
		flags, vars map[string]string
		context     string
		want        string
	}{
		{nil, nil, "", "one:1,two:2 context a"},
		{nil, nil, "b", "three:3 context b"},
		{nil, map[string]string{EnvContext: "b"}, "", "three:3 context b"},
		{nil, map[string]string{EnvContext: "b"}, "a", "one:1,two:2 context a"},
		{nil, map[string]string{EnvBrokers: "four:4"}, "", "four:4 CHRONIK_BROKERS"},
		{nil, map[string]string{EnvBrokers: "four:4", "CHRONIKCTL_BROKERS": "five:5"}, "", "five:5 CHRONIKCTL_BROKERS"},
		{map[string]string{Brokers: "six"}, map[string]string{EnvBrokers: "four:4"}, "", "six --brokers"},
	} {
		s, err := Resolve(Input{Flags: c.flags, Getenv: env(t, twoContexts, c.vars), Context: c.context})
		if got := s.Get(Brokers) + " " + s.Source(Brokers); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	s, err := Resolve(Input{Getenv: env(t, "", nil)})
	if err != nil || s.Get(Brokers) != DefaultBrokers || s.Source(Brokers) != "default" || s.Encrypted() {
		t.Errorf("without anything: %+v, %v", s, err)
	}
}

// A password and a file with one are the same setting: the stronger source wins.
func TestAFileWithAPasswordIsTheExceptionToAContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	context := "current: a\ncontexts:\n  a: {sasl: PLAIN, sasl-user: me, sasl-password: context}\n"
	for _, c := range []struct {
		flags, vars map[string]string
		want        string
	}{
		{nil, nil, "context"},
		{map[string]string{SASLPasswordFile: path}, nil, "file"},
		{nil, map[string]string{Env(SASLPasswordFile): path}, "file"},
		{map[string]string{SASLPasswordFile: path}, map[string]string{Env(SASLPassword): "variable"}, "file"},
		{nil, map[string]string{Env(SASLPasswordFile): path, Env(SASLPassword): "variable"}, "variable"},
		{map[string]string{SASLPassword: "flag"}, map[string]string{Env(SASLPasswordFile): path}, "flag"},
	} {
		s, err := Resolve(Input{Flags: c.flags, Getenv: env(t, context, c.vars)})
		got, err2 := s.Password()
		if err := errors.Join(err, err2); err != nil || string(got.Bytes()) != c.want {
			t.Errorf("%+v: %s, %v", c, got.Bytes(), err)
		}
	}
}

// A variable close to a setting is an error; any other unknown variable is only reported.
func TestAMisspeltVariableIsRefused(t *testing.T) {
	for environ, want := range map[string]string{
		"CHRONIKCTL_BROKER=prod:9092":                        "there is no variable CHRONIKCTL_BROKER; did you mean CHRONIKCTL_BROKERS?",
		"CHRONIKCTL_TLSCA=x":                                 "there is no variable CHRONIKCTL_TLSCA; did you mean CHRONIKCTL_TLS_CA?",
		"CHRONIKCTL_CONTEX=x":                                "there is no variable CHRONIKCTL_CONTEX; did you mean CHRONIKCTL_CONTEXT?",
		"CHRONIKCTL_BROKER=":                                 "",
		"CHRONIKCTL_BROKERS=x:1 CHRONIKCTL_CONFIG=y HOME=/z": "",
		"CHRONIK_BROKER=chronikd's":                          "",
	} {
		strange, err := UnknownVariables(strings.Fields(environ))
		if len(strange) > 0 || err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: %v, %v", environ, strange, err)
		}
	}
	if strange, err := UnknownVariables([]string{"CHRONIKCTL_VERSION=1.2", "CHRONIKCTL_BROKERS=x:1"}); err != nil ||
		!slices.Equal(strange, []string{"CHRONIKCTL_VERSION"}) {
		t.Errorf("%v, %v", strange, err)
	}
}

func TestWhatIsSavedIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "down", "contexts.yaml")
	f, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range [][2]string{{Brokers, "a:1,b:2"}, {TLS, "true"}, {SASLPassword, "x: {y}\n #"}, {Timeout, "1m"}} {
		if err := f.Set("one", kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	f.Current = "one"
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	g, err := Load(path)
	if err != nil || g.Current != "one" || len(g.Contexts) != 1 {
		t.Fatalf("%+v, %v", g, err)
	}
	for k, v := range f.Contexts["one"] {
		if g.Contexts["one"][k] != v {
			t.Errorf("%s is %q, was %q", k, g.Contexts["one"][k], v)
		}
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: others read the password", info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".chronikctl-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// Each call to the disk fails once, and a failed sync drops what it was to write: the file has its
// former content or the new one, and the new one after a Save without an error, also after a loss
// of power.
func TestAFaultAtEveryCallOfSave(t *testing.T) {
	f := &File{Path: "/deep/c", Contexts: map[string]map[string]string{"one": {Brokers: "a:1"}}}
	text := func(fsys vfs.FS) string {
		b, err := vfs.ReadFile(fsys, f.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return string(b)
	}
	for from, hits := 1, 1; hits > 0; from++ {
		power := crashfs.New(uint64(from))
		disk := errfs.New(power)
		fault := disk.Add(errfs.Rule{Err: syscall.EIO, From: from, Count: 1, Drop: errfs.DropCached})
		former := ""
		for i := range 3 {
			f.Current = fmt.Sprint("now", i)
			err := f.save(disk)
			for _, mode := range crashfs.Modes() {
				got := text(power.PowerLossImage(mode, 1))
				if !strings.Contains(got, f.Current) && (err == nil || got != former) {
					t.Errorf("call %d: %v; after %v the file has %q, was %q", from, mode, err, got, former)
				}
			}
			if err != nil {
				must.OK(t, f.save(disk))
			}
			former = text(power.PowerLossImage(crashfs.DropUnsynced, 1))
			if !strings.Contains(former, f.Current) || former != text(power) {
				t.Errorf("call %d: again: %q, after a loss of power %q", from, text(power), former)
			}
		}
		if hits = fault.Hits(); hits == 0 && from < 15 {
			t.Errorf("%d calls", from)
		}
	}
}

// A context can be renamed again after its file for Kafka's tools was renamed, and Save failed.
func TestARenameIsRepeated(t *testing.T) {
	f := &File{Path: filepath.Join(t.TempDir(), "c"),
		Contexts: map[string]map[string]string{"one": {Brokers: "a:1"}, "two": {Brokers: "b:1"}}}
	must.OK(t, f.Save())
	for _, name := range []string{"one", "two"} {
		must.OK(t, os.WriteFile(Properties(f.Path, name), []byte(name), 0o600))
	}
	must.OK(t, f.Rename("one", "new"))
	f, err := Load(f.Path) // it was not saved
	must.OK(t, err)
	if err := f.Rename("two", "new"); err == nil {
		t.Error("the file of another context was replaced")
	}
	must.OK(t, f.Rename("one", "new"))
	must.OK(t, f.Save())
	if f, err = Load(f.Path); err != nil || f.Contexts["new"][Brokers] != "a:1" {
		t.Errorf("%v, %v", f.Contexts, err)
	}
	if b, err := os.ReadFile(Properties(f.Path, "new")); err != nil || string(b) != "one" {
		t.Errorf("%q, %v", b, err)
	}
}

// The bytes of the file, which later versions read too, and people edit.
func TestFormatIsFixed(t *testing.T) {
	f := &File{Path: filepath.Join(t.TempDir(), "c"), Current: "one", Contexts: map[string]map[string]string{}}
	for _, kv := range [][3]string{{"one", Brokers, "a:1,b:2"}, {"one", TLS, "true"}, {"one", SASLPassword, "x: {y}\n #"},
		{"one", Timeout, "1m"}, {"two", Brokers, "c:3"}} {
		must.OK(t, f.Set(kv[0], kv[1], kv[2]))
	}
	must.OK(t, f.Save())
	text, err := os.ReadFile(f.Path)
	must.OK(t, err)
	golden.File(t, "testdata/contexts.yaml", string(text), "go test ./internal/cli/contexts -run FormatIsFixed")
	kept, err := Load("testdata/contexts.yaml")
	must.OK(t, err)
	if kept.Current != f.Current || fmt.Sprint(kept.Contexts) != fmt.Sprint(f.Contexts) {
		t.Errorf("the kept file has %q, %v", kept.Current, kept.Contexts)
	}
}

func TestWrongFilesNameThePlace(t *testing.T) {
	for file, want := range map[string]string{
		"contexts: [":                               "contexts file",
		"contxts: {}":                               "field contxts not found",
		"current: x":                                `the current context "x" is not in it`,
		"contexts: {a: {brokers: {x: 1}}}":          "context a: map[x:1] is neither",
		"contexts: {a: {brokers: [1]}}":             "in a list is not text",
		"contexts: {a: {borkers: x}}":               `there is no setting "borkers"`,
		"contexts: {'a/b': {brokers: x}}":           "not a valid name of a context",
		"contexts: {a: {admin: nowhere}}":           "admin: \"nowhere\" is not HOST:PORT",
		"contexts: {a: {tls-insecure: perhaps}}":    "neither true nor false",
		strings.Repeat("# a long file\n", 1<<20/13): "larger than",
	} {
		_, err := Resolve(Input{Getenv: env(t, file, nil)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", file, err, want)
		}
	}
}

func settings(t *testing.T, flags map[string]string) Settings {
	t.Helper()
	s, err := Resolve(Input{Flags: flags, Getenv: env(t, "", nil)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEachTLSSettingTurnsTLSOn(t *testing.T) {
	for _, flags := range []map[string]string{{TLS: "true"}, {TLSInsecure: "true"}, {TLSServerName: "x"}} {
		s := settings(t, flags)
		c, err := s.TLSConfig()
		if !s.Encrypted() || err != nil || c.InsecureSkipVerify != s.Bool(TLSInsecure) || c.ServerName != flags[TLSServerName] {
			t.Errorf("%v: %v, %v", flags, s.Encrypted(), err)
		}
	}
}

func TestWithoutATLSSettingThereIsNoTLS(t *testing.T) {
	if c, err := settings(t, nil).TLSConfig(); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	s := settings(t, map[string]string{SASL: "PLAIN", SASLUser: "me", SASLPassword: "secret"})
	for _, x := range All() {
		if strings.Contains(s.Shown(x.Name), "secret") {
			t.Errorf("%s shows it", x.Name)
		}
	}
}

// Files of secrets that others can read are named with the remedy: each that these settings use.
func TestExposedFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := settings(t, map[string]string{TLSCert: file("cert", 0o666), TLSKey: file("key", 0o666),
		AdminTokenFile: file("token", 0o662), SASL: "PLAIN", SASLUser: "me", SASLPasswordFile: file("password", 0o600)})
	got := fmt.Sprint(errors.Join(s.Exposed()...))
	want := "--admin-token-file: DIR/token: other users can read it (mode 0662); run chmod 600 DIR/token\n" +
		"--tls-key: DIR/key: other users can read it (mode 0666); run chmod 600 DIR/key"
	if got = strings.ReplaceAll(got, dir, "DIR"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	s = settings(t, map[string]string{AdminTokenFile: os.DevNull, SASLPasswordFile: filepath.Join(dir, "missing")})
	if s.Exposed() != nil {
		t.Error(s.Exposed())
	}
}

func TestSeedsAreWhatTheClientTakes(t *testing.T) {
	for _, at := range []string{"a", "a:1, b:2", "[::1]:9092", "10.0.0.1:65535"} {
		s := settings(t, map[string]string{Brokers: at})
		if _, err := kgo.NewClient(kgo.SeedBrokers(s.Seeds()...)); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	for _, at := range []string{"", "a:", ":1", "a:0", "a:65536", "a:x", "a b:1", "http://a:1", "a:1,,b:2"} {
		if _, err := Resolve(Input{Flags: map[string]string{Brokers: at}, Getenv: env(t, "", nil)}); err == nil {
			t.Errorf("%q is taken", at)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(twoContexts)
	f.Add("contexts: {a: {brokers: null}}")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "c")
		if os.WriteFile(path, []byte(text), 0o600) != nil {
			t.Skip()
		}
		c, err := Load(path)
		if err != nil {
			return
		}
		if err := c.Save(); err != nil {
			t.Fatal(err)
		}
		if again, err := Load(path); err != nil || len(again.Contexts) != len(c.Contexts) || again.Current != c.Current {
			t.Errorf("%q: %+v, %v", text, again, err)
		}
	})
}
