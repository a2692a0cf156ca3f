package ctl_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// version is the version of chronikctl in tests.
const version = "v1.2.3"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"chronikctl": control, "code": code})
}

// control is the main function of chronikctl.
func control() {
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := ctl.Main(ctx, os.Args[1:], version, ctl.Std())
	stop()
	os.Exit(c)
}

// code N COMMAND... succeeds if the command exits with N.
func code() {
	c := ctl.Main(context.Background(), os.Args[3:], version, ctl.Std())
	if fmt.Sprint(c) != os.Args[1] {
		fmt.Fprintf(os.Stderr, "ended with %d\n", c)
		os.Exit(1)
	}
	os.Exit(0)
}

// ctl ARGS... is exec chronikctl ARGS... within the process of the test: half of the time went into
// the starts of processes. It has no input, and paths must be absolute. What needs files, input or
// a process of its own uses exec.
func within(ts *testscript.TestScript, neg bool, args []string) {
	if c := run(ts, args); neg != (c != 0) {
		ts.Fatalf("ended with %d", c)
	}
}

// fails N ctl ARGS... succeeds if the command exits with N, as code does with processes.
func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != "ctl" {
		ts.Fatalf("usage: fails N ctl ARGS...")
	}
	if c := run(ts, args[2:]); fmt.Sprint(c) != args[0] {
		ts.Fatalf("ended with %d", c)
	}
}

// run runs chronikctl within this process.
func run(ts *testscript.TestScript, args []string) int {
	return ctl.Main(context.Background(), args, version, ctl.Streams{In: strings.NewReader(""), Out: ts.Stdout(), Err: ts.Stderr(),
		Getenv: ts.Getenv})
}

// Each script has a broker of its own, in memory, with the addresses $BROKER and $ADMIN.
// CHRONIK_BROKERS is set.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			token := filepath.Join(e.WorkDir, "admin.token")
			if err := os.WriteFile(token, []byte("a token of more than thirty-two characters\n"), 0o600); err != nil {
				return err
			}
			archive := filepath.Join(e.WorkDir, "archive")
			if err := os.Mkdir(archive, 0o700); err != nil {
				return err
			}
			b, err := chronik.OpenMemory(context.Background(), chronik.Options{Admin: "127.0.0.1:0",
				Settings: map[string]string{"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2",
					"authorization": "acl", "super-users": "User:ANONYMOUS", "admin.token-file": token,
					"archive.url": "file://" + archive, "snapshot.interval.ms": "0"}})
			if err != nil {
				return err
			}
			e.Defer(func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
			e.Vars = append(e.Vars, "BROKER="+b.Addr(), "ADMIN="+b.AdminAddr(), "CHRONIK_BROKERS="+b.Addr(), "NOBODY="+unusedAddress,
				"HOME="+e.WorkDir, "CHRONIKCTL_ADMIN_TOKEN_FILE="+token)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"ctl": within, "fails": fails, "tlsproxy": tlsProxy,
			"until": until, "broker": broker, "snapshot": snapshot,
			"flip": flip, "untar": untar, "hung": hung, "examples": examples, "open": open, "share": share},
	})
}

// unusedAddress is an address without a listener: no service uses this port, and the kernel does
// not assign it to a broker that asks for any free port.
const unusedAddress = "127.0.0.1:71"

// open ID PARTITIONS waits until a transactional id has an open transaction in so many partitions.
func open(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: open ID PARTITIONS")
	}
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(10 * time.Millisecond) {
		var out bytes.Buffer
		ctl.Main(context.Background(), []string{"txn", "list", "--state", "Ongoing"}, version, ctl.Streams{Out: &out, Err: io.Discard,
			Getenv: ts.Getenv})
		for _, line := range strings.Split(out.String(), "\n") {
			if f := strings.Fields(line); len(f) > 4 && f[0] == args[0] && f[4] == args[1] {
				return
			}
		}
	}
	ts.Fatalf("%s never has an open transaction in %s partitions", args[0], args[1])
}

// until FILE TEXT waits until a background command has written TEXT to a file.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until FILE TEXT")
	}
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(time.Millisecond) {
		if b, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && strings.Contains(string(b), args[1]) {
			return
		}
	}
	ts.Fatalf("%s never contains %q", args[0], args[1])
}
