package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Only an address that cannot be reached is one that the broker should not advertise. A broker that
// closes connections may be at a limit, and a certificate is another matter.
func TestWhyABrokerIsSilent(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	var held Throttle
	held.OnBrokerThrottle(kgo.BrokerMetadata{}, 2*time.Hour, true)
	held.OnBrokerThrottle(kgo.BrokerMetadata{}, time.Hour, true)
	var over Throttle
	over.OnBrokerThrottle(kgo.BrokerMetadata{}, 1, true)
	time.Sleep(time.Nanosecond)
	for name, c := range map[string]struct {
		err       error
		why, says string
	}{
		"refused":         {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "refused", "--advertise"},
		"dial reset":      {&net.OpError{Op: "dial", Err: syscall.ECONNRESET}, "reset", "--advertise"},
		"no answer":       {errors.New("no answer within 3s"), "no answer within 3s", "--advertise"},
		"a quota":         {held.Explain(context.DeadlineExceeded), "a pause of 2h", "quota explain"},
		"a quota, before": {over.Explain(context.DeadlineExceeded), "deadline", "--advertise"},
		"no quota":        {new(Throttle).Explain(context.DeadlineExceeded), "deadline", "--advertise"},
		"reset":           {fmt.Errorf("ask: %w", reset), "closes the connection", "max.connections"},
		"end":             {fmt.Errorf("ask: %w", io.EOF), "closes the connection", "max.connections"},
		"end at once":     {&kgo.ErrFirstReadEOF{}, "closes the connection", "max.connections"},
		"expired":         {x509.CertificateInvalidError{Reason: x509.Expired}, "expired", "renew its certificate"},
	} {
		why, remedy := Silent(c.err)
		if !strings.Contains(why, c.why) || !strings.Contains(remedy, c.says) || strings.Contains(why, "misconfigured") ||
			c.says != "--advertise" && strings.Contains(remedy, "--advertise") {
			t.Errorf("%s: %s; %s", name, why, remedy)
		}
	}
}

func TestRepeatsAreNeverFarApart(t *testing.T) {
	for n := range 100 {
		if gap := backoff(n); gap < retryGap || gap > maxRetryGap {
			t.Errorf("after %d failures, the next attempt is %v later", n, gap)
		}
	}
}
