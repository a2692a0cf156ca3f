package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/observe"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// found lists the findings of a response as "severity check subject: problem".
func found(t *testing.T, ask func(string) (int, map[string]any)) string {
	t.Helper()
	status, v := ask("/v1/health")
	if status != http.StatusOK {
		return fmt.Sprint(status, " ", v["error"])
	}
	var all []string
	for _, f := range v["findings"].([]any) {
		x := f.(map[string]any)
		all = append(all, fmt.Sprintf("%s %s %s: %s", x["severity"], x["check"], x["subject"], x["problem"]))
	}
	return strings.Join(all, "\n")
}

// A broker in memory with default settings has no findings.
func TestAHealthyBrokerHasNoFindings(t *testing.T) {
	_, ask := startHere(t, vfs.Memory(), "chronik.disk.min.free.bytes=0")
	if got := found(t, ask); got != "" {
		t.Errorf("found %s", got)
	}
}

// /v1/health, /readyz and the metrics have the same findings.
func TestFindingsAreOneList(t *testing.T) {
	disk := &filling{FS: vfs.Memory()}
	disk.free.Store(1 << 39)
	b, ask := startHere(t, disk)
	fill(t, b, "weak", 1, 1)
	disk.leave(t, b, 80<<20)
	_, report := ask("/v1/health")
	x := report["findings"].([]any)[0].(map[string]any)
	if want := fmt.Sprintf("ready\nbad: %s: %s; %s\n", x["subject"], x["problem"], x["works"]); body(t, b, "/readyz") != want ||
		x["check"] != "space" {
		t.Errorf("/readyz says %s\nwant %s", body(t, b, "/readyz"), want)
	}
	scrape := func(line string) {
		t.Helper()
		if !strings.Contains(body(t, b, "/metrics"), "\n"+line+"\n") {
			t.Errorf("the scrape has no line %s", line)
		}
	}
	scrape(`chronik_findings{check="space",severity="bad"} 1`)
	scrape(`chronik_findings{check="space",severity="warn"} 0`)
	disk.leave(t, b, 1<<39)
	if got := found(t, ask); got != "" {
		t.Errorf("with free space again: %s", got)
	}
	scrape(`chronik_findings{check="space",severity="bad"} 0`)
}

// body returns the response of the admin port.
func body(t *testing.T, b *Broker, path string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + b.AdminAddr() + path)
	must.OK(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	return string(text)
}

// There are findings about the sizes that logs keep and about partitions that are offline.
func TestTopicsAreChecked(t *testing.T) {
	errs := errfs.New(vfs.Memory())
	start := func() (*Broker, func(string) (int, map[string]any)) {
		return startHere(t, errs, "chronik.disk.min.free.bytes=0", "log.retention.ms=-1", "log.retention.bytes=9223372036854775807")
	}
	b, ask := start()
	fill(t, b, "kept", 2, 1)
	got := found(t, ask)
	if !strings.HasPrefix(got, "warn retention log directory /data/logs: 2 partitions that only retention.bytes bounds may keep ") {
		t.Errorf("found %s", got)
	}
	must.OK(t, b.Close())
	errs.Add(errfs.Rule{Ops: errfs.List, Path: "/data/logs/kept-1", Err: syscall.EIO})
	b, ask = start()
	if got := found(t, ask); !strings.HasPrefix(got, "bad partition partition kept-1: it can be neither written nor read: ") {
		t.Errorf("found %s", got)
	}
	// It is found by events: those who read all logs find the same.
	var all []view.Log
	var events checks.Facts
	l := b.components.logs
	logs := observe.Logs{Self: l.Self, Image: l.Image, Replicas: l.Replicas, Storage: l.Storage, Settings: l.Settings}
	logs.Facts(&events)
	logs.Each(func(x *view.Log) {
		if x.Offline {
			all = append(all, *x)
		}
	})
	if diff := cmp.Diff(all, events.Partitions, cmpopts.IgnoreFields(view.Log{}, "RetentionMs", "RetentionBytes")); diff != "" {
		t.Error(diff)
	}
}

