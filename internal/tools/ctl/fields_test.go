package ctl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// outcomes are commands that print an outcome for each thing that they change.
var outcomes = []string{
	"acl add alice read topic:orders", "acl remove alice read topic:orders --dry-run", "broker fill 1 --dry-run",
	"broker move-logs 1 --dry-run", "broker rebalance --dry-run", "cluster feature share.version=1 --dry-run",
	"config set topic orders retention.ms=7d --dry-run", "config unset topic orders retention.ms --dry-run",
	"group delete audit --dry-run", "group delete-offsets audit --topic orders:0 --dry-run",
	"quota remove producer_byte_rate --user alice --dry-run", "quota set producer_byte_rate=1MiB --user alice --dry-run",
	"snapshot delete NUMBER --yes", "topic add-partitions orders --add 1 --dry-run",
	"topic alter orders --config retention.ms=1d --dry-run", "topic create payments", "topic delete orders --dry-run",
	"txn abort import --dry-run", "user add bob --password-file password", "user remove alice --dry-run",
	"user set-password alice --password-file password",
}

// notHere are commands that do the same, and need more than the broker of the test.
var notHere = []string{"broker drain", "broker maintain", "broker unregister", "group reject", "group release", "topic elect"}

// declaredFields are commands that print few of their fields for the broker of the test, with the
// file and the type of what they print.
var declaredFields = [][3]string{
	{"snapshot list", "../../view/snapshots.go", "SnapshotList"},
	{"snapshot create", "../../view/snapshots.go", "Snapshot"},
	{"snapshot describe", "../../view/snapshots.go", "Snapshot"},
	{"snapshot verify", "../../view/snapshots.go", "Snapshot"},
	{"group peek", "../../view/operate.go", "ShareRecords"},
	{"topic move", "topic/move.go", "moveInProgress"},
	{"txn find-hanging", "txn/hanging.go", "hanging"},
}

// noJSON are commands that print no result, or a text in every format.
var noJSON = []string{"completion bash", "completion fish", "completion powershell", "completion zsh", "context delete", "context rename",
	"context set", "context use", "produce"}

// unlisted returns the commands that no line begins with.
func unlisted(root *cobra.Command, lines []string) (missing []string) {
	leaves(root, func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "chronikctl ")
		if !slices.ContainsFunc(lines, func(line string) bool { return line == path || strings.HasPrefix(line, path+" ") }) {
			missing = append(missing, path)
		}
	})
	return missing
}

// declared returns the names of the fields that a type of a file has in JSON, with those of the
// types of the file that it contains.
func declared(t *testing.T, path, name string) *fields {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	must.OK(t, err)
	types := map[string]*ast.StructType{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				types[spec.Name.Name] = s
			}
		}
		return true
	})
	var of func(name string) *fields
	of = func(name string) *fields {
		f := &fields{below: map[string]*fields{}}
		if types[name] == nil {
			return f
		}
		for _, field := range types[name].Fields.List {
			tag, err := strconv.Unquote(field.Tag.Value)
			must.OK(t, err)
			key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			element := field.Type
			switch e := element.(type) {
			case *ast.ArrayType:
				element = e.Elt
			case *ast.StarExpr:
				element = e.X
			}
			f.order, f.below[key] = append(f.order, key), &fields{}
			if id, ok := element.(*ast.Ident); ok {
				f.below[key] = of(id.Name)
			}
		}
		return f
	}
	return of(name)
}

