package chronikd

import (
	"context"
	"testing"

	"go.uber.org/zap"
	logtest "go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A start that is asked to end, at whichever step, ends without an error and releases what it had
// acquired.
func TestAStopWhileItStartsIsNoError(t *testing.T) {
	disk := vfs.Memory()
	for at := 1; ; at++ {
		cfg, err := resolve.Load(
			config.Input{
				Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "127.0.0.1:0"},
			},
		)
		must.OK(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		f := errfs.New(disk)
		f.Add(errfs.Rule{From: at, Count: 1, Before: func(errfs.Call) { cancel() }})
		core, logs := logtest.New(zap.InfoLevel)
		o := daemon.Options{
			Config:          cfg,
			FS:              f,
			Log:             zap.New(core),
			Level:           zap.NewAtomicLevel(),
			Version:         "test",
			JournalFileSize: 1 << 20,
			JournalBytes:    16 << 20,
		}
		err = run(ctx, o)
		cancel()
		if err != nil {
			t.Fatalf("stopped at call %d: %v", at, err)
		}
		if logs.FilterMessage("ready").Len() > 0 {
			if at < 10 {
				t.Fatalf("it was ready after %d calls", at)
			}
			return
		}
		if logs.FilterMessageSnippet("stopped before it was ready, as requested").Len() != 1 {
			t.Fatalf("stopped at call %d: %v", at, logs.All())
		}
	}
}
