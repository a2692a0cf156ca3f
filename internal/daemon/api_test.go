package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// startHere starts a broker with an admin port on fsys, and returns a function that sends GET
// requests.
func startHere(t *testing.T, fsys vfs.FS, set ...string) (b *Broker, ask func(path string) (int, map[string]any)) {
	t.Helper()
	dir := "/data"
	if fsys == vfs.OS() {
		dir = t.TempDir()
	}
	cfg, err := resolve.Load(
		config.Input{
			Set:   set,
			Flags: map[string]string{config.KeyDataDir: dir, config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "127.0.0.1:0"},
		},
	)
	must.OK(t, err)
	b, err = Start(
		t.Context(),
		Options{
			Config:          cfg,
			FS:              fsys,
			Log:             zap.NewNop(),
			Level:           zap.NewAtomicLevel(),
			Version:         "test",
			JournalFileSize: 1 << 20,
			JournalBytes:    16 << 20,
		},
	)
	must.OK(t, err)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, func(path string) (int, map[string]any) {
		t.Helper()
		resp, err := client.Get("http://" + b.AdminAddr() + path)
		must.OK(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must.OK(t, err)
		var v map[string]any
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatalf("%s: %v: %s", path, err, body)
		}
		return resp.StatusCode, v
	}
}

// filling is a disk of a terabyte whose free space the test sets.
type filling struct {
	vfs.FS
	free atomic.Uint64
}

// Free implements vfs.FS.
func (f *filling) Free(string) (available, total uint64, err error) {
	return f.free.Load(), 1 << 40, nil
}

// leave sets the free space and waits until the broker's disk guard has measured it.
func (f *filling) leave(t *testing.T, b *Broker, free uint64) {
	t.Helper()
	f.free.Store(free)
	d := b.components.storage.Dirs()[0]
	for begun := time.Now(); d.LastSpace().Free != int64(free); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatal("the disk guard does not measure the free space")
		}
	}
}

// fill creates a topic and writes n records to each of its partitions.
func fill(t *testing.T, b *Broker, topic string, partitions int32, n int) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()[0]), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must.OK(t, err)
	defer c.Close()
	if _, err := kadm.NewClient(c).CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	for p := range partitions {
		for i := range n {
			must.OK(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p, Key: []byte("k"),
				Value: fmt.Append(nil, i)}).FirstErr())
		}
	}
}

// keysOf lists the paths of the names in a JSON value, such as "logs[].topic".
func keysOf(v any, at string, found map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			found[at+k] = true
			keysOf(x, at+k+".", found)
		}
	case []any:
		for _, x := range v {
			keysOf(x, strings.TrimSuffix(at, ".")+"[].", found)
		}
	}
}

// The examples in docs/admin.md have all the names of the broker's responses and no others.
func TestDocsShowWhatTheAdminPortAnswers(t *testing.T) {
	page, err := os.ReadFile("../../docs/admin.md")
	must.OK(t, err)
	disk := &filling{FS: vfs.Memory()}
	disk.free.Store(1 << 39)
	b, ask := startHere(t, disk)
	fill(t, b, "orders", 1, 3)
	disk.leave(t, b, 80<<20) // so that there is a finding
	b.health.Join(func() []health.Heard { return []health.Heard{{Broker: 2, At: time.Now(), Report: &health.Report{}}} })
	client := connect(t, b, "shop")
	defer client.Close()
	for _, path := range []string{"/v1/logs", "/v1/dirs", "/v1/profiles", "/v1/connections", "/v1/brokers", "/v1/rights", "/v1/waits",
		"/v1/shares", "/v1/health"} {
		_, rest, ok := strings.Cut(string(page), "## GET "+path+"\n")
		_, rest, ok2 := strings.Cut(rest, "```json\n")
		example, _, ok3 := strings.Cut(rest, "```")
		if !ok || !ok2 || !ok3 {
			t.Fatalf("docs/admin.md has no example of %s", path)
		}
		var shown any
		if err := json.Unmarshal([]byte(example), &shown); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		query := ""
		if path == "/v1/shares" {
			query = "?group=jobs&topic=orders"
		}
		status, got := ask(path + query)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %v", path, status, got)
		}
		want, have := map[string]bool{}, map[string]bool{}
		keysOf(shown, "", want)
		if path == "/v1/waits" { // nothing waits here, so that the names are those of the struct
			var all view.Waits
			if text, err := json.Marshal(decoded(t, example, &all)); err != nil || json.Unmarshal(text, &got) != nil {
				t.Fatal(err)
			}
		}
		keysOf(got, "", have)
		if !maps.Equal(want, have) {
			t.Errorf("%s\nin docs  %v\nresponse %v", path, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have)))
		}
	}
}

