package login

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// tokenAlgorithms are those that a token may be signed with. None of them can be verified with a
// public key as a shared secret, and none is "none".
var tokenAlgorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// minRSA is the size of the smallest RSA key that is used, in bits.
const minRSA = 2048

// TokenOptions define which tokens are accepted.
type TokenOptions struct {
	// Keys are those of the issuer.
	Keys *Keys
	// Issuer must be the token's "iss". Empty: any.
	Issuer string
	// Audience must have one of the token's "aud"; at least one is required.
	Audience []string
	// Skew is by how much the issuer's clock may differ.
	Skew time.Duration
	// PrincipalClaim is the claim that has the name of the user. Default "sub".
	PrincipalClaim string
}

// Tokens checks the tokens of OAUTHBEARER: JSON web tokens (RFC 7519) that are signed.
type Tokens struct{ opt TokenOptions }

// NewTokens returns Tokens.
func NewTokens(o TokenOptions) (*Tokens, error) {
	if len(o.Audience) == 0 {
		return nil, errors.New("oauth.audience is not set: a token for another service would be accepted; set it to the name that the " +
			"issuer has for this cluster")
	}
	if o.PrincipalClaim == "" {
		o.PrincipalClaim = "sub"
	}
	return &Tokens{o}, nil
}

// check returns whose token it is and until when it is accepted, which is the token's "exp" and the
// clocks' difference later. user is empty with an error that precedes the signature.
func (t *Tokens) check(raw string, now time.Time) (user string, expires time.Time, err error) {
	token, err := jwt.ParseSigned(raw, tokenAlgorithms)
	if err != nil {
		return "", noEnd, errors.New("the token is malformed, or signed with an algorithm that is not accepted")
	}
	if len(token.Headers) != 1 {
		return "", noEnd, errors.New("the token does not have exactly one signature")
	}
	key := t.opt.Keys.find(token.Headers[0].KeyID)
	if key == nil {
		return "", noEnd, fmt.Errorf("no key of the issuer has the id %.100q that the token names", token.Headers[0].KeyID)
	}
	if key.Algorithm != "" && key.Algorithm != token.Headers[0].Algorithm {
		return "", noEnd, errors.New("the token is signed with another algorithm than its key is for")
	}
	var standard jwt.Claims
	var all map[string]any
	if err := token.Claims(key.Key, &standard, &all); err != nil {
		return "", noEnd, errors.New("the signature of the token is wrong, or its claims are malformed")
	}
	user, _ = all[t.opt.PrincipalClaim].(string)
	return t.checkClaims(user, &standard, now)
}

// checkClaims checks the claims of a token whose signature is right.
func (t *Tokens) checkClaims(user string, c *jwt.Claims, now time.Time) (string, time.Time, error) {
	switch {
	case !ValidName(user):
		return "", noEnd, fmt.Errorf("the claim %q of the token is no name: it is missing, empty, too long, or has control bytes",
			t.opt.PrincipalClaim)
	case c.Expiry == nil:
		return user, noEnd, errors.New("the token does not say when it expires")
	case !now.Before(c.Expiry.Time().Add(t.opt.Skew)):
		return user, noEnd, errors.New("the token has expired")
	case c.NotBefore != nil && c.NotBefore.Time().After(now.Add(t.opt.Skew)):
		return user, noEnd, errors.New("the token is not valid yet")
	case c.IssuedAt != nil && c.IssuedAt.Time().After(now.Add(t.opt.Skew)):
		return user, noEnd, errors.New("the token was issued in the future: compare the clocks")
	case t.opt.Issuer != "" && c.Issuer != t.opt.Issuer:
		return user, noEnd, fmt.Errorf("the token is of the issuer %.200q", c.Issuer)
	case !slices.ContainsFunc(t.opt.Audience, c.Audience.Contains):
		return user, noEnd, errors.New("the token is for another audience")
	}
	return user, c.Expiry.Time().Add(t.opt.Skew), nil
}

// usable reports whether a key may sign tokens.
func usable(k *jose.JSONWebKey) bool {
	if !k.IsPublic() || !k.Valid() || (k.Use != "" && k.Use != "sig") {
		return false // a private or symmetric key has no place in the issuer's list
	}
	if public, ok := k.Key.(*rsa.PublicKey); ok && public.N.BitLen() < minRSA {
		return false
	}
	return true
}
