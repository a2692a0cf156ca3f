package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
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
	seen  []files.Stamp // of the files at the last call of Reload
	tried []files.Stamp // of the files that were last read
}

// Open loads the files of a listener. An error names the file, the cause and the remedy. A
// certificate that is not valid now is none: clients refuse it, and the store takes its successor
// without a restart.
func Open(listener string, c Config, now func() time.Time, log *zap.Logger) (*Store, error) {
	l, err := load(&c)
	if err != nil {
		return nil, err
	}
	s := &Store{listener: listener, c: c, log: log, now: now, seen: l.stamps, tried: l.stamps}
	s.current.Store(l)
	if err := s.Untimely(); err != nil {
		log.Error("clients refuse the certificate of a listener; replace its files", zap.String("listener", listener), zap.Error(err))
	}
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

// Reload takes files that have changed since the last call but one and not since the last: a file
// that is just being written may look complete, and lack an authority that follows. If always is
// set it takes them at once. Files that do not fit together are not taken, nor are those that are
// not valid now in the place of valid ones: the former ones stay, with one line in the log for each
// change of the files, and each call tries again. It reports whether the certificates or the
// authorities are other ones now.
func (s *Store) Reload(always bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := stamps(&s.c) // of before the attempt: a later change is seen by the next one
	settled, unchanged := slices.Equal(found, s.seen), slices.Equal(found, s.tried)
	s.seen = found
	if !always && (!settled || unchanged && s.problem.Load() == nil) {
		return false
	}
	now := s.now()
	l, err := load(&s.c)
	if err == nil && s.current.Load().untimely(now) == nil {
		if err = l.untimely(now); err != nil {
			err = fmt.Errorf("%s: %w", s.c.Certificate, err)
		}
	}
	if err != nil {
		problem := err.Error()
		before := s.problem.Swap(&problem)
		s.tried = found
		if !unchanged || before == nil || *before != problem {
			s.log.Error("changed certificate files were not taken, the former ones stay in use; correct the files",
				zap.String("listener", s.listener), zap.Error(err))
		}
		return false
	}
	s.problem.Store(nil)
	s.tried = l.stamps
	before := s.current.Swap(l)
	changed = !same(before.clientCA, l.clientCA) || !same(before.chain, l.chain)
	if changed {
		s.log.Info("certificates reloaded", zap.String("listener", s.listener),
			zap.String("subject", DN(l.chain[0])), zap.Time("until", l.expiry()))
	}
	return changed
}

func same(a, b []*x509.Certificate) bool {
	return slices.EqualFunc(a, b, func(x, y *x509.Certificate) bool { return x.Equal(y) })
}

// expiry returns when the first certificate of the server's chain expires.
func (l *loaded) expiry() time.Time { return first(l.chain) }

// beginning returns from when on all certificates of the server's chain are valid.
func (l *loaded) beginning() time.Time {
	return slices.MaxFunc(l.chain, func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) }).NotBefore
}

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
	Begins  time.Time // when the last certificate of the server's chain becomes valid
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
		Expires: map[string]time.Time{KindServer: l.expiry()}, Begins: l.beginning()}
	if problem := s.problem.Load(); problem != nil {
		st.Problem = *problem
	}
	if len(l.clientCA) > 0 {
		st.Expires[KindClientCA] = first(l.clientCA)
		st.Stranger = l.untimely(s.now()) == nil && !s.Trusts(l.chain)
	}
	return st
}

// Timely returns now, or the nearest time at which the server's certificates were or will be valid.
// With it, a verification finds what is wrong apart from the dates.
func (s *Status) Timely(now time.Time) time.Time {
	for _, at := range s.Expires {
		if at.Before(now) {
			now = at
		}
	}
	if now.Before(s.Begins) {
		return s.Begins
	}
	return now
}

// Untimely returns why clients refuse the present certificate now, with the remedy; nil if they do
// not.
func (s *Store) Untimely() error {
	if err := s.current.Load().untimely(s.now()); err != nil {
		return fmt.Errorf("%s: %w", s.c.Certificate, err)
	}
	return nil
}

// Certificate returns the server's present certificate.
func (s *Store) Certificate() *x509.Certificate { return s.current.Load().chain[0] }