// decoded decodes a JSON text without unknown names into v, and returns v.
func decoded(t *testing.T, text string, v any) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	must.OK(t, d.Decode(v))
	return v
}

// connect opens connections with a client id and sends requests over them.
func connect(t *testing.T, b *Broker, id string) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ClientID(id))
	if err == nil {
		err = c.Ping(t.Context())
	}
	must.OK(t, err)
	return c
}

// Each open connection is listed with its client and its traffic, one page at a time.
func TestConnectionsAreListed(t *testing.T) {
	b, ask := startHere(t, vfs.Memory())
	first, second := connect(t, b, "shop"), connect(t, b, "audit")
	defer first.Close()
	defer second.Close()
	if err := first.ProduceSync(t.Context(), kgo.StringRecord("x"), kgo.StringRecord("y")).FirstErr(); err == nil {
		t.Fatal("the broker wrote records without a topic")
	}
	fill(t, b, "orders", 1, 1)
	r := []*kgo.Record{{Topic: "orders", Value: []byte("1")}, {Topic: "orders", Value: []byte("2")}}
	must.OK(t, first.ProduceSync(t.Context(), r...).FirstErr())
	records, requests, seen, after := 0.0, 0.0, 0, ""
	for page := 0; ; page++ {
		status, v := ask("/v1/connections?limit=1" + after)
		if status != http.StatusOK || page > 20 {
			t.Fatalf("page %d: %d %v", page, status, v)
		}
		for _, c := range v["connections"].([]any) {
			c := c.(map[string]any)
			after = fmt.Sprintf("&after=%v", c["id"])
			if c["clientId"] == "shop" {
				seen++
				records += c["recordsIn"].(float64)
				requests += c["requests"].(float64)
			}
		}
		if !v["more"].(bool) {
			break
		}
	}
	if seen == 0 || records != 2 || requests < 3 {
		t.Errorf("%d connections of shop with %v records and %v requests", seen, records, requests)
	}
	for _, path := range []string{"/v1/connections?limit=0", "/v1/connections?limit=10001", "/v1/connections?after=x",
		"/v1/connections?of=shop", "/v1/log?n=3", "/v1/shares?group=g", "/v1/shares?topic=orders",
		"/v1/waits?limit=0", "/v1/waits?limit=101", "/v1/waits?of=shop", "/v1/waits/trace", "/v1/waits/trace?client=x&forMs=60001",
		"/v1/waits/trace?client=x&slowerMs=-1"} {
		if status, v := ask(path); status != http.StatusBadRequest {
			t.Errorf("%s: %d %v", path, status, v)
		}
	}
}

