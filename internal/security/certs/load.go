package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/security/files"
)

// minRSA is the smallest RSA key in bits that is accepted (NIST SP 800-131A).
const minRSA = 2048

// maxChain bounds the certificates of a file of server certificates.
const maxChain = 5

// Config describes a listener's certificates.
type Config struct {
	Certificate, Key string // paths of PEM files
	ClientCA         string // path of a PEM file; empty: clients show no certificate
	ClientAuth       tls.ClientAuthType
	MinVersion       uint16
	CipherSuites     []uint16 // of TLS 1.2; empty: Go's
	// Names are the host names and addresses that clients dial; a certificate that does not cover
	// them is a warning.
	Names []string
}

// loaded is a set of files that fit together. It is immutable.
type loaded struct {
	config   *tls.Config
	chain    []*x509.Certificate // the server's first
	clientCA []*x509.Certificate
	stamps   []files.Stamp
	warnings []string
}

// load reads and checks the files of c, but not whether the certificates are valid now: untimely
// does. An error names the file, the cause and the remedy.
func load(c *Config) (*loaded, error) {
	l := &loaded{stamps: stamps(c)}
	fail := func(path string, err error) (*loaded, error) { return nil, fmt.Errorf("%s: %w", path, err) }
	certificate, _, err := files.Read(c.Certificate)
	if err != nil {
		return fail(c.Certificate, fmt.Errorf("%w; name a PEM file of certificates that the broker can read", err))
	}
	key, _, err := files.ReadSecret(c.Key)
	if err != nil {
		return fail(c.Key, err)
	}
	if l.chain, err = Parse(certificate); err == nil {
		err = checkChain(l.chain)
	}
	if err != nil {
		return fail(c.Certificate, c.again(err))
	}
	if strings.Contains(string(key), "ENCRYPTED") {
		return fail(c.Key, errors.New("the key is encrypted; decrypt it once: openssl pkey -in KEY -out server-key.pem"))
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fail(c.Key, c.again(fmt.Errorf("does not fit %s: %s; give the key from which that certificate was made",
			c.Certificate, strings.TrimPrefix(err.Error(), "tls: "))))
	}
	l.config = Base()
	l.config.Certificates, l.config.CipherSuites, l.config.ClientAuth = []tls.Certificate{pair}, c.CipherSuites, c.ClientAuth
	l.config.MinVersion = max(l.config.MinVersion, c.MinVersion)
	// Answers are of use to a client as a whole only, so small records would only cost more.
	l.config.DynamicRecordSizingDisabled = true
	if c.ClientCA != "" {
		text, _, err := files.Read(c.ClientCA)
		if err == nil {
			l.clientCA, err = Parse(text)
		}
		if err != nil {
			return fail(c.ClientCA, err)
		}
		l.config.ClientCAs = x509.NewCertPool()
		for _, ca := range l.clientCA {
			if !ca.IsCA {
				return fail(c.ClientCA,
					fmt.Errorf("%s is not the certificate of an authority; name the file with the authority's own", DN(ca)))
			}
			l.config.ClientCAs.AddCert(ca)
		}
	}
	l.warnings = warnings(l.chain[0], c.Names)
	return l, nil
}

// again adds to an error of the certificate or its key how both are made again.
func (c *Config) again(err error) error {
	dir := filepath.Dir(c.Certificate)
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return fmt.Errorf("%w; if `chronikd secure init` made it, copy its ca-key.pem to %[2]s, and run `chronikd secure init %[2]s --renew`",
		err, dir)
}

// stamps returns the stamps of all files of c.
func stamps(c *Config) []files.Stamp {
	all := []files.Stamp{files.StampOf(c.Certificate), files.StampOf(files.Locate(c.Key))}
	if c.ClientCA != "" {
		all = append(all, files.StampOf(c.ClientCA))
	}
	return all
}

// begin is the line before a certificate.
const begin = "-----BEGIN CERTIFICATE-----"

// Parse returns the certificates of a PEM file, at least one. Other blocks are ignored, because a
// file may hold the key too. A file of which a part is missing is an error: encoding/pem skips what
// has no end, and the broker would do without an authority that its operator sees in the file. A
// file that was cut exactly between two certificates looks like a shorter one.
func Parse(text []byte) ([]*x509.Certificate, error) {
	want := bytes.Count(text, []byte(begin))
	if last := text[bytes.LastIndexByte(text, '\n')+1:]; len(last) > 0 && len(last) < len(begin) && strings.HasPrefix(begin, string(last)) {
		want++
	}
	var all []*x509.Certificate
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read: %s", len(all)+1, strings.TrimPrefix(err.Error(), "x509: "))
		}
		all = append(all, c)
	}
	if len(all) < want {
		return nil, fmt.Errorf("only %d of its %d certificates can be read: one is cut or damaged; write the whole file again", len(all), want)
	}
	if len(all) == 0 {
		return nil, errors.New("contains no certificate; it must be a PEM file (" + begin + ")")
	}
	return all, nil
}

// untimely returns why clients refuse the certificates at a time, with the remedy; nil if they do
// not. The files are not at fault then: the time may be what is wrong.
func (l *loaded) untimely(now time.Time) error {
	for _, c := range l.chain {
		switch {
		case now.After(c.NotAfter):
			return fmt.Errorf("the certificate of %s expired on %s; renew it", DN(c), c.NotAfter.UTC().Format(time.DateTime))
		case now.Before(c.NotBefore):
			return fmt.Errorf("the certificate of %s is valid from %s only; check the clock of this machine", DN(c),
				c.NotBefore.UTC().Format(time.DateTime))
		}
	}
	return nil
}

// checkChain checks the certificates that a server shows, its own first.
func checkChain(chain []*x509.Certificate) error {
	if len(chain) > maxChain {
		return fmt.Errorf("holds %d certificates, at most %d are sent; leave only the server's and those of its authorities",
			len(chain), maxChain)
	}
	for i, c := range chain {
		if i > 0 && chain[i-1].CheckSignatureFrom(c) != nil {
			return fmt.Errorf("certificate %d (%s) has not signed the one before it (%s); "+
				"write the server's certificate first and then each one's authority", i+1, DN(c), DN(chain[i-1]))
		}
	}
	return checkLeaf(chain[0])
}

// checkLeaf checks what the server's own certificate may be used for, and its key.
func checkLeaf(c *x509.Certificate) error {
	usages := c.ExtKeyUsage
	if len(usages)+len(c.UnknownExtKeyUsage) > 0 && !slices.Contains(usages, x509.ExtKeyUsageServerAuth) &&
		!slices.Contains(usages, x509.ExtKeyUsageAny) {
		return errors.New("the certificate is not for servers; it needs the extended key usage serverAuth")
	}
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSA {
			return fmt.Errorf("its RSA key has %d bits, at least %d are needed; make an ECDSA P-256 key", bits, minRSA)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return fmt.Errorf("its key is of a kind (%v) that TLS does not use; make an ECDSA P-256 key", c.PublicKeyAlgorithm)
	}
	return nil
}

// warnings returns what is wrong with a usable server certificate.
func warnings(c *x509.Certificate, names []string) []string {
	var all, missing []string
	for _, name := range names {
		if c.VerifyHostname(name) != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		all = append(all, fmt.Sprintf("it does not cover %s, under which clients connect: they refuse it", strings.Join(missing, ", ")))
	}
	if key, ok := c.PublicKey.(*rsa.PublicKey); ok {
		all = append(all, fmt.Sprintf("its key is RSA with %d bits: a handshake costs several times the processor time of ECDSA P-256",
			key.N.BitLen()))
	}
	return all
}
