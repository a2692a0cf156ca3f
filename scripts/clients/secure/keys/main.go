// Command keys makes what the clients of ../../secure.sh log in with, in a directory that
// `chronikd secure init` has made: a client's certificate, an authority that the broker does not
// have, and tokens (RFC 7519) of a key whose public half is in jwks.json (RFC 7517).
// It does not know the broker's code, so that a mistake there is not repeated here.
package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

const life = 24 * time.Hour // of everything that is made here

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "keys DIR")
		os.Exit(2)
	}
	if err := keys(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "keys:", err)
		os.Exit(1)
	}
}

func keys(dir string) error {
	authority, authorityKey, err := load(dir)
	if err != nil {
		return err
	}
	client := &x509.Certificate{
		Subject: pkix.Name{CommonName: "carol"}, NotAfter: time.Now().Add(life), SerialNumber: big.NewInt(2),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if err := issue(dir, "client", client, authority, authorityKey); err != nil {
		return err
	}
	stranger := &x509.Certificate{
		Subject: pkix.Name{CommonName: "a stranger's authority"}, NotAfter: time.Now().Add(life), SerialNumber: big.NewInt(1),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if err := issue(dir, "stranger", stranger, nil, nil); err != nil {
		return err
	}
	return tokens(dir)
}

// load reads the authority of the broker.
func load(dir string) (*x509.Certificate, crypto.Signer, error) {
	var parts [2][]byte
	for i, name := range []string{"ca.pem", "ca-key.pem"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, nil, err
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, nil, fmt.Errorf("%s is not PEM", name)
		}
		parts[i] = block.Bytes
	}
	cert, err := x509.ParseCertificate(parts[0])
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(parts[1])
	if err != nil {
		return nil, nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, nil, errors.New("the authority's key cannot sign")
	}
	return cert, signer, nil
}

// issue writes NAME.pem and NAME-key.pem, and NAME-both.pem, which Java's clients want. Without an
// issuer the certificate signs itself.
func issue(dir, name string, cert, issuer *x509.Certificate, issuerKey crypto.Signer) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if issuer == nil {
		issuer, issuerKey = cert, key
	}
	cert.NotBefore = time.Now().Add(-time.Hour)
	signed, err := x509.CreateCertificate(rand.Reader, cert, issuer, key.Public(), issuerKey)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return errors.Join(write(dir, name+".pem", certPEM), write(dir, name+"-key.pem", keyPEM),
		write(dir, name+"-both.pem", append(keyPEM, certPEM...)))
}

// tokens writes jwks.json, token, which the broker must take, and forged: the same with a key that
// the broker does not know.
func tokens(dir string) error {
	names := []string{"token", "forged"}
	for _, name := range names {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		if name == "token" {
			point, err := key.PublicKey.Bytes()
			if err != nil {
				return err
			}
			public := map[string]string{"kty": "EC", "crv": "P-256", "kid": "one", "alg": "ES256", "use": "sig",
				"x": encode(point[1:33]), "y": encode(point[33:])}
			set, err := json.Marshal(map[string]any{"keys": []any{public}})
			if err != nil {
				return err
			}
			if err := write(dir, "jwks.json", set); err != nil {
				return err
			}
		}
		text, err := token(key)
		if err != nil {
			return err
		}
		if err := write(dir, name, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

func token(key *ecdsa.PrivateKey) (string, error) {
	header, err := json.Marshal(map[string]string{"alg": "ES256", "kid": "one", "typ": "JWT"})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{"sub": "robot", "iss": "https://login.example.com", "aud": "chronik",
		"iat": time.Now().Unix(), "exp": time.Now().Add(life).Unix()})
	if err != nil {
		return "", err
	}
	text := encode(header) + "." + encode(claims)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return "", err
	}
	return text + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)), nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func write(dir, name string, b []byte) error { return os.WriteFile(filepath.Join(dir, name), b, 0o600) }
