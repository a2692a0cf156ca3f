package login

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
)

// noEnd is the time at which something ends that never ends.
var noEnd time.Time

// plain is a conversation of PLAIN. It has one message.
type plain struct{ attempt }

// Step implements Conversation.
func (p *plain) Step(in []byte) (out []byte, who *Identity, err error) {
	if p.over {
		return nil, nil, p.fail("", "the login is over")
	}
	parts := bytes.Split(in, []byte{0})
	if len(in) > maxMessage || len(parts) != 3 {
		return nil, nil, p.fail("", "the message is too long, or does not have three parts")
	}
	as, user, password := string(parts[0]), string(parts[1]), parts[2]
	switch {
	case !ValidName(user) || len(password) == 0:
		return nil, nil, p.fail(user, "the name of the user or the password is empty, or the name is too long or has control characters")
	case as != "" && as != user:
		return nil, nil, p.fail(user, "the client wants to act as another user")
	}
	exists := p.logins.image.Load().User(user)
	stored := p.logins.unknownPlain(user) // always, so that it takes the same time
	if exists != nil {
		stored = exists.Credentials
	}
	by := p.logins.memo.match(user, stored, password)
	if by == nil || exists == nil {
		return nil, nil, p.fail(user, "there is no such user, or it has another password")
	}
	return []byte{}, p.succeed(user, noEnd, p.logins.until(user, *by)), nil
}

// match returns the first credential that a password fits, or nil. A user may have one password for
// each mechanism: SCRAM takes both as well. A wrong password costs the same work for all users
// whose credentials have one shape.
func (m *memo) match(user string, stored []metadata.Credential, password []byte) *metadata.Credential {
	for i := range stored {
		if m.has(m.proof(user, stored[i].StoredKey.Bytes(), password)) {
			return &stored[i]
		}
	}
	for i := range stored {
		if matches(&stored[i], password) {
			m.add(m.proof(user, stored[i].StoredKey.Bytes(), password))
			return &stored[i]
		}
	}
	return nil
}

// memoSize bounds each of the two halves of a memo.
const memoSize = 10_000

// memo remembers passwords that were checked, so that a client that connects again costs
// microseconds instead of milliseconds. It holds no password: a proof is a hash with a key that
// only this process has. It includes the stored key, so that a new password makes it worthless.
type memo struct {
	key [32]byte

	mu       sync.Mutex
	new, old map[[sha256.Size]byte]bool // the older half is dropped when the newer one is full
}

func (m *memo) proof(user string, storedKey, password []byte) (p [sha256.Size]byte) {
	mac := hmac.New(sha256.New, m.key[:])
	mac.Write([]byte(user)) // without a zero byte
	mac.Write([]byte{0})
	mac.Write(storedKey) // of a length that its hash function fixes; the password has no zero byte
	mac.Write([]byte{0})
	mac.Write(password)
	mac.Sum(p[:0])
	return p
}

func (m *memo) has(p [sha256.Size]byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.old[p] && !m.new[p] {
		m.addLocked(p)
	}
	return m.new[p]
}

func (m *memo) add(p [sha256.Size]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(p)
}

func (m *memo) addLocked(p [sha256.Size]byte) {
	if len(m.new) >= memoSize {
		m.old, m.new = m.new, nil
	}
	if m.new == nil {
		m.new = map[[sha256.Size]byte]bool{}
	}
	m.new[p] = true
}
