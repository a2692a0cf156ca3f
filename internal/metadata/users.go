package metadata

import (
	"cmp"
	"iter"
	"slices"

	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/sorts"
)

// ScramMechanism is a mechanism of SCRAM (RFC 5802, RFC 7677), numbered as in Kafka's requests
// (KIP-554).
type ScramMechanism int8

// The mechanisms for which credentials are stored.
const (
	ScramSHA256 ScramMechanism = 1
	ScramSHA512 ScramMechanism = 2
)

// String returns the name that SASL has for the mechanism.
func (m ScramMechanism) String() string {
	switch m {
	case ScramSHA256:
		return "SCRAM-SHA-256"
	case ScramSHA512:
		return "SCRAM-SHA-512"
	}
	return "UNKNOWN"
}

// ParseScramMechanism is the inverse of ScramMechanism.String.
func ParseScramMechanism(name string) (ScramMechanism, bool) {
	for _, m := range []ScramMechanism{ScramSHA256, ScramSHA512} {
		if m.String() == name {
			return m, true
		}
	}
	return 0, false
}

// The bounds of Credential.Iterations, as in Kafka.
const (
	MinScramIterations = 4096
	MaxScramIterations = 16384
)

// MaxUserName bounds the name of a user, in bytes.
const MaxUserName = 256

// User is a user with a password. It and everything that it refers to is immutable.
type User struct {
	Name        string
	Credentials []Credential // by ascending mechanism, one for each; never empty
	// Revision is the revision that last changed the user. It tells two users of one name apart.
	Revision int64
}

// Credential is the stored form of a password for one mechanism. The password can't be computed
// from it, but the stored key is enough to try passwords, and with both keys pretend to be the
// server.
type Credential struct {
	Mechanism  ScramMechanism
	Iterations int32 // of PBKDF2
	Salt       secret.Secret
	StoredKey  secret.Secret
	ServerKey  secret.Secret
}

// Credential returns the credential of a mechanism, or nil.
func (u *User) Credential(m ScramMechanism) *Credential {
	if u == nil {
		return nil
	}
	for i := range u.Credentials {
		if u.Credentials[i].Mechanism == m {
			return &u.Credentials[i]
		}
	}
	return nil
}

// With returns a copy of the user with one credential added or replaced. Its Revision is 0.
func (u User) With(c Credential) User {
	u = u.Without(c.Mechanism)
	u.Credentials = append(u.Credentials, c)
	sorts.Sort(u.Credentials, func(a, b Credential) int { return cmp.Compare(a.Mechanism, b.Mechanism) })
	return u
}

// Without returns a copy of the user without the credential for a mechanism. Its Revision is 0.
func (u User) Without(m ScramMechanism) User {
	u.Credentials = slices.DeleteFunc(slices.Clone(u.Credentials), func(c Credential) bool { return c.Mechanism == m })
	u.Revision = 0
	return u
}

// Logins is what all brokers must agree on to check logins.
type Logins struct {
	// Salt is a random key from which every broker derives the same salts for users that don't
	// exist. A client that knew it could find out which users exist. Empty before the first broker
	// has registered.
	Salt secret.Secret
	// Bootstrapped reports that there have been users when a broker started: bootstrap.users, which
	// is applied once, has no effect any longer.
	Bootstrapped bool
}

// User returns the user with a name, or nil.
func (m *Image) User(name string) *User {
	u, _ := m.users.get(name)
	return u
}

// NumUsers returns the number of users.
func (m *Image) NumUsers() int { return m.users.len() }

// Users iterates over all users, in no order.
func (m *Image) Users() iter.Seq[*User] { return m.users.values() }

// Logins returns what brokers need to check logins.
func (m *Image) Logins() Logins { return m.logins }

// putUser adds or changes a user.
func (b *builder) putUser(kv KV) error {
	u, err := DecodeUser(kv)
	if err != nil {
		return err
	}
	b.users.set(u.Name, &u)
	b.delta.Users = append(b.delta.Users, u.Name)
	return nil
}

// removeUser removes a user; a missing one is no change.
func (b *builder) removeUser(name string) {
	if b.prev.User(name) == nil {
		return
	}
	b.users.delete(name)
	b.delta.Users = append(b.delta.Users, name)
}

// credentialJSON has byte slices, which JSON shows as base64, because a Secret never shows itself.
type credentialJSON struct {
	Mechanism  string `json:"mechanism"`
	Iterations int32  `json:"iterations"`
	Salt       []byte `json:"salt"`
	StoredKey  []byte `json:"storedKey"`
	ServerKey  []byte `json:"serverKey"`
}

type userJSON struct {
	header
	Credentials []credentialJSON `json:"credentials"`
}

type loginsJSON struct {
	header
	Salt         []byte `json:"salt"`
	Bootstrapped bool   `json:"bootstrapped,omitempty"`
}

// Encode returns the value of UserKey.
func (u User) Encode() []byte {
	w := userJSON{header: current}
	for _, c := range u.Credentials {
		w.Credentials = append(w.Credentials, credentialJSON{c.Mechanism.String(), c.Iterations, c.Salt.Bytes(), c.StoredKey.Bytes(),
			c.ServerKey.Bytes()})
	}
	return encode(w)
}

// KeySize returns the size of a mechanism's keys in bytes.
func (m ScramMechanism) KeySize() int {
	return map[ScramMechanism]int{ScramSHA256: 32, ScramSHA512: 64}[m]
}

// DecodeUser is the inverse of User.Encode. The name is that of the key.
func DecodeUser(kv KV) (User, error) {
	k, err := keyOf(kv, KindUser)
	if err != nil {
		return User{}, err
	}
	w, err := decode[userJSON](kv)
	if err != nil {
		return User{}, err
	}
	u := User{Name: k.Name, Revision: kv.ModRevision}
	if len(w.Credentials) == 0 {
		return User{}, invalid(kv, "a user must have a credential")
	}
	for _, c := range w.Credentials {
		m, ok := ParseScramMechanism(c.Mechanism)
		if !ok || u.Credential(m) != nil {
			return User{}, invalid(kv, "a mechanism is unknown or appears twice")
		}
		if c.Iterations < MinScramIterations || c.Iterations > MaxScramIterations || len(c.Salt) == 0 ||
			len(c.StoredKey) != m.KeySize() || len(c.ServerKey) != m.KeySize() {
			return User{}, invalid(kv, "a credential has iterations, a salt or keys that its mechanism does not allow")
		}
		u.Credentials = append(u.Credentials, Credential{Mechanism: m, Iterations: c.Iterations, Salt: secret.New(c.Salt),
			StoredKey: secret.New(c.StoredKey), ServerKey: secret.New(c.ServerKey)})
	}
	return u, nil
}

// Encode returns the value of LoginsKey.
func (l Logins) Encode() []byte {
	return encode(loginsJSON{header: current, Salt: l.Salt.Bytes(), Bootstrapped: l.Bootstrapped})
}

// DecodeLogins is the inverse of Logins.Encode.
func DecodeLogins(kv KV) (Logins, error) {
	w, err := decode[loginsJSON](kv)
	if err == nil && len(w.Salt) < 16 {
		err = invalid(kv, "the salt is shorter than 16 bytes")
	}
	return Logins{Salt: secret.New(w.Salt), Bootstrapped: w.Bootstrapped}, err
}
