package login

import (
	"errors"
	"strings"
)

// refusedToken is the answer to a token that is not accepted (RFC 7628, section 3.2.2). It has no
// reason, as all failures.
const refusedToken = `{"status":"invalid_token"}`

// bearer is a conversation of OAUTHBEARER (RFC 7628).
type bearer struct {
	attempt
	refused error // why the token was refused; the client has yet to acknowledge it
	user    string
}

// Step implements Conversation. As in the RFC and in Kafka, a token is refused in two steps: the
// client gets an answer, and with its next message the login fails.
func (b *bearer) Step(in []byte) (out []byte, who *Identity, err error) {
	switch {
	case b.over:
		return nil, nil, b.fail("", "the login is over")
	case b.refused != nil:
		return nil, nil, b.fail(b.user, b.refused.Error())
	}
	token, as, err := parseBearer(in)
	if err != nil {
		return nil, nil, b.fail("", err.Error())
	}
	now := b.logins.opt.Now()
	user, expires, err := b.logins.opt.Tokens.check(token, now)
	if err == nil && as != "" && as != user {
		err = errors.New("the client wants to act as another user")
	}
	if err != nil {
		b.refused, b.user = err, user
		return []byte(refusedToken), nil, nil
	}
	return []byte{}, b.succeed(user, expires, nil), nil
}

// parseBearer returns the token of a client's first message, and the user as whom it wants to act,
// which may be empty. The message is "n,a=USER,", a separator, pairs "KEY=VALUE" that each end with
// a separator, and another separator. Only the pair "auth" has a meaning here.
func parseBearer(in []byte) (token, as string, err error) {
	if len(in) > maxToken {
		return "", "", errors.New("the message is too long")
	}
	header, rest, ok := strings.Cut(string(in), "\x01")
	pairs, ended := strings.CutSuffix(rest, "\x01\x01")
	flag, as, two := strings.Cut(strings.TrimSuffix(header, ","), ",")
	if !ok || !ended || !two || (flag != "n" && flag != "y") || !strings.HasSuffix(header, ",") {
		return "", "", errors.New("the message is not one of OAUTHBEARER")
	}
	if as != "" {
		name, ok := strings.CutPrefix(as, "a=")
		if as = unescape.Replace(name); !ok || strings.Contains(name, ",") {
			return "", "", errors.New("the message names the user in another way than OAUTHBEARER")
		}
	}
	for pair := range strings.SplitSeq(pairs, "\x01") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || key == "auth" && token != "" {
			return "", "", errors.New("the message has an invalid or repeated key")
		}
		if key != "auth" {
			continue
		}
		scheme, given, _ := strings.Cut(value, " ")
		if token = strings.Trim(given, " "); !strings.EqualFold(scheme, "Bearer") || token == "" {
			return "", "", errors.New("the message has no bearer token")
		}
	}
	if token == "" {
		return "", "", errors.New("the message has no bearer token")
	}
	return token, as, nil
}

// unescape undoes the escapes of names in SASL (RFC 5801).
var unescape = strings.NewReplacer("=2C", ",", "=3D", "=")
