package guard

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// linesOf is a sink in memory.
type linesOf struct{ text string }

func (l *linesOf) Write(line []byte) error { l.text += string(line); return nil }
func (*linesOf) Flush() error              { return nil }
func (*linesOf) Close() error              { return nil }

// A refused connection of another broker has a line with its address, its certificate's principal
// and the reason.
func TestARefusedLinkIsRecorded(t *testing.T) {
	sink := &linesOf{}
	log := audit.Open(audit.Options{Mode: audit.Refusals, Sink: audit.Same(sink)})
	refused := RecordRefusedLinks(log, "peers")
	refused(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 51234}, "User:CN=stranger", errors.New("it does not know the secret"))
	must.OK(t, log.Close(t.Context()))
	for _, want := range []string{`"ev":"refused"`, `"who":"User:CN=stranger"`, `"from":"10.0.0.7:51234"`, `"listener":"peers"`,
		`"op":"LINK"`, `"res":"Cluster"`, `"why":"it does not know the secret"`} {
		if !strings.Contains(sink.text, want) {
			t.Errorf("no %s in %s", want, sink.text)
		}
	}
	if RecordRefusedLinks(nil, "peers") != nil {
		t.Error("recorded without a log")
	}
}

// A login that failed before it named a user has no user in its line: it was not by
// User:ANONYMOUS, whom rules may allow something. A failure to log in again has the session's user.
func TestWhoseAFailedLoginIs(t *testing.T) {
	for _, c := range []struct {
		before string
		again  bool
		err    error
		want   string
	}{
		{network.Anonymous, false, errors.New("no mechanism"), ""},
		{network.Anonymous, false, &login.Failure{User: "eve"}, "User:eve"},
		{network.Anonymous, false, &login.Failure{}, ""},
		{"User:bob", true, errors.New("too late"), "User:bob"},
		{"User:bob", false, nil, "User:bob"},
	} {
		e := &network.LoginEvent{Session: &network.Session{Principal: c.before}, Again: c.again, Err: c.err}
		if got := loginEvent(e); got.Who != c.want || (got.Kind == audit.LoginFailed) != (c.err != nil) {
			t.Errorf("%v: %s of %q, want %q", c.err, got.Kind, got.Who, c.want)
		}
	}
}
