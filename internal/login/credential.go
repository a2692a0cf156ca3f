package login

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"iter"
	"slices"
	"strings"

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

// UserLine is a line NAME:MECHANISM:PASSWORD of a file of users. Who is its principal and
// mechanism.
type UserLine struct {
	Name      string
	Mechanism metadata.ScramMechanism
	Who       string
	password  secret.Secret
}

// UserLines yields the lines of a file of users, or an error for a malformed line, which shows no
// password. It skips empty lines and those that begin with #. A user may have a line for each
// mechanism.
func UserLines(text string) iter.Seq2[UserLine, error] {
	return func(yield func(UserLine, error) bool) {
		seen := map[string]bool{}
		for i, line := range strings.Split(text, "\n") {
			line = strings.TrimSuffix(line, "\r")
			if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
				continue
			}
			parts := append(strings.SplitN(line, ":", 3), "", "")
			m, known := metadata.ParseScramMechanism(parts[1])
			u := UserLine{parts[0], m, PrincipalType + parts[0] + " for " + parts[1], secret.Of(parts[2])}
			var wrong string
			switch {
			case strings.Count(line, ":") < 2:
				wrong = "it has fewer than three parts"
			case !ValidName(u.Name):
				wrong = fmt.Sprintf("the name is empty, longer than %d bytes, or has control characters", metadata.MaxUserName)
			case !known:
				wrong = "the mechanism is neither SCRAM-SHA-256 nor SCRAM-SHA-512"
			case parts[2] == "":
				wrong = "the password is empty"
			case seen[u.Who]:
				wrong = "user " + u.Name + " has a second password for " + parts[1]
			}
			var err error
			if wrong != "" {
				err = fmt.Errorf("line %d: %s; write lines NAME:SCRAM-SHA-512:PASSWORD", i+1, wrong)
			}
			seen[u.Who] = true
			if !yield(u, err) {
				return
			}
		}
	}
}

// ParseUsers returns the users of a file of users, at least one.
func ParseUsers(text string) ([]metadata.User, error) {
	var users []metadata.User
	for line, err := range UserLines(text) {
		if err != nil {
			return nil, err
		}
		c, err := NewCredential(line.Mechanism, line.password, DefaultIterations)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(users, func(u metadata.User) bool { return u.Name == line.Name })
		if at < 0 {
			at, users = len(users), append(users, metadata.User{Name: line.Name})
		}
		users[at] = users[at].With(c)
	}
	if len(users) == 0 {
		return nil, errors.New("it names no user; write lines NAME:SCRAM-SHA-512:PASSWORD")
	}
	return users, nil
}
