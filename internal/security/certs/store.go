package certs

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/security/files"
)

// Store holds the certificates of one listener and takes changed files. Its methods may be called
// concurrently; only Open and Reload wait for the files.
type Store struct {
	listener string
	c        Config
	log      *zap.Logger
	now      func() time.Time
	current  atomic.Pointer[loaded]
	problem  atomic.Pointer[string] // why changed files were not taken; nil if they were

	mu    sync.Mutex    // of a reload, which may wait for a disk
	tried []files.Stamp // of the files that were last read
}

// Open loads the files of a listener. An error names the file, the cause and the remedy.
func Open(listener string, c Config, now func() time.Time, log *zap.Logger) (*Store, error) {
	l, err := load(&c, now())
	if err != nil {
		return nil, err
	}
	s := &Store{listener: listener, c: c, log: log, now: now, tried: l.stamps}
	s.current.Store(l)
	return s, nil
}

// Config returns the present configuration for one handshake. It must not be changed.
func (s *Store) Config() *tls.Config { return s.current.Load().config }

// Trusts reports whether the present authorities of clients accept a certificate that was verified
// before; shown has what the client has sent, its own certificate first.
func (s *Store) Trusts(shown []*x509.Certificate) bool {
	l := s.current.Load()
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{Roots: l.config.ClientCAs, Intermediates: between, CurrentTime: s.now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return l.config.ClientCAs != nil && err == nil
}

// Reload takes the files if they have changed, or if always is set. Files that do not fit together
// are not taken: the former ones stay, with one line in the log for each change of the files. It
// reports whether the authorities of clients are other ones now.
func (s *Store) Reload(always bool) (authorities bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := stamps(&s.c) // of before the attempt: a later change is seen by the next one
	unchanged := slices.Equal(found, s.tried)
	if !always && unchanged {
		return false
	}
	l, err := load(&s.c, s.now())
	if err != nil {
		problem := err.Error()
		before := s.problem.Swap(&problem)
		s.tried = found
		if !unchanged || before == nil || *before != problem {
			s.log.Error("changed certificate files were not taken, the former ones stay in use",
				zap.String("listener", s.listener), zap.Error(err))
		}
		return false
	}
	s.problem.Store(nil)
	s.tried = l.stamps
	before := s.current.Swap(l)
	authorities = !same(before.clientCA, l.clientCA)
	if authorities || !same(before.chain, l.chain) {
		s.log.Info("certificates reloaded", zap.String("listener", s.listener),
			zap.String("subject", DN(l.chain[0])), zap.Time("until", l.expiry()))
	}
	return authorities
}

func same(a, b []*x509.Certificate) bool {
	return slices.EqualFunc(a, b, func(x, y *x509.Certificate) bool { return x.Equal(y) })
}

// expiry returns when the first certificate of the server's chain expires.
func (l *loaded) expiry() time.Time { return first(l.chain) }

func first(all []*x509.Certificate) time.Time {
	return slices.MinFunc(all, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
}

// Kinds of expiries.
const (
	KindServer   = "server"
	KindClientCA = "client-ca"
)

// Status is the state of a listener's certificates.
type Status struct {
	Listener string
	File     string // of the server's certificate
	Subject  string // RFC 2253
	// Expires is when the first certificate of a kind expires; KindClientCA is missing without
	// client certificates.
	Expires map[string]time.Time
	// Problem is why changed files are not used; empty if there are none.
	Problem string
	// Warnings are about the certificates in use.
	Warnings []string
	// Stranger: none of the authorities of clients has signed the certificate.
	Stranger bool
}

// Status returns the present state.
func (s *Store) Status() Status {
	l := s.current.Load()
	st := Status{Listener: s.listener, File: s.c.Certificate, Subject: DN(l.chain[0]), Warnings: l.warnings,
		Expires: map[string]time.Time{KindServer: l.expiry()}}
	if problem := s.problem.Load(); problem != nil {
		st.Problem = *problem
	}
	if len(l.clientCA) > 0 {
		st.Expires[KindClientCA] = first(l.clientCA)
		st.Stranger = !s.Trusts(l.chain)
	}
	return st
}

// Certificate returns the server's present certificate.
func (s *Store) Certificate() *x509.Certificate { return s.current.Load().chain[0] }
