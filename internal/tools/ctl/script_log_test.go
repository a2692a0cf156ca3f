package ctl_test

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/chronik-io/chronik/pkg/chronik"
)

// broker DIR starts a broker on a data directory until the script ends, and sets $LIVE to its
// address. With - as DIR it is in memory: its health does not depend on this machine's disk.
func broker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: broker DIR [SETTING=VALUE...]")
	}
	settings := map[string]string{"chronik.disk.min.free.bytes": "0"}
	for _, s := range args[1:] {
		name, value, _ := strings.Cut(s, "=")
		settings[name] = value
	}
	start := func(ctx context.Context, o chronik.Options) (*chronik.Broker, error) {
		return chronik.Open(ctx, ts.MkAbs(args[0]), o)
	}
	if args[0] == "-" {
		start = chronik.OpenMemory
	}
	b, err := start(context.Background(), chronik.Options{Settings: settings})
	ts.Check(err)
	ts.Defer(func() { ts.Check(b.Close()) })
	ts.Setenv("LIVE", b.Addr())
}

// snapshot FROM TO copies a directory.
func snapshot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: snapshot FROM TO")
	}
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(ts.MkAbs(args[0]))))
}

// flip FILE POSITION inverts a bit.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE POSITION")
	}
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	b, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	b[at] ^= 0x10
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o600))
}