// The page lists the fields of JSON as the commands print them for a broker with rights and users,
// with a topic, a group and a client, and for the data directory of a broker that was stopped.
func TestDocsListTheFieldsOfJSON(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) (path string) {
		path = filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	token, password := put("token", strings.Repeat("t", 40)), put("password", "wonderland\n")
	authority, err := certs.NewAuthority("test CA", []string{"broker.test"}, time.Now())
	must.OK(t, err)
	ca := put("ca.pem", string(authority.CertificatePEM))
	archive := filepath.Join(dir, "archive")
	must.OK(t, os.Mkdir(archive, 0o700))
	b := chronik.StartTest(t, chronik.Options{Admin: "127.0.0.1:0", Settings: map[string]string{"group.initial.rebalance.delay.ms": "0",
		"authorization": "acl", "super-users": "User:ANONYMOUS", "admin.token-file": token, "archive.url": "file://" + archive,
		"snapshot.interval.ms": "0"}})
	real := map[string]string{"DATA": filepath.Join(dir, "data"), "ca.pem": ca, // what words of the lines stand for
		"bundle.tar.gz": filepath.Join(dir, "bundle.tar.gz"), "password": password}
	run := func(line string) string {
		t.Helper()
		words := strings.Fields(line)
		for i, w := range words {
			words[i] = cmp.Or(real[w], w)
		}
		var out, errs bytes.Buffer
		code := Main(t.Context(), words, "v1", Streams{In: strings.NewReader("k:v\n"), Out: &out, Err: &errs,
			Getenv: func(name string) string {
				return map[string]string{"HOME": dir, "CHRONIKCTL_BROKERS": b.Addr(), "CHRONIKCTL_ADMIN": b.AdminAddr(),
					"CHRONIKCTL_ADMIN_TOKEN_FILE": token}[name]
			}})
		if code != 0 && code != 4 { // a check may find something about this machine
			t.Fatalf("%s: %d %s", line, code, errs.String())
		}
		return out.String()
	}
	run("topic create orders")
	run("produce orders -k : -H h=1")
	run("consume orders --group audit")
	run("produce orders -k : --transactional-id import")
	run("acl add alice read topic:orders")
	run("quota set producer_byte_rate=1MiB --user alice")
	run("context set here brokers=" + b.Addr())
	run("context use here")
	run("user add alice --password-file " + password)
	stopped := chronik.StartTestIn(t, real["DATA"], chronik.Options{})
	run("topic create orders --brokers " + stopped.Addr())
	run("produce orders --brokers " + stopped.Addr())
	must.OK(t, stopped.Close())
	awaitsRecords(t, b.Addr(), run)
	of := func(line string) string {
		t.Helper()
		f := &fields{below: map[string]*fields{}}
		d := json.NewDecoder(strings.NewReader(run(line + " -o json")))
		err := f.gather(d)
		for err == nil && d.More() { // log dump prints an object for each line
			err = f.gather(d)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return f.String()
	}
	var taken struct{ Number int64 }
	must.OK(t, json.Unmarshal([]byte(run("snapshot create -o json")), &taken))
	real["NUMBER"] = strconv.FormatInt(taken.Number, 10)
	var doc strings.Builder
	doc.WriteString("| command | fields |\n|---|---|\n")
	lines := []string{
		"topic list", "topic describe orders", "topic trim orders --before earliest --dry-run", "group list",
		"group describe audit",
		"group reset audit --to-latest --dry-run", "config get topic orders retention.ms", "config list topic", "consume orders",
		"txn list", "txn describe import", "acl list", "acl explain alice read topic:orders",
		"user list", "quota list", "quota explain alice", "cert show ca.pem",
		"broker list",
		"broker describe 1", "config describe topic orders retention.ms", "group export audit", "log repair --dir DATA --dry-run",
		"debug bundle --file bundle.tar.gz --interval 100ms", "cluster describe", "cluster health", "api-versions",
		"profile list", "profile show sync", "profile explain orders", "context list", "context show", "debug waits",
		"log verify --dir DATA", "log dump checkpoint --dir DATA", "log dump journal --dir DATA", "log dump segments --dir DATA",
		"top --interval 100ms", "version",
	}
	for _, line := range lines {
		fmt.Fprintf(&doc, "| `%s` | %s |\n", line, of(line))
	}
	for _, d := range declaredFields {
		fmt.Fprintf(&doc, "| `%s` | %s |\n", d[0], declared(t, d[1], d[2]))
		lines = append(lines, d[0])
	}
	for _, line := range outcomes {
		if got := of(line); got != "`name`, `result`" {
			t.Errorf("%s prints %s", line, got)
		}
	}
	doc.WriteString("| the other commands that change something | `name`, `result`, `error` |\n")
	for _, path := range unlisted(Root(app.New("test", app.Streams{})), slices.Concat(lines, outcomes, notHere, noJSON)) {
		t.Errorf("no line of the test has the JSON of %s", path)
	}
	golden.Part(t, page, "fields", doc.String(), again)
}

// awaitsRecords makes a client wait for records until the end of the test, and waits until it does.
func awaitsRecords(t *testing.T, addr string, run func(string) string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics("orders"), kgo.FetchMaxWait(2*time.Minute),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	must.OK(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var polls sync.WaitGroup
	polls.Go(func() { cl.PollFetches(ctx) })
	t.Cleanup(func() { stop(); polls.Wait(); cl.Close() })
	for begin := time.Now(); !strings.Contains(run("debug waits -o json"), `"steps"`); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("no request waits")
		}
	}
}

// fields holds the field names of an object in order, with the fields inside them.
type fields struct {
	order []string
	below map[string]*fields
}

// gather adds the fields of the next value. It leaves out names that users choose, such as those
// of configs, and findings, which depend on the machine.
func (f *fields) gather(d *json.Decoder) error {
	start, err := d.Token()
	if err != nil {
		return err
	}
	for start == json.Delim('[') && d.More() {
		if err := f.gather(d); err != nil {
			return err
		}
	}
	for start == json.Delim('{') && d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		key := name.(string)
		below := f.below[key]
		if below == nil {
			below = &fields{below: map[string]*fields{}}
			f.below[key] = below
			f.order = append(f.order, key)
		}
		if err := below.gather(d); err != nil {
			return err
		}
		if slices.Contains([]string{"configs", "assignment", "features", "findings", "entity", "limits"}, key) {
			*below = fields{}
		}
	}
	if start == json.Delim('[') || start == json.Delim('{') {
		_, err = d.Token()
	}
	return err
}

// String returns the names with the fields inside them: `a`, `b` (`c`, `d`).
func (f *fields) String() string {
	var all []string
	for _, name := range f.order {
		text := "`" + name + "`"
		if below := f.below[name].String(); below != "" {
			text += " (" + below + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
