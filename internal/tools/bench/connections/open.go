package connections

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"

	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// refused is the error of a broker's answer.
type refused struct {
	what string
	code error
}

func (e *refused) Error() string { return e.what + ": " + strings.TrimRight(e.code.Error(), ".") }
func (e *refused) Unwrap() error { return e.code }

func refusal(what string, code int16) error {
	if err := kerr.ErrorForCode(code); err != nil {
		return &refused{what, err}
	}
	return nil
}

// open connects and asks for API versions, as every client does first. With a user it logs in. The
// connection is closed when ctx ends.
func (o *opener) open(ctx context.Context) (*wire.Caller, error) {
	c, err := wire.DialCaller(ctx, o.broker, o.secure, answerTimeout)
	if err != nil {
		return nil, err
	}
	if err = versions(c); err == nil && o.user != nil {
		err = login(o.user, c)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// versions sends ApiVersions.
func versions(c *wire.Caller) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, wire.ClientID, "1"
	got, err := c.Call(req)
	if err != nil {
		return fmt.Errorf("ApiVersions: %w", err)
	}
	return refusal("ApiVersions", got.(*kmsg.ApiVersionsResponse).ErrorCode)
}

// mechanism is the only one that a user logs in with (RFC 5802, with SHA-512).
const mechanism = "SCRAM-SHA-512"

// login logs in. The user computes its keys once for all connections.
func login(user *scram.Client, c *wire.Caller) error {
	shake := kmsg.NewPtrSASLHandshakeRequest()
	shake.Version, shake.Mechanism = 1, mechanism
	got, err := c.Call(shake)
	if err == nil {
		err = refusal(mechanism, got.(*kmsg.SASLHandshakeResponse).ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("SaslHandshake: %w; name a port where clients log in with %s, or leave out --user", err, mechanism)
	}
	return prove(user, func(message string) (string, error) { return authenticate(c, message) })
}

// prove exchanges the messages of a login: the user and the broker prove that they know the
// password.
func prove(user *scram.Client, send func(string) (string, error)) error {
	answer := ""
	for talk := user.NewConversation(); ; {
		message, err := talk.Step(answer)
		if err != nil {
			return fmt.Errorf("the broker's message of the login is malformed, or does not prove that it knows the user: %w", err)
		}
		if talk.Done() {
			return nil
		}
		if answer, err = send(message); err != nil {
			return fmt.Errorf("%w; check --user and --password-file", err)
		}
	}
}

func authenticate(c *wire.Caller, message string) (string, error) {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = 2, []byte(message)
	got, err := c.Call(req)
	if err != nil {
		return "", fmt.Errorf("SaslAuthenticate: %w", err)
	}
	resp := got.(*kmsg.SASLAuthenticateResponse)
	return string(resp.SASLAuthBytes), refusal("SaslAuthenticate", resp.ErrorCode)
}

// metadata asks for the brokers, as a client does after it has logged in.
func metadata(c *wire.Caller) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 12, []kmsg.MetadataRequestTopic{}
	got, err := c.Call(req)
	if err != nil {
		return fmt.Errorf("request metadata: %w", err)
	}
	if len(got.(*kmsg.MetadataResponse).Brokers) == 0 {
		return errors.New("request metadata: the answer has no brokers")
	}
	return nil
}
