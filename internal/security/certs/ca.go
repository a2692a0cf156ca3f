package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Lifetimes of what Authority makes. 397 days is the longest that browsers accept.
const (
	authorityDays = 3650
	leafDays      = 397
)

// Authority is a private certificate authority that signs for some names only.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// CertificatePEM and KeyPEM are what is written to files.
	CertificatePEM, KeyPEM []byte
}

// Pair is a certificate and its key as PEM.
type Pair struct{ Certificate, Key []byte }

// NewAuthority makes an authority of 10 years with a new ECDSA P-256 key. Its certificates can
// name only the given host names, those below them, and the given addresses (name constraints, RFC
// 5280): a stolen key is of no use for other names.
func NewAuthority(subject string, names []string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t, err := template509(subject, now, authorityDays)
	if err != nil {
		return nil, err
	}
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	permit(t, names)
	pair, err := sign(t, t, key, key)
	if err != nil {
		return nil, err
	}
	return LoadAuthority(pair.Certificate, pair.Key)
}

// permit adds names to those that an authority may sign.
func permit(t *x509.Certificate, names []string) {
	t.PermittedDNSDomainsCritical = true
	for _, name := range names {
		if a, err := netip.ParseAddr(name); err == nil {
			a = a.Unmap()
			t.PermittedIPRanges = append(t.PermittedIPRanges, &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())})
		} else {
			t.PermittedDNSDomains = append(t.PermittedDNSDomains, name)
		}
	}
}

// Widen returns the authority with a certificate that also permits these names, and nothing else
// that is new: key, subject and dates stay, so that it has signed what a has signed. It returns a
// itself if a permits all of them.
func (a *Authority) Widen(names []string, now time.Time) (*Authority, error) {
	names = slices.DeleteFunc(slices.Clone(names), a.permits)
	if len(names) == 0 {
		return a, nil
	}
	t, err := template509(a.certificate.Subject.CommonName, now, authorityDays)
	if err != nil {
		return nil, err
	}
	old := a.certificate
	t.RawSubject, t.SubjectKeyId, t.NotBefore, t.NotAfter = old.RawSubject, old.SubjectKeyId, old.NotBefore, old.NotAfter
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero, t.KeyUsage = true, true, true, old.KeyUsage
	t.PermittedDNSDomains, t.PermittedIPRanges = slices.Clone(old.PermittedDNSDomains), slices.Clone(old.PermittedIPRanges)
	slices.Sort(names)
	permit(t, slices.Compact(names))
	pair, err := sign(t, t, a.key, a.key)
	if err != nil {
		return nil, err
	}
	return LoadAuthority(pair.Certificate, a.KeyPEM)
}

// permits reports whether the authority may sign a name: it was given to it, or is below one that
// was.
func (a *Authority) permits(name string) bool {
	if addr, err := netip.ParseAddr(name); err == nil {
		return slices.ContainsFunc(a.certificate.PermittedIPRanges, func(r *net.IPNet) bool { return r.Contains(addr.Unmap().AsSlice()) })
	}
	return slices.ContainsFunc(a.certificate.PermittedDNSDomains, func(domain string) bool {
		domain, name := strings.ToLower(domain), strings.ToLower(name)
		return name == domain || strings.HasSuffix(name, "."+domain)
	})
}

// LoadAuthority reads the authority that NewAuthority has made.
func LoadAuthority(certificate, key []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	private, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("it is not an authority with an ECDSA key, as `chronikd secure init` makes them")
	}
	return &Authority{certificate: pair.Leaf, key: private, CertificatePEM: certificate, KeyPEM: key}, nil
}

// Names returns the names that the authority may sign, as they were given to NewAuthority.
func (a *Authority) Names() []string {
	names := slices.Clone(a.certificate.PermittedDNSDomains)
	for _, r := range a.certificate.PermittedIPRanges {
		names = append(names, r.IP.String())
	}
	return names
}

// Signed reports whether the authority has signed a certificate.
func (a *Authority) Signed(c *x509.Certificate) bool {
	return c.CheckSignatureFrom(a.certificate) == nil
}

// Leaf makes a certificate of 397 days for a server with these names, with a new ECDSA P-256 key.
// The server can also show it as a client: brokers show it to each other.
func (a *Authority) Leaf(subject string, names []string, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	t, err := template509(subject, now, leafDays)
	if err != nil {
		return Pair{}, err
	}
	if t.NotAfter.After(a.certificate.NotAfter) {
		t.NotAfter = a.certificate.NotAfter
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.BasicConstraintsValid = true
	for _, name := range names {
		if addr, err := netip.ParseAddr(name); err == nil {
			t.IPAddresses = append(t.IPAddresses, addr.Unmap().AsSlice())
		} else {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	pair, err := sign(t, a.certificate, key, a.key)
	if err != nil {
		return Pair{}, err
	}
	return pair, a.verify(pair.Certificate, names, now)
}

// verify checks a new certificate as a client would, so that one that no client takes is not
// written: an authority signs only its own names.
func (a *Authority) verify(certificate []byte, names []string, now time.Time) error {
	leaf, err := Parse(certificate)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	for _, name := range names {
		if _, err := leaf[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now}); err != nil {
			return fmt.Errorf("the authority cannot sign %s: %w", name, err)
		}
	}
	return nil
}

func template509(subject string, now time.Time, days int) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // RFC 5280: at most 20 bytes, not negative
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), Subject: pkix.Name{CommonName: subject},
		// The clocks of clients may be behind.
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 0, days),
	}, nil
}

func sign(t, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, parentKey)
	if err != nil {
		return Pair{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}
