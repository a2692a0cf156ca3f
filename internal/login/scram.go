package login

import (
	"errors"

	"github.com/xdg-go/scram"

	"github.com/chronik-io/chronik/internal/metadata"
)

// scramServer is a conversation of SCRAM. As Kafka, it does not normalize names, and ignores
// extensions of the client's first message.
type scramServer struct {
	attempt
	conversation *scram.ServerConversation
	by           metadata.Credential
	exists       bool
	read         byte // of Logins.credential
	begun        bool // the client's first message was one of SCRAM
}

// errTooLong ends a conversation before its user is looked up.
var errTooLong = errors.New("the name of the user is empty, too long, or has control characters")

func newScram(a attempt) *scramServer {
	s := &scramServer{attempt: a}
	hash := scram.SHA256
	if a.mechanism == ScramSHA512 {
		hash = scram.SHA512
	}
	server, err := hash.NewServer(s.lookUp)
	if err == nil { // which it is always
		s.conversation = server.NewConversation()
	}
	return s
}

// lookUp returns the credential of a user, or one that no password fits.
func (s *scramServer) lookUp(user string) (scram.StoredCredentials, error) {
	if !ValidName(user) {
		return scram.StoredCredentials{}, errTooLong
	}
	m, _ := metadata.ParseScramMechanism(s.mechanism)
	s.by, s.exists, s.read = s.logins.credential(user, m)
	return scram.StoredCredentials{KeyFactors: scram.KeyFactors{Salt: string(s.by.Salt.Bytes()), Iters: int(s.by.Iterations)},
		StoredKey: s.by.StoredKey.Bytes(), ServerKey: s.by.ServerKey.Bytes()}, nil
}

// Step implements Conversation.
func (s *scramServer) Step(in []byte) (out []byte, who *Identity, err error) {
	if s.over {
		return nil, nil, s.fail("", "the login is over")
	}
	if len(in) > maxMessage {
		return nil, nil, s.fail("", "the message is too long")
	}
	text, err := s.conversation.Step(string(in))
	user := s.conversation.Username()
	id := s.conversation.AuthzID()
	switch {
	case err != nil:
		return nil, nil, s.fail(user, s.reason(err))
	case id != "" && id != user:
		return nil, nil, s.fail(user, "the client wants to act as another user")
	case !s.conversation.Done():
		s.begun = true
		return []byte(text), nil, nil
	case !s.exists || !s.conversation.Valid():
		return nil, nil, s.fail(user, "there is no such user")
	}
	return []byte(text), s.succeed(user, noEnd, s.logins.until(user, s.by)), nil
}

// wrongProof is the text of the error that package scram has for a wrong password.
const wrongProof = "challenge proof invalid"

// reason returns the cause of an error of package scram. Its texts have parts of the message: that
// is a password or a token if the client is configured for another mechanism.
func (s *scramServer) reason(err error) string {
	switch {
	case errors.Is(err, errTooLong):
		return errTooLong.Error()
	case err.Error() == wrongProof && s.exists:
		return "the password is wrong"
	case err.Error() == wrongProof:
		return "there is no such user, or it has no password for this mechanism"
	case s.begun:
		return "SCRAM's last message does not fit the first one; librdkafka before 2.6.1 sends such ones: " +
			"use a later version, or another mechanism"
	}
	return "the message is not one of SCRAM; check sasl.mechanism at the client"
}
