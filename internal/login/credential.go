package login

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"iter"
	"slices"
	"strconv"
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

// Stored returns a credential as a file of first users has it instead of a password.
func Stored(c metadata.Credential) string {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("[iterations=%d,salt=%s,storedkey=%s,serverkey=%s]", c.Iterations, b64(c.Salt.Bytes()), b64(c.StoredKey.Bytes()),
		b64(c.ServerKey.Bytes()))
}

// IsStored reports whether a text is one that Stored returns, and no password.
func IsStored(s string) bool {
	return strings.HasPrefix(s, "[iterations=") && strings.HasSuffix(s, "]")
}

// ParseStored reads what Stored returns. Its errors show nothing of the text.
func ParseStored(m metadata.ScramMechanism, s string) (metadata.Credential, error) {
	c := metadata.Credential{Mechanism: m}
	fields := strings.Split(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), ",")
	into := []*secret.Secret{&c.Salt, &c.StoredKey, &c.ServerKey}
	names := []string{"iterations=", "salt=", "storedkey=", "serverkey="}
	if len(fields) != len(names) {
		return c, errors.New("a stored password has iterations, salt, storedkey and serverkey")
	}
	for i, name := range names {
		value, ok := strings.CutPrefix(fields[i], name)
		if !ok {
			return c, fmt.Errorf("a stored password has no %s at its place", strings.TrimSuffix(name, "="))
		}
		if i == 0 {
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < metadata.MinScramIterations || n > metadata.MaxScramIterations {
				return c, fmt.Errorf("the iterations are not %d to %d", metadata.MinScramIterations, metadata.MaxScramIterations)
			}
			c.Iterations = int32(n)
			continue
		}
		b, err := base64.StdEncoding.DecodeString(value)
		if size := hashOf(m)().Size(); err != nil || i > 1 && len(b) != size || len(b) < saltSize || len(b) > 2*size {
			return c, fmt.Errorf("the %s is not base64 of its size", strings.TrimSuffix(name, "="))
		}
		*into[i-1] = secret.New(b)
	}
	return c, nil
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

// UserLine is a line NAME:MECHANISM:PASSWORD of a file of users, with a password or its Stored. Who
// is its principal and mechanism.
type UserLine struct {
	Name      string
	Mechanism metadata.ScramMechanism
	Who       string
	password  secret.Secret
}

// credential returns what is stored of the password, which may be given as Stored returns it.
func (u *UserLine) credential() (metadata.Credential, error) {
	if text := string(u.password.Bytes()); IsStored(text) {
		return ParseStored(u.Mechanism, text)
	}
	return NewCredential(u.Mechanism, u.password, DefaultIterations)
}

// FitsLine reports whether a line of a file of users can have a valid name.
func FitsLine(name string) bool { return !strings.Contains(name, ":") && !strings.HasPrefix(name, "#") }

// UserLines yields the lines of a file of users, or an error for a malformed line, which shows no
// password. It skips empty lines and those that begin with #. A user may have a line for each
// mechanism. FitsLine says which names a line can have.
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
		c, err := line.credential()
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