// A topic may be deleted while its logs are read: then it has none, and no faults.
func TestALogThatIsDeletedNowHasNoFault(t *testing.T) {
	b, _ := startHere(t, vfs.Memory(), "chronik.disk.min.free.bytes=0")
	r := b.components
	fill(t, b, "gone", 2, 1)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	must.OK(t, err)
	defer c.Close()
	before := r.applier.Image()
	seen := func(img *metadata.Image, during func(*view.Log)) (all []string) {
		logs := *r.logs
		logs.Image = func() *metadata.Image { return img }
		logs.Each(func(x *view.Log) {
			during(x)
			all = append(all, x.String()+x.Error)
		})
		return all
	}
	nothing := func(*view.Log) {}
	removeOther := func(x *view.Log) {
		for _, l := range r.storage.Logs() {
			if l.ID().Partition != x.Partition {
				must.OK(t, r.storage.Delete(l.ID()))
			}
		}
	}
	if got := seen(before, nothing); len(got) != 2 {
		t.Errorf("of a topic with 2 partitions: %s", got)
	}
	if got := seen(metadata.Empty(), removeOther); len(got) != 1 {
		t.Errorf("while the topic is deleted: %s", got)
	}
	if _, err := kadm.NewClient(c).DeleteTopics(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if got := seen(before, nothing); len(got) != 0 {
		t.Errorf("of a deleted topic: %s", got)
	}
}

// retention.ms bounds these logs, so there is no finding about their size; a topic with a weaker
// guarantee than the default is named.
func TestTopicsThatPromiseLessAreNamed(t *testing.T) {
	b, ask := startHere(t, vfs.Memory(), "chronik.disk.min.free.bytes=0", "log.retention.bytes=9223372036854775807")
	fill(t, b, "kept", 1, 1)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	must.OK(t, err)
	defer c.Close()
	profile := "os"
	if _, err := kadm.NewClient(c).CreateTopic(t.Context(), 2, 1, map[string]*string{"chronik.durability.profile": &profile},
		"weak"); err != nil {
		t.Fatal(err)
	}
	want := "note profile topics: 1 acknowledges records that are not durable, although the default profile sync does not: weak"
	if got := found(t, ask); got != want {
		t.Errorf("found %s\nwant %s", got, want)
	}
}

// While the broker starts, its configuration is checked; a start that fails logs no findings.
func TestAStartingBrokerIsChecked(t *testing.T) {
	cfg, err := resolve.Load(
		config.Input{
			Flags: map[string]string{
				config.KeyDataDir:     "/data",
				config.KeyListen:      "127.0.0.1:0",
				config.KeyAdminListen: "127.0.0.1:0",
				config.KeyWALProfile:  "os",
			},
		},
	)
	must.OK(t, err)
	var got string
	b, err := Start(t.Context(), Options{Config: cfg, FS: vfs.Memory(), Log: zap.NewNop(), Level: zap.NewAtomicLevel(), Version: "test",
		JournalFileSize: 1 << 20, JournalBytes: 16 << 20, Begun: func(b *Broker) {
			for _, f := range b.health.Report(t.Context()).Findings {
				got += fmt.Sprintf("%s %s\n", f.Severity, f.Check)
			}
		}})
	must.OK(t, err)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if got != "bad serving\nnote profile\n" {
		t.Errorf("found %s", got)
	}
	if r := b.health.Report(t.Context()); r.Ready || r.Phase != "draining" {
		t.Errorf("a closed broker reports %+v", r)
	}
}

// A request starts the measurement of the disks, and its result counts from then on.
func TestDisksAreMeasuredOnRequest(t *testing.T) {
	post := func(b *Broker) (int, string) {
		t.Helper()
		resp, err := http.Post("http://"+b.AdminAddr()+"/v1/health", "", nil)
		must.OK(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must.OK(t, err)
		return resp.StatusCode, string(body)
	}
	defer http.DefaultClient.CloseIdleConnections()
	memory, _ := startHere(t, vfs.Memory())
	if status, body := post(memory); status != http.StatusBadRequest || !strings.Contains(body, "no disk to measure") {
		t.Errorf("in memory: %d %s", status, body)
	}
	b, ask := startHere(t, vfs.OS(), "chronik.disk.min.free.bytes=0")
	saw := func() string {
		_, v := ask("/v1/health")
		for _, c := range v["checks"].([]any) {
			if x := c.(map[string]any); x["name"] == "sync" {
				return fmt.Sprint(x["saw"])
			}
		}
		return ""
	}
	if got := saw(); !strings.Contains(got, "too few fdatasyncs") {
		t.Errorf("before: %s", got)
	}
	status, body := post(b)
	if status == http.StatusBadRequest && strings.Contains(body, "unsupported") {
		t.Skip(body)
	}
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if got := saw(); !strings.Contains(got, "in a probe") {
		t.Errorf("afterwards: %s", got)
	}
}

func TestChecksKnowTheSettings(t *testing.T) {
	file := "listeners: [{name: in, listen: ':1', advertise: 'localhost:1'}, {name: out, listen: '127.0.0.1:2', advertise: 'h:1'}]\nadmin.listen: ':3'\nwal.profile: interval\nmin.insync.replicas: 2\n"
	cfg, err := resolve.Load(config.Input{File: "f", ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
	must.OK(t, err)
	b := &Broker{cfg: cfg, configs: resolve.Registry(cfg.Durability), probes: &observe.Probes{}, reg: prometheus.NewRegistry(),
		fs: vfs.Memory(), certs: &guard.Certificates{}}
	must.OK(t, b.startHealth("v", func(bool) {}, zap.NewNop()))
	defer b.health.Stop(context.Background())
	r := b.health.Report(t.Context())
	var got []string
	for _, f := range r.Findings {
		got = append(got, fmt.Sprintf("%s %s: %s", f.Severity, f.Check, f.Subject))
	}
	want := "bad serving: this broker\nnote exposed: listener in on :1\nnote exposed: admin port on :3\nnote advertise: listener in on :1\nnote settings: configuration\nnote profile: profile interval"
	if strings.Join(got, "\n") != want {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	for _, f := range r.Findings {
		if f.Check == "profile" && !strings.HasSuffix(f.Problem, "at most the records of 50ms and one sync are lost") {
			t.Errorf("%s", f.Problem)
		}
	}
}

func TestDocsListEveryCheck(t *testing.T) {
	var b strings.Builder
	b.WriteString("| check | subject |\n|---|---|\n")
	for _, c := range checks.Checks() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.Name, c.Doc)
	}
	generated(t, "../../docs/operations.md", "checks", b.String())
}
