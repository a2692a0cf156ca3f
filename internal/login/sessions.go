package login

import (
	"sync"

	"github.com/chronik-io/chronik/internal/metadata"
)

// sessions are those that end when their user is removed or gets another password.
type sessions struct {
	mu sync.Mutex
	by map[string]map[*session]bool // by user
}

// session is one login by a stored credential.
type session struct {
	user string
	by   metadata.Credential
	end  func()
}

// stale reports whether the credential of the session is no longer the user's.
func (s *session) stale(image *metadata.Image) bool {
	c := image.User(s.user).Credential(s.by.Mechanism)
	return c == nil || !c.StoredKey.Equal(s.by.StoredKey) || !c.Salt.Equal(s.by.Salt)
}

// until returns Identity.Until for a login by a credential.
func (l *Logins) until(user string, by metadata.Credential) func(func()) func() {
	return func(end func()) func() {
		s := &session{user, by, end}
		l.sessions.add(s)
		if s.stale(l.image.Load()) { // Follow stores the image first, and then looks for sessions
			end()
		}
		return func() { l.sessions.remove(s) }
	}
}

func (s *sessions) add(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[x.user] == nil {
		s.by[x.user] = map[*session]bool{}
	}
	s.by[x.user][x] = true
}

func (s *sessions) remove(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by[x.user], x)
	if len(s.by[x.user]) == 0 {
		delete(s.by, x.user)
	}
}

// endStale ends the sessions of some users whose credentials have changed.
func (s *sessions) endStale(image *metadata.Image, users []string) {
	var ended []*session
	s.mu.Lock()
	for _, user := range users {
		for x := range s.by[user] {
			if x.stale(image) {
				ended = append(ended, x)
			}
		}
	}
	s.mu.Unlock()
	for _, x := range ended { // without the lock: the end of a session may remove it
		x.end()
	}
}