// The profiles in the example of docs/admin.md have the broker's values.
func TestDocsShowProfilesAsTheyAre(t *testing.T) {
	page, err := os.ReadFile("../../docs/admin.md")
	must.OK(t, err)
	type profiles struct {
		Default  string           `json:"default"`
		Profiles []map[string]any `json:"profiles"`
	}
	_, rest, _ := strings.Cut(string(page), "## GET /v1/profiles\n")
	_, rest, _ = strings.Cut(rest, "```json\n")
	example, _, _ := strings.Cut(rest, "```")
	b, _ := startHere(t, vfs.Memory())
	var shown, real profiles
	if err := errors.Join(json.Unmarshal([]byte(example), &shown), json.Unmarshal([]byte(body(t, b, "/v1/profiles")), &real)); err != nil {
		t.Fatal(err)
	}
	if shown.Default != real.Default || len(shown.Profiles) == 0 {
		t.Errorf("the default is %q, the page shows %q and %d profiles", real.Default, shown.Default, len(shown.Profiles))
	}
	for _, p := range shown.Profiles {
		i := slices.IndexFunc(real.Profiles, func(r map[string]any) bool { return r["name"] == p["name"] })
		if i < 0 {
			t.Errorf("there is no profile %v", p["name"])
			continue
		}
		for field, value := range p {
			if field != "waits" && real.Profiles[i][field] != value {
				t.Errorf("%s of %v is %v, the page shows %v", field, p["name"], real.Profiles[i][field], value)
			}
		}
	}
}

func TestLogsAreChosenAndPaged(t *testing.T) {
	b, ask := startHere(t, vfs.Memory())
	fill(t, b, "a", 3, 0)
	fill(t, b, "b", 1, 0)
	places := func(path string) string {
		t.Helper()
		status, v := ask(path)
		if status != http.StatusOK {
			return fmt.Sprint(status, " ", v["error"])
		}
		var all []string
		for _, l := range v["logs"].([]any) {
			x := l.(map[string]any)
			all = append(all, fmt.Sprintf("%s/%v", x["topic"], x["partition"]))
		}
		if v["more"].(bool) {
			all = append(all, "more")
		}
		return strings.Join(all, " ")
	}
	for path, want := range map[string]string{
		"/v1/logs":                         "a/0 a/1 a/2 b/0",
		"/v1/logs?topic=b":                 "b/0",
		"/v1/logs?topic=b&topic=a&limit=2": "a/0 a/1 more",
		"/v1/logs?limit=2&after=a/1":       "a/2 b/0",
		"/v1/logs?after=a/2&limit=1":       "b/0",
		"/v1/logs?after=b/0":               "",
		"/v1/logs?partition=0":             "a/0 b/0",
		"/v1/logs?topic=c":                 `404 this broker has no partition of topic "c"`,
		"/v1/logs?topics=a":                `400 unknown parameter "topics"; the parameters are: topic, partition, limit, after`,
		"/v1/logs?partition=-1":            "400 partition=-1 is not a partition",
		"/v1/logs?limit=10001":             "400 limit=10001 is not a number from 1 to 10000",
		"/v1/logs?after=a":                 "400 after=a is not TOPIC/PARTITION",
	} {
		if got := places(path); got != want {
			t.Errorf("%s: %s\nwant %s", path, got, want)
		}
	}
}

func TestALogIsShown(t *testing.T) {
	b, ask := startHere(t, vfs.Memory(), "log.cleanup.policy=compact,delete", "log.retention.ms=3600000")
	fill(t, b, "t", 1, 5)
	_, v := ask("/v1/logs?topic=t")
	l := v["logs"].([]any)[0].(map[string]any)
	for name, want := range map[string]any{
		"dir": "/data/logs", "leader": 1.0, "logStart": 0.0, "highWatermark": 5.0, "durableEnd": 5.0, "logEnd": 5.0, "profile": "sync",
		"cleanupPolicy": "compact,delete", "retentionMs": 3600000.0, "retentionBytes": -1.0, "error": "", "damaged": "", "missing": "",
	} {
		if l[name] != want {
			t.Errorf("%s is %v, want %v", name, l[name], want)
		}
	}
	if l["dirtyRatio"] != 0.0 { // all of it is in the active segment
		t.Errorf("dirty: %v", l["dirtyRatio"])
	}
	if why := l["retained"].(string); !strings.Contains(why, "active") {
		t.Errorf("retained: %q", why)
	}
	if l["bytes"].(float64) < 5*60 {
		t.Errorf("%v bytes", l["bytes"])
	}
	_, v = ask("/v1/profiles")
	for _, p := range v["profiles"].([]any) {
		if p := p.(map[string]any); (p["name"] == "sync") != (p["waits"] != nil) {
			t.Errorf("%v", p)
		}
	}
}

