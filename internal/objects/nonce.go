package objects

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// Nonce makes the name of an object unique. No two calls of NewNonce return the same.
type Nonce [16]byte

// NewNonce returns a random nonce.
func NewNonce() (n Nonce) {
	_, _ = rand.Read(n[:]) // it never fails: crypto/rand ends the process instead
	return n
}

// String returns 32 hexadecimal digits.
func (n Nonce) String() string { return hex.EncodeToString(n[:]) }

// ParseNonce parses what String returns.
func ParseNonce(s string) (n Nonce, err error) {
	if len(s) != 2*len(n) {
		return n, fmt.Errorf("a nonce has %d digits, and not %d", 2*len(n), len(s))
	}
	if _, err := hex.Decode(n[:], []byte(s)); err != nil {
		return Nonce{}, fmt.Errorf("parse a nonce: %w", err)
	}
	if n.String() != s {
		return Nonce{}, fmt.Errorf("nonce %q has upper-case digits", s)
	}
	return n, nil
}
