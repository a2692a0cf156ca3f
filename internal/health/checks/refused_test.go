package checks

import (
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// What is refused for long and in numbers has a finding that says who, by what, how often, since
// when, and which command lifts it. What limits are for has none.
func TestRefusedClients(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	bob := view.Client{User: "User:bob", ClientID: "app", Address: "10.0.0.1"}
	connection := view.Refused{Kind: view.RefusedConnection, Cause: LimitTotal, Who: view.Client{Address: "10.0.0.1"}, Count: 40}
	login := view.Refused{Kind: view.RefusedLogin, Cause: "PLAIN", Rule: "clients", Who: bob, Count: 40, Detail: "the password is wrong"}
	tls := view.Refused{Kind: view.RefusedHandshake, Cause: "plain_text", Rule: "clients", Who: view.Client{Address: "10.0.0.1"}, Count: 40,
		Detail: "no TLS", Lift: "set security.protocol"}
	right := view.Refused{Kind: view.RefusedRight, Cause: "WRITE on TOPIC", Who: bob, Count: 40}
	slow := view.Refused{Kind: view.RefusedQuota, Cause: "producer_byte_rate", Rule: "user=<default>,client-id=a b", Who: bob, Count: 2,
		Detail: "100", Longest: 2 * time.Minute}
	with := func(x view.Refused, change func(*view.Refused)) view.Refused { change(&x); return x }
	for name, c := range map[string]struct {
		of   view.Refused
		want health.Severity // empty: no finding
		says []string
	}{
		"no client is served": {connection, health.Bad,
			[]string{"40 new connections were refused by max.connections, which is 1", "since 03:03:05", "from 10.0.0.1 (40)", "stay",
				"`chronikctl config set broker default max.connections=NUMBER`"}},
		"by the limit of open files": {with(connection, func(x *view.Refused) { x.Cause = LimitFiles }), health.Bad,
			[]string{moreFiles}},
		"some are served": {with(connection, func(x *view.Refused) { x.PassedAll = 3 }), health.Warn, []string{"3 connections were opened"}},
		"few connections": {with(connection, func(x *view.Refused) { x.Count = refusedMany - 1 }), "", nil},
		"not for long":    {with(connection, func(x *view.Refused) { x.Since = now.Add(-refusedLong + 1) }), "", nil},
		"logins fail": {login, health.Warn, []string{"40 logins failed with PLAIN", "User:bob client id app from 10.0.0.1 (40)",
			"the password is wrong", "chronikctl user set-password"}},
		"a certificate is refused": {with(login, func(x *view.Refused) { x.Cause, x.Lift = "SSL", "give it another certificate" }),
			health.Warn, []string{"40 logins failed with SSL", "give it another certificate; the log has each reason"}},
		"most logins succeed": {with(login, func(x *view.Refused) { x.PassedAll = 40 }), "", nil},
		"no TLS": {tls, health.Warn, []string{"TLS on listener clients", "40 handshakes failed", "from 10.0.0.1 (40)", "no TLS",
			"set security.protocol"}},
		"most speak TLS": {with(tls, func(x *view.Refused) { x.PassedAll = 40 }), "", nil},
		"the certificate is not accepted": {with(tls, func(x *view.Refused) { x.Kind, x.Count, x.PassedAll = view.RefusedByClient, 3, 2 }),
			health.Warn, []string{"3 handshakes failed", "and 2 succeeded", "`ca.pem`"}},
		"most accept the certificate": {with(tls, func(x *view.Refused) { x.Kind, x.Count, x.PassedAll = view.RefusedByClient, 3, 40 }),
			health.Note, []string{"3 handshakes failed", "and 40 succeeded", "`ca.pem`"}},
		"one client looks once": {with(tls, func(x *view.Refused) { x.Kind, x.Count = view.RefusedByClient, 2 }), "", nil},
		"no rule allows it":     {right, health.Note, []string{"40 requests were refused", "no rule allows it", "WRITE on TOPIC"}},
		"a rule denies it":      {with(right, func(x *view.Refused) { x.Detail = "DENY User:bob WRITE" }), health.Note, nil},
		"a rule denies it to all": {with(right, func(x *view.Refused) { x.Detail, x.Lift = "DENY User:* WRITE", "`lift`" }), health.Warn,
			[]string{"a rule denies it, DENY User:* WRITE", "remove the rule with `lift`"}},
		"a client that works": {with(right, func(x *view.Refused) { x.Passed = 40 }), "", nil},
		"a quota stops": {slow, health.Warn, []string{"it is 100, and clients stand still: a request waits up to 2m0s",
			"`chronikctl quota remove producer_byte_rate --user-default --client-id 'a b'`"}},
		"a quota slows down": {with(slow, func(x *view.Refused) { x.Longest, x.Count = quotaLong-1, 10_000 }), "", nil},
		"a quota of addresses": {with(connection, func(x *view.Refused) { x.Cause, x.Rule, x.Detail = limitOfAddress, "ip=<default>", "2" }),
			health.Warn, []string{"of ip=<default>, which is 2 a second", "other addresses are not concerned",
				"`chronikctl quota remove connection_creation_rate --ip-default`"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.of.Since.IsZero() {
				c.of.Since = now.Add(-time.Minute)
			}
			f := Facts{Now: now, Refused: []view.Refused{c.of}, ConnectionLimits: map[string]int{LimitTotal: 1}}
			var n notes
			checkRefused(&f, &n)
			if c.want == "" && len(n.findings) == 0 {
				return
			}
			if len(n.findings) != 1 || n.findings[0].Severity != c.want {
				t.Fatalf("%+v", n.findings)
			}
			x := n.findings[0]
			checkStops(t, &x)
			for _, text := range c.says {
				if all := x.Subject + "; " + x.Problem + "; " + x.Works + "; " + x.Remedy; !strings.Contains(all, text) {
					t.Errorf("%q is not in %q", text, all)
				}
			}
		})
	}
}
