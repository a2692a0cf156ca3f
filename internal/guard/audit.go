package guard

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/observe"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// auditFile is the path of the audit log's changes below the data directory, unless audit.file
// names another. auditLogins and auditRefusals are what follows it in the names of the files of
// logins, and of refusals and failed logins: each has a size of its own, so that none displaces
// another.
const (
	auditFile     = "audit/audit.log"
	auditLogins   = ".logins"
	auditRefusals = ".refusals"
)

// OpenAudit opens the audit log if it is on, and shows it in findings and metrics. The data
// directory must be locked. The caller closes Audit, also after an error.
func (g *Guard) OpenAudit(fsys vfs.FS, node int32, in *checks.Monitor, reg prometheus.Registerer) error {
	mode, sink, place, err := auditSink(g.cfg, fsys)
	if err != nil || mode == audit.Off {
		return err
	}
	log := g.log.Named("audit")
	to := audit.Open(audit.Options{Mode: mode, Sink: sink, Node: node, Failed: func(err error) {
		if err != nil {
			log.Error("the audit log cannot be written, and its lines are lost; check the place and its disk",
				zap.String("place", place), zap.Error(err))
		} else {
			log.Info("the audit log is written again", zap.String("place", place))
		}
	}})
	g.audit.Store(to)
	state := func() view.Audit {
		x := to.Stats()
		return view.Audit{Sink: place, Failed: observe.Reason(x.Err), Written: x.Written, Dropped: x.Dropped, Counted: x.Counted}
	}
	in.Add(func(f *checks.Facts) { f.Audit = state() })
	return metrics.RegisterAudit(reg, state)
}

// auditSink opens what the audit log is written to, and returns its name. Without a log the mode is
// Off. The data directory must be locked.
func auditSink(cfg *config.Config, fsys vfs.FS) (mode audit.Mode, sink audit.Sinks, place string, err error) {
	s := &cfg.Security
	if s.AuditLog == "" {
		return audit.Off, sink, "", nil
	}
	if mode, err = audit.ParseMode(s.AuditLog); err != nil {
		return mode, sink, "", exit.With(exit.Usage, fmt.Errorf("%s: %w", config.KeyAuditLog, err))
	}
	if mode == audit.Off {
		return mode, sink, "", nil
	}
	switch place = s.AuditFile; {
	case place == config.Journald:
		var journal audit.Sink
		journal, err = audit.OpenJournal()
		sink = audit.Same(journal)
	case place != "":
		place = health.Path(place)
		sink, err = auditFiles(s.AuditFile)
	case fsys != vfs.OS():
		err = errors.New("a broker in memory has no data directory; name a file")
	default:
		name := filepath.Join(cfg.DataDir, filepath.FromSlash(auditFile))
		place = health.Path(name)
		sink, err = auditFiles(name)
	}
	if err != nil {
		return mode, sink, place, exit.With(exit.Usage, fmt.Errorf("%s %s: %w", config.KeyAuditFile, place, err))
	}
	return mode, sink, place, nil
}

// auditFiles opens the files of an audit log.
func auditFiles(name string) (audit.Sinks, error) {
	var all [3]audit.Sink
	for i, suffix := range []string{auditRefusals, auditLogins, ""} {
		f, err := audit.OpenFile(vfs.OS(), name+suffix)
		if err != nil {
			for _, opened := range all[:i] {
				_ = opened.Close() // it has no lines of this process
			}
			return audit.Sinks{}, err
		}
		all[i] = f
	}
	return audit.Sinks{Decisions: all[0], Sessions: all[1], Changes: all[2]}, nil
}

// audited is the observer of connections with an audit log.
type audited struct {
	network.Observer
	log *audit.Log
}

// WithAudit returns an observer that also records logins and their ends; the same without a log.
func WithAudit(o network.Observer, log *audit.Log) network.Observer {
	if log == nil {
		return o
	}
	return audited{o, log}
}

// sessionClient returns the client of a session.
func sessionClient(s *network.Session, peer net.Addr) audit.Client {
	c := audit.Client{Who: s.Principal, Host: s.Host, Listener: s.Listener, Mechanism: s.Mechanism}
	if peer != nil {
		c.From = peer.String()
	}
	return c
}

// Login implements network.Observer.
func (a audited) Login(e *network.LoginEvent) {
	a.Observer.Login(e)
	a.log.Record(loginEvent(e))
}

// loginEvent returns the event of a login. One that failed has the user that the client has named.
func loginEvent(e *network.LoginEvent) audit.Event {
	x := audit.Event{Kind: audit.Login, Client: sessionClient(e.Session, e.Peer)}
	if e.Again {
		x.Why = "again"
	}
	if e.Err == nil {
		return x
	}
	x.Kind, x.Mechanism, x.Why = audit.LoginFailed, e.Mechanism, e.Err.Error()
	f := (*login.Failure)(nil)
	if errors.As(e.Err, &f) {
		x.Why = f.Reason
	}
	switch {
	case f != nil && f.User != "":
		x.Who = login.PrincipalType + f.User
	case f != nil || !e.Again:
		x.Who = ""
	}
	return x
}

// Logout implements network.Observer.
func (a audited) Logout(e *network.LogoutEvent) {
	a.Observer.Logout(e)
	x := audit.Event{Kind: audit.Logout, Client: sessionClient(e.Session, e.Peer), Why: string(e.Reason)}
	if e.Reason == network.ClosedExpired {
		x.Kind = audit.Expired
	}
	a.log.Record(x)
}

// RecordRefusedLinks returns a function that records refused connections of other brokers; nil
// without a log.
func RecordRefusedLinks(log *audit.Log, listener string) func(net.Addr, string, error) {
	if log == nil {
		return nil
	}
	return func(from net.Addr, principal string, err error) {
		c := audit.Client{Who: principal, Listener: listener}
		if from != nil {
			c.From = from.String()
			c.Host, _, _ = net.SplitHostPort(c.From) // empty if it has no port
		}
		log.Record(audit.Event{Kind: audit.Refused, Client: c, Operation: "LINK", Resource: "Cluster", Why: err.Error()})
	}
}
