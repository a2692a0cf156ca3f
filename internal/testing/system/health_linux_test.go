package system

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// findings returns the output of chronikctl cluster health for a broker, and its exit code.
func findings(t *testing.T, p *process) (report string, code int) {
	t.Helper()
	out, err := exec.Command("chronikctl", "cluster", "health", "--brokers", p.Addr, "--admin", p.Admin, "-o", "wide").CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(out), exit.ExitCode()
	}
	must.OK(t, err)
	return string(out), 0
}

// finds runs a broker in dir and checks that its log and chronikctl report a finding: the log line
// contains a text, and the output matches an expression.
func finds(t *testing.T, dir, line, log string) {
	t.Helper()
	p, err := start(dir, []string{"CHRONIK_LISTEN=127.0.0.1:0", "CHRONIK_ADMIN_LISTEN=127.0.0.1:0"}, "--data-dir", "data")
	must.OK(t, err)
	report, code := findings(t, p)
	if code != 4 || !regexp.MustCompile("(?m)"+line).MatchString(report) {
		t.Errorf("cluster health ended with %d and does not find %s:\n%s", code, line, report)
	}
	if !strings.Contains(p.logged(), log) {
		t.Errorf("the log does not contain %s:\n%s", log, p.logged())
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, p.logged())
	}
}

// A broker with its data in memory reports that nothing is durable.
func TestHealthFindsDataInMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "chronik-")
	if err != nil {
		t.Skip("no tmpfs available: ", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	finds(t, dir, `^warn +file system /dev/shm +it is tmpfs, in memory: nothing of data directory data survives`,
		`"check":"file_system","subject":"file system /dev/shm"`)
}

// A broker with a low limit of open files reports it.
func TestHealthFindsALowLimitOfFiles(t *testing.T) {
	dir := t.TempDir()
	limitedProgram(t, dir)
	finds(t, dir,
		`^warn +limit of open files +the process may open 512 files, which leaves 92 for connections in addition to segments .*LimitNOFILE`,
		`"check":"files","subject":"limit of open files"`)
}
