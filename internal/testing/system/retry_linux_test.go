package system

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// limitFiles sets the limit of open files of a process and returns the previous one.
func limitFiles(t *testing.T, pid int, n uint64) uint64 {
	t.Helper()
	var old unix.Rlimit
	must.OK(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old))
	must.OK(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}, nil))
	return old.Cur
}

// startManual starts a broker in dir and a client that chooses partitions itself.
func startManual(t *testing.T, dir string) (*process, *kgo.Client) {
	t.Helper()
	p, err := start(dir, nil, "--data-dir", "d", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must.OK(t, err)
	t.Cleanup(cl.Close)
	return p, cl
}

// limitedProgram makes the broker run with a limit of 512 open files.
func limitedProgram(t *testing.T, dir string) {
	t.Helper()
	few := filepath.Join(dir, "few")
	program := "#!/bin/sh\nulimit -n 512 && exec " + cmp.Or(os.Getenv("CHRONIKD"), "chronikd") + ` "$@"` + "\n"
	if err := os.WriteFile(few, []byte(program), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	t.Setenv("CHRONIKD", few)
}

// However many connections clients open, descriptors for logs remain: a new topic can be used.
func TestConnectionsLeaveDescriptorsToLogs(t *testing.T) {
	dir := t.TempDir()
	limitedProgram(t, dir)
	p, cl := startManual(t, dir)
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "before"); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "before", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err) // the client has its connections now
	}
	for range 600 {
		c, err := net.Dial("tcp", p.Addr)
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	refused := regexp.MustCompile(`chronik_connections_refused_total\{[^}]*reason="total"\} [1-9]`)
	waitFor(t, "connections are refused", func() bool { return refused.MatchString(adminText(t, p, "/metrics")) })
	if _, err := adm.CreateTopic(t.Context(), 20, 1, nil, "new"); err != nil {
		t.Fatal(err)
	}
	for i := range int32(20) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "new", Partition: i, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if report := adminText(t, p, "/readyz"); !allServed(report) {
		t.Error(report)
	}
}

// If a topic's logs can't be created because the process has too many open files, the broker's
// state reports it. The topic can be used without a restart when descriptors are free again.
func TestTopicRecoversWhenDescriptorsAreFree(t *testing.T) {
	p, cl := startManual(t, t.TempDir())
	adm := kadm.NewClient(cl)
	// Both connections are opened before the descriptors are used up.
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "before"); err != nil {
		t.Fatal(err)
	}
	if report := adminText(t, p, "/readyz"); !allServed(report) {
		t.Fatal(report)
	}
	pid := p.cmd.Process.Pid
	// Standard input, output and error have the numbers below 3 always. So every open fails, also
	// one that would take the number of a file that was open for a moment only.
	limit := limitFiles(t, pid, 3)
	_, _ = adm.CreateTopic(t.Context(), 4, 1, nil, "new")
	waitFor(t, "the partitions are reported", func() bool {
		report := adminText(t, p, "/readyz")
		return strings.HasPrefix(report, "ready\n") && strings.Contains(report, "bad: partitions in d/logs: 4 partitions ") &&
			strings.Contains(report, "too many open files")
	})
	if health := adminText(t, p, "/v1/health"); !strings.Contains(health, "too many open files") {
		t.Error(health)
	}
	if scrape := adminText(t, p, "/metrics"); strings.Contains(scrape, "chronik_partitions_failed 0\n") {
		t.Error("the metrics show no failed partition")
	}
	limitFiles(t, pid, limit)
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for i := range int32(4) {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "new", Partition: i, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(fmt.Errorf("partition %d: %w\n%s", i, err, p.logged()))
		}
	}
	waitFor(t, "nothing is reported anymore", func() bool { return allServed(adminText(t, p, "/readyz")) })
}

// allServed reports whether /readyz says that everything can be read and written. It allows
// warnings about the test machine.
func allServed(report string) bool {
	return strings.HasPrefix(report, "ready\n") && !strings.Contains(report, "\nbad: ")
}
