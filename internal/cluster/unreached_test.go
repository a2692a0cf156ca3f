package cluster

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/link"
)

// What keeps several brokers from reaching one has the same text on each of them.
func TestAReasonIsTheSameOnAllBrokers(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50_000}
	remote := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092}
	expired := x509.CertificateInvalidError{Cert: &x509.Certificate{NotBefore: at.Add(-time.Hour), NotAfter: at}, Reason: x509.Expired,
		Detail: "current time 2026-01-02T03:04:06Z is after 2026-01-02T03:04:05Z"}
	for _, x := range []struct {
		err          error
		want         string
		theirs, ours bool
	}{
		{errors.New("no route"), "no route", false, false},
		{&net.OpError{Op: "read", Net: "tcp", Source: local, Addr: remote, Err: errors.New("reset")},
			"read tcp 127.0.0.1:9092: reset", false, false},
		{&link.Mismatch{Cause: "refused", Err: &net.OpError{Op: "remote error", Err: errors.New("tls: expired certificate")}},
			"the broker there refuses the certificate of this one, which has expired or is not valid yet: renew it", false, true},
		{&link.Mismatch{Cause: "not accepted: " + expired.Error(), Err: expired},
			"not accepted: its certificate is valid only from 2026-01-02 02:04:05 to 2026-01-02 03:04:05", true, false},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, "remote error: tls: bad certificate", false, false},
		{fmt.Errorf("link: %w", expired), "link: its certificate is valid only from 2026-01-02 02:04:05 to 2026-01-02 03:04:05", true, false},
	} {
		got := unreached(2, "b:9092", at, x.err)
		if got.Err != x.want || got.Theirs != x.theirs || got.Ours != x.ours {
			t.Errorf("%v: %+v, want %q, theirs %v, ours %v", x.err, got, x.want, x.theirs, x.ours)
		}
	}
}

// What the link says to do is the remedy, unless the refusal ends without it.
func TestTheRemedyOfALinkIsPassedOn(t *testing.T) {
	for reason, want := range map[link.Reason]string{
		link.WrongCluster: "do", link.WrongGeneration: "do", link.WrongNode: "do", link.Itself: "do", link.Twin: "do",
		link.WrongSecret:  "do",
		link.WrongVersion: "do", link.NotAdmitted: "do", link.Removed: "do", link.Superseded: "", link.Overloaded: "",
	} {
		m := &link.Mismatch{Reason: reason, Cause: "cause", Remedy: "do"}
		x := unreached(2, "b:9092", time.Time{}, fmt.Errorf("dial: %w", m))
		if x.Remedy != want || want != "" && x.Reason() != "dial: cause" {
			t.Errorf("reason %d: remedy %q, %q", reason, x.Remedy, x.Reason())
		}
	}
	if x := unreached(2, "b:9092", time.Time{}, errors.New("no route")); x.Remedy != "" || x.Reason() != "no route" {
		t.Errorf("%+v", x)
	}
}
