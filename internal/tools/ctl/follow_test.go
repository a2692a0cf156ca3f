package ctl_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/tools/ctl"
)

// kept stores what is written, so that a test can wait for a text.
type kept struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all.Write(p)
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all.String()
}

// await fails the test if a text is not written within a minute.
func (k *kept) await(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(k.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q was not written: %s", text, k.String())
		}
	}
}

// A following reader survives the absence of its broker and reports it once on standard error.
func TestFollowingSaysThatItWaitsForTheBroker(t *testing.T) {
	b, deaf := mute(t)
	if code, errs := runAt(t.Context(), b.Addr(), "produce a"); code != 0 {
		t.Fatal(errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs kept
	end := make(chan int)
	go func() {
		end <- ctl.Main(ctx, strings.Fields("consume a --follow --timeout 1s"), version,
			ctl.Streams{In: strings.NewReader(""), Out: &out, Err: io.Writer(&errs),
				Getenv: func(name string) string { return map[string]string{"CHRONIK_BROKERS": b.Addr()}[name] }})
	}()
	out.await(t, "x\n")
	deaf.Store(true)
	errs.await(t, "; waiting for the broker until interrupted\n")
	deaf.Store(false)
	errs.await(t, "note: the broker answers again\n")
	if code, errs := runAt(t.Context(), b.Addr(), "produce a"); code != 0 {
		t.Fatal(errs)
	}
	out.await(t, "x\nx\n")
	cancel()
	if code := <-end; code != 0 || strings.Count(errs.String(), "waiting for") != 1 {
		t.Errorf("code %d: %s", code, errs.String())
	}
}