// While the broker starts and while it stops, it reports its phase.
func TestTheAdminPortSaysWhyItCantAnswer(t *testing.T) {
	b, ask := startHere(t, vfs.Memory())
	b.health.Enter("recovering logs")
	for _, path := range []string{"/v1/logs", "/v1/dirs", "/v1/profiles", "/v1/connections", "/v1/brokers", "/v1/rights", "/v1/waits"} {
		if status, v := ask(path); status != http.StatusServiceUnavailable ||
			v["error"] != "the broker is not serving clients: recovering logs" {
			t.Errorf("%s: %d %v", path, status, v)
		}
	}
	if _, v := ask("/v1/health"); v["ready"] != false || len(v["findings"].([]any)) != 1 {
		t.Errorf("health: %v", v)
	}
	b.health.Enter("")
	if _, v := ask("/v1/health"); v["ready"] != true || len(v["findings"].([]any)) != 0 {
		t.Errorf("health: %v", v)
	}
}

// A broker on a nearly full disk is ready and reports the operations that fail.
func TestALowDiskIsDegradedNotDead(t *testing.T) {
	disk := &filling{FS: vfs.Memory()}
	disk.free.Store(1 << 39)
	b, ask := startHere(t, disk)
	disk.leave(t, b, 80<<20)
	report := b.health.Report(t.Context())
	if !report.Ready ||
		!strings.HasPrefix(
			report.Text(),
			"ready\nbad: disk of /data/logs: log directory /data/logs has 80 MiB free, the threshold is 1 GiB",
		) {
		t.Errorf("%s", report.Text())
	}
	if !strings.Contains(b.Status(), "serving") || !strings.Contains(b.Status(), "80 MiB") {
		t.Errorf("status: %s", b.Status())
	}
	_, v := ask("/v1/dirs")
	if d := v["dirs"].([]any)[0].(map[string]any); d["space"] != "critical" || d["minFreeBytes"] != float64(1<<30) ||
		d["freeBytes"] != float64(80<<20) {
		t.Errorf("%v", d)
	}
	text, err := prometheusText(b)
	must.OK(t, err)
	for _, line := range []string{`chronik_log_dir_low_space{dir="/data/logs"} 2`,
		`chronik_log_dir_min_free_bytes{dir="/data/logs"} 1.073741824e+09`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the metrics have no line %s", line)
		}
	}
}

// prometheusText returns the result of a scrape.
func prometheusText(b *Broker) (string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + b.AdminAddr() + "/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestPartitionsAreCountedAndCanBeLeftOut(t *testing.T) {
	for each, want := range map[string]bool{"true": true, "false": false} {
		b, _ := startHere(t, vfs.Memory(), "metrics.partitions="+each)
		fill(t, b, "t", 3, 1)
		text := scraped(t, b, `chronik_response_send_seconds_count{api="Produce"} 3`)
		for _, line := range []string{"chronik_partitions_led 3", "chronik_partitions_under_min_isr 0",
			"chronik_partitions_unavailable 0", "chronik_partitions 3"} {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("the metrics have no line %s", line)
			}
		}
		if has := strings.Contains(text, `chronik_log_end_offset{partition="2",topic="t"} 1`); has != want {
			t.Errorf("metrics.partitions=%s: series of a partition: %v", each, has)
		}
	}
}

// scraped returns the metrics once they contain want: a request may be counted after its client has
// read the response.
func scraped(t *testing.T, b *Broker, want string) string {
	t.Helper()
	var text string
	eventually(t, "the metrics have the line "+want, func() bool {
		var err error
		if text, err = prometheusText(b); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(text, want)
	})
	return text
}
