package ctl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/chronik"
)

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
	b := chronik.StartTest(t, chronik.Options{Admin: "127.0.0.1:0", Settings: map[string]string{"group.initial.rebalance.delay.ms": "0",
		"authorization": "acl", "super-users": "User:ANONYMOUS", "admin.token-file": token}})
	real := map[string]string{"DATA": filepath.Join(dir, "data"), "ca.pem": ca} // what words of the lines stand for
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
	run("context set here brokers=" + b.Addr())
	run("user add alice --password-file " + password)
	stopped := chronik.StartTestIn(t, real["DATA"], chronik.Options{})
	run("topic create orders --brokers " + stopped.Addr())
	run("produce orders --brokers " + stopped.Addr())
	must.OK(t, stopped.Close())
	awaitsRecords(t, b.Addr(), run)
	var doc strings.Builder
	doc.WriteString("| command | fields |\n|---|---|\n")
	for _, line := range []string{
		"topic list", "topic describe orders", "topic create payments", "topic trim orders --before earliest --dry-run", "group list",
		"group describe audit",
		"group reset audit --to-latest --dry-run", "config get topic orders retention.ms", "config list topic", "consume orders",
		"txn list", "txn describe import", "acl add alice read topic:orders", "acl list", "acl explain alice read topic:orders",
		"user list", "quota set producer_byte_rate=1MiB --user alice", "quota list", "quota explain alice", "cert show ca.pem",
		"broker list",
		"broker describe 1", "cluster describe", "cluster health", "api-versions",
		"profile list", "profile show sync", "profile explain orders", "context list", "context show", "debug waits",
		"log verify --dir DATA", "log dump checkpoint --dir DATA", "log dump journal --dir DATA", "log dump segments --dir DATA",
		"top --interval 100ms", "version",
	} {
		f := &fields{below: map[string]*fields{}}
		d := json.NewDecoder(strings.NewReader(run(line + " -o json")))
		for err = f.gather(d); err == nil && d.More(); { // log dump prints an object for each line
			err = f.gather(d)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		fmt.Fprintf(&doc, "| `%s` | %s |\n", line, f)
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
