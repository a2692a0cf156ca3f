package outbound

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestFailingCallsAreSaidOnceForEachBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.DebugLevel)
		w := NewWork()
		o := NewOutcomes(w, zap.New(core), "requests", "they are repeated")
		expect := func(want ...string) {
			t.Helper()
			var got []string
			for _, e := range logged.TakeAll() {
				text := fmt.Sprint(e.Level, ": ", e.Message, ", broker ", e.ContextMap()["broker"])
				if err, has := e.ContextMap()["error"]; has {
					text += fmt.Sprint(", ", err)
				}
				got = append(got, text)
			}
			if !slices.Equal(got, want) {
				t.Errorf("logged %q instead of %q", got, want)
			}
		}
		fail := func(broker int32) { o.Note(broker, 3, fmt.Errorf("call: %w", syscall.EPIPE)) }
		again := func(broker int32) { o.Note(broker, 3, nil) }
		again(1)
		expect()
		fail(1)
		fail(12)
		expect("warn: requests to a broker fail; they are repeated, broker 1, call: broken pipe",
			"warn: requests to a broker fail; they are repeated, broker 12, call: broken pipe")
		for range 20 { // of some kind; others are answered
			fail(1)
			again(1)
		}
		if n := logged.Len(); n > 6 {
			t.Errorf("%d lines of 20 failures", n)
		}
		logged.TakeAll()
		time.Sleep(mended)
		again(1)
		again(1)
		expect("info: requests to a broker are answered again, broker 1")
		fail(1)
		expect("warn: requests to a broker fail; they are repeated, broker 1, call: broken pipe")
		time.Sleep(mended)
		again(12)
		expect("info: requests to a broker are answered again, broker 12")
		w.Close()
		o.Note(2, 1, context.Canceled) // because the broker stops
		expect()
	})
}
