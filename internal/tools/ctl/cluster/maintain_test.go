package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// An operator who interrupts chronikctl interrupts the command that restarts a broker, which may
// have stopped it. It is not killed.
func TestAnInterruptedCommandEndsByItself(t *testing.T) {
	dir := t.TempDir()
	begun, ended := filepath.Join(dir, "begun"), filepath.Join(dir, "ended")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
			time.Sleep(time.Millisecond)
		}
		interrupt()
	}()
	err := runCommand(ctx, app.New("v1", app.Streams{In: strings.NewReader("")}), []string{"sh", "-c",
		fmt.Sprintf("trap 'sleep 0.1; >%s; exit' INT; >%s; while :; do sleep 0.01; done", ended, begun)})
	if _, missing := os.Stat(ended); !errors.Is(err, errInterrupted) || missing != nil {
		t.Errorf("%v; %v", err, missing)
	}
}

// A command may leave a process in the background, such as a broker, which keeps the output open.
func TestACommandMayLeaveAProcess(t *testing.T) {
	var errs bytes.Buffer
	a := app.New("v1", app.Streams{In: strings.NewReader(""), Err: &errs})
	must.OK(t, runCommand(t.Context(), a, []string{"sh", "-c", "sleep 30 & echo $!"}))
	left := strings.TrimSpace(errs.String())
	must.OK(t, runCommand(t.Context(), a, []string{"kill", left}))
	if err := runCommand(t.Context(), a, []string{"false"}); err == nil {
		t.Error("a command that fails is right")
	}
}
