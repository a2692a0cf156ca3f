package login

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/secret"
)

// DefaultIterations is how often the keys of new users are hashed.
const DefaultIterations = 8192

// saltSize is the size of new salts in bytes.
const saltSize = 24

// hashOf returns the hash function of a mechanism.
func hashOf(m metadata.ScramMechanism) func() hash.Hash {
	if m == metadata.ScramSHA256 {
		return sha256.New
	}
	return sha512.New
}

// NewCredential computes the credential of a password, with a new salt (RFC 5802). iterations is
// 4096 to 16384, which the caller checks. It computes for up to some 20 ms.
func NewCredential(m metadata.ScramMechanism, password secret.Secret, iterations int) (metadata.Credential, error) {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(hashOf(m), string(password.Bytes()), salt, iterations, hashOf(m)().Size())
	if err != nil {
		return metadata.Credential{}, fmt.Errorf("cannot hash the password: %w", err)
	}
	return CredentialOf(m, secret.New(salt), secret.New(salted), int32(iterations)), nil
}

// CredentialOf computes the credential of a password that was salted and hashed already (RFC 5802).
func CredentialOf(m metadata.ScramMechanism, salt, salted secret.Secret, iterations int32) metadata.Credential {
	stored, server := keys(m, salted.Bytes())
	return metadata.Credential{Mechanism: m, Iterations: iterations, Salt: salt, StoredKey: secret.New(stored),
		ServerKey: secret.New(server)}
}

// keys returns StoredKey and ServerKey of RFC 5802.
func keys(m metadata.ScramMechanism, salted []byte) (stored, server []byte) {
	mac := hmac.New(hashOf(m), salted)
	mac.Write([]byte("Client Key"))
	h := hashOf(m)()
	h.Write(mac.Sum(nil))
	mac = hmac.New(hashOf(m), salted)
	mac.Write([]byte("Server Key"))
	return h.Sum(nil), mac.Sum(nil)
}

// matches reports whether a password is that of a credential. It takes the same time for each
// password of one length.
func matches(c *metadata.Credential, password []byte) bool {
	salted, err := pbkdf2.Key(hashOf(c.Mechanism), string(password), c.Salt.Bytes(), int(c.Iterations), hashOf(c.Mechanism)().Size())
	if err != nil {
		return false
	}
	stored, _ := keys(c.Mechanism, salted)
	return hmac.Equal(stored, c.StoredKey.Bytes())
}
