package system

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/chronik-io/chronik/internal/chronikd"
	"github.com/chronik-io/chronik/internal/tools/ctl"
)

// atOnce is how many of the tests that call t.Parallel run at once. They wait for elections,
// sessions and the disk, so that a processor is enough for several of them; -parallel sets another
// number.
const atOnce = 6

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err) // the testing package has another flag for it
	}
	_ = os.Unsetenv("GOGC") // make test sets it, and brokers run as users start them
	testscript.Main(m, map[string]func(){"chronikd": runChronikd, "chronikd-slowdisk": slowChronikd, "chronikd-faulty": faultyChronikd,
		"chronikctl": control, "code": code, "attacker": attacker})
}

// chronikd is the broker, with the version of an ordinary build.
func runChronikd() { chronikd.Command("dev") }

// control is chronikctl.
func control() { os.Exit(ctl.Main(context.Background(), os.Args[1:], "test", ctl.Std())) }

// code N COMMAND... is a command of its own that succeeds if COMMAND exits with code N.
func code() {
	want, err := strconv.Atoi(os.Args[1])
	if err != nil {
		os.Exit(100)
	}
	err = exec.Command(os.Args[2], os.Args[3:]...).Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == want || err == nil && want == 0 {
		return
	}
	if err == nil {
		err = errors.New("exit code 0")
	}
	os.Stderr.WriteString(os.Args[2] + ": " + err.Error() + "\n")
	os.Exit(1)
}

// Each script in testdata/script runs the real main function in processes of its own.
// script_test.go has the commands that are not testscript's.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[brokersKey{}] = make(map[string]*process)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"taken": taken, "lines": lines, "broker": broker, "end": end, "logged": logged,
			"get": get, "put": put, "fingerprint": fingerprint, "newer": newer,
		},
	})
}

// taken NAME... opens a port for each name until the script ends and sets the variable to its
// address.
func taken(ts *testscript.TestScript, neg bool, names []string) {
	if neg || len(names) == 0 {
		ts.Fatalf("usage: taken NAME...")
	}
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		ts.Defer(func() { _ = l.Close() })
		ts.Setenv(name, l.Addr().String())
	}
}

// lines N fails unless the last command's standard error has N lines.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: lines N")
	}
	text, n := ts.ReadFile("stderr"), 0
	for _, c := range text {
		if c == '\n' {
			n++
		}
	}
	if want := args[0]; want != strconv.Itoa(n) {
		ts.Fatalf("standard error has %d lines, want %s:\n%s", n, want, text)
	}
}
