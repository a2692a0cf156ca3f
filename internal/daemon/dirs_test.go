package daemon

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A broker starts although a log directory does not open. It is ready, serves the partitions in the
// others, creates new topics there, and reports the failure and its reason everywhere.
func TestABrokerServesBesideABadLogDirectory(t *testing.T) {
	const two = "log.dirs=/one,/two"
	mem := vfs.Memory()
	b, _ := startHere(t, mem, two)
	fill(t, b, "t", 2, 3)
	must.OK(t, b.Close())
	errs := errfs.New(mem)
	errs.Add(errfs.Rule{Ops: errfs.Read, Path: "/two/checkpoint/*", Err: syscall.EIO})
	b, ask := startHere(t, errs, two)

	report := b.health.Report(t.Context())
	if text := report.Text(); !report.Ready || !strings.Contains(text, "bad: log directory /two: ") ||
		!strings.Contains(text, "input/output error") {
		t.Errorf("%s", text)
	}
	text := found(t, ask)
	for _, want := range []string{"bad log_dir log directory /two: it could not be opened, and its partitions can be neither written nor read (t-1)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no finding %q in\n%s", want, text)
		}
	}
	_, v := ask("/v1/dirs")
	if dirs := v["dirs"].([]any); len(dirs) != 2 || !strings.Contains(dirs[1].(map[string]any)["error"].(string), "input/output error") {
		t.Errorf("%v", dirs)
	}
	scrape, err := prometheusText(b)
	must.OK(t, err)
	for _, line := range []string{`chronik_log_dir_online{dir="/one"} 1`, `chronik_log_dir_online{dir="/two"} 0`,
		`chronik_partitions_unavailable 1`} {
		if !strings.Contains(scrape, line+"\n") {
			t.Errorf("the metrics have no line %s", line)
		}
	}

	for path, texts := range map[string][]string{
		"/":       {"(1) ", `<h3><span class="tag bad">bad</span> log directory /two</h3>`, `">not opened</span>`},
		"/topics": {"1 partition offline"},
		"/topic?name=t": {`<h3><span class="tag bad">bad</span> log directory /two</h3>`,
			`<td class="path opt">/two</td>`, "last 10"},
		"/records?topic=t&partition=0": {"3 records"},
	} {
		code, body := browse(t, b, path)
		for _, text := range texts {
			if code != http.StatusOK || !strings.Contains(body, text) {
				t.Errorf("%s: %d, no %q in\n%s", path, code, text, body)
			}
		}
	}
	if code, body := browse(t, b, "/records?topic=t&partition=1"); code != http.StatusInternalServerError ||
		!strings.Contains(body, "input/output error") {
		t.Errorf("records of the offline partition: %d %s", code, body)
	}

	fill(t, b, "new", 4, 1)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must.OK(t, err)
	defer c.Close()
	admin := kadm.NewClient(c)
	ends, err := admin.ListEndOffsets(t.Context(), "t")
	if err == nil {
		t.Error("t-1 has an end")
	}
	if end, _ := ends.Lookup("t", 0); end.Err != nil || end.Offset != 3 {
		t.Errorf("t-0: %+v", end)
	}
	described, err := admin.DescribeBrokerLogDirs(t.Context(), b.components.conf.NodeID, nil)
	must.OK(t, err)
	if d, there := described["/two"]; !there || !errors.Is(d.Err, kerr.KafkaStorageError) {
		t.Errorf("/two is described as %+v", d)
	}
}

// A log directory that fails while the broker serves has the same effect as one that did not open:
// the broker is ready as long as another directory accepts records.
func TestOneDirectoryThatTakesRecordsIsEnough(t *testing.T) {
	for _, dirs := range []string{"/one", "/one,/two"} {
		errs := errfs.New(vfs.Memory())
		b, ask := startHere(t, errs, "log.dirs="+dirs)
		c, err := kgo.NewClient(
			kgo.SeedBrokers(b.Addrs()...),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.DisableIdempotentWrite(),
			kgo.RecordRetries(0),
		)
		must.OK(t, err)
		if _, err := kadm.NewClient(c).CreateTopic(t.Context(), 2, 1, nil, "t"); err != nil {
			t.Fatal(err)
		}
		fault := errs.Add(
			errfs.Rule{Ops: errfs.Write | errfs.Datasync | errfs.Create | errfs.Allocate, Path: "/one/journal/*", Err: syscall.EIO},
		)
		for i := range int32(2) {
			_ = c.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: i, Value: []byte("v")})
		}
		alone := dirs == "/one"
		eventually(t, "the directory has failed and is reported", func() bool {
			report := b.health.Report(t.Context())
			return strings.Contains(report.Text(), "log directory /one: ") && report.Ready == !alone
		})
		if _, health := ask("/v1/health"); health["ready"] != !alone {
			t.Errorf("%v", health)
		}
		fault.Off()
		c.Close()
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			report := b.health.Report(t.Context()).Text()
			if report == "ready\n" {
				break
			}
			if time.Since(begun) > patience {
				t.Fatalf("it does not recover: %s", report)
			}
		}
	}
}

// A file system that hangs does not block a scrape: operators learn of the fault from the metrics.
func TestAFileSystemThatHangsHoldsNoScrape(t *testing.T) {
	errs := errfs.New(vfs.Memory())
	b, _ := startHere(t, errs)
	entered, free := make(chan struct{}, 1000), make(chan struct{})
	errs.Add(errfs.Rule{Ops: errfs.Free, Before: func(errfs.Call) { entered <- struct{}{}; <-free }})
	<-entered // the call of the disk guard
	scraped := make(chan error, 1)
	go func() { _, err := prometheusText(b); scraped <- err }()
	select {
	case err := <-scraped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the scrape blocks")
	}
	close(free)
}

// The gauge and the finding report a log directory that accepts no records, whatever the cause, and
// one that accepts records again.
func TestTheGaugeReportsEveryCauseForWhichADirectoryAcceptsNoRecords(t *testing.T) {
	for name, rule := range map[string]errfs.Rule{
		"the journal fails":                {Ops: errfs.Datasync | errfs.Create, Path: "/one/journal/*", Err: syscall.EIO},
		"the journal cannot grow":          {Ops: errfs.Create, Path: "/one/journal/*", Err: syscall.ENOSPC},
		"the journal is full, sweeps fail": {Ops: errfs.Write | errfs.Create, Path: "/one/checkpoint*/*", Err: syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			errs := errfs.New(vfs.Memory())
			b, ask := startHere(t, errs, "log.dirs=/one")
			fill(t, b, "t", 1, 1)
			c := client(t, b)
			value := make([]byte, 512<<10)
			becomes := func(line string) {
				t.Helper()
				eventually(t, line, func() bool {
					c.TryProduce(t.Context(), &kgo.Record{Topic: "t", Value: value}, nil)
					text, err := prometheusText(b)
					return err == nil && strings.Contains(text, line+"\n")
				})
			}
			becomes(`chronik_log_dir_online{dir="/one"} 1`)
			fault := errs.Add(rule)
			becomes(`chronik_log_dir_online{dir="/one"} 0`)
			if text := found(t, ask); !strings.Contains(text, "bad log_dir log directory /one: it accepts no records") {
				t.Errorf("no finding in\n%s", text)
			}
			fault.Off()
			becomes(`chronik_log_dir_online{dir="/one"} 1`)
		})
	}
}
