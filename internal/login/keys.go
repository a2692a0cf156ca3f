package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"
)

// The bounds of fetches of keys.
const (
	maxKeySet    = 1 << 20 // bytes
	fetchTimeout = 5 * time.Second
	fetchGap     = 10 * time.Second // between two fetches
)

// KeysOptions say from where keys come.
type KeysOptions struct {
	// Fetch reads a JSON web key set (RFC 7517), from a file or with FetchURL. Its context ends
	// after 5 seconds. If it does not return then, as from a file system that hangs, logins
	// continue with the former keys, and State shows the fetch before.
	Fetch func(context.Context) ([]byte, error)
	// Every is how often the set is read again. Default 5 minutes.
	Every time.Duration
	Log   *zap.Logger
}

// Keys are the public keys of the issuer of tokens. A login never waits for them: Run reads them in
// the background, and keeps the last good ones.
type Keys struct {
	opt   KeysOptions
	set   atomic.Pointer[jose.JSONWebKeySet]
	state atomic.Pointer[KeysState]
	want  chan struct{} // one buffered signal: a token names a key that is not in the set
}

// KeysState is what the last fetch of the keys showed.
type KeysState struct {
	Keys int
	Read time.Time // of the newest good set; zero if there was none
	Err  error     // of the last fetch
}

// NewKeys returns keys that Run has to read first.
func NewKeys(o KeysOptions) *Keys {
	if o.Every <= 0 {
		o.Every = 5 * time.Minute
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	k := &Keys{opt: o, want: make(chan struct{}, 1)}
	k.set.Store(&jose.JSONWebKeySet{})
	k.state.Store(&KeysState{})
	return k
}

// State returns what the last fetch showed, for a finding.
func (k *Keys) State() KeysState { return *k.state.Load() }

// Run reads the keys at once and then at intervals, until the context ends. It reads them earlier
// if a token names an unknown key, or after a failure, but not twice in ten seconds.
func (k *Keys) Run(ctx context.Context) {
	for {
		every := k.opt.Every
		if err := k.read(ctx); err != nil {
			every = min(every, fetchGap)
		}
		gap := time.NewTimer(min(fetchGap, every))
		select {
		case <-gap.C:
		case <-ctx.Done():
			gap.Stop()
			return
		}
		rest := time.NewTimer(max(every-fetchGap, 0))
		select {
		case <-rest.C:
		case <-k.want:
		case <-ctx.Done():
		}
		rest.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// read fetches the keys once.
func (k *Keys) read(ctx context.Context) error {
	before := k.State()
	limited, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	text, err := k.opt.Fetch(limited)
	var set *jose.JSONWebKeySet
	if err == nil {
		set, err = parseKeys(text)
	}
	if err != nil {
		if ctx.Err() == nil && (before.Err == nil || before.Err.Error() != err.Error()) {
			k.opt.Log.Warn("cannot read the keys that check tokens of OAUTHBEARER; the former ones stay in use: check oauth.jwks",
				zap.Int("keys", before.Keys), zap.Error(err))
		}
		k.state.Store(&KeysState{Keys: before.Keys, Read: before.Read, Err: err})
		return err
	}
	if before.Err != nil || before.Read.IsZero() {
		k.opt.Log.Info("read the keys that check tokens of OAUTHBEARER", zap.Int("keys", len(set.Keys)))
	}
	k.set.Store(set)
	k.state.Store(&KeysState{Keys: len(set.Keys), Read: time.Now()})
	return nil
}

// parseKeys returns the usable keys of a set. Keys of unknown types are left out, as RFC 7517
// demands; a set without any usable key is an error.
func parseKeys(text []byte) (*jose.JSONWebKeySet, error) {
	if len(text) > maxKeySet {
		return nil, fmt.Errorf("the key set is larger than %d bytes", maxKeySet)
	}
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("not a JSON web key set: %w", err)
	}
	set := &jose.JSONWebKeySet{}
	for _, one := range raw.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(one) == nil && usable(&key) {
			set.Keys = append(set.Keys, key)
		}
	}
	if len(set.Keys) == 0 {
		return nil, errors.New("the key set has no public key for signatures")
	}
	return set, nil
}

// find returns the key with an id, or nil; then the keys are read again soon. Without an id, it
// returns the only key, if there is one only.
func (k *Keys) find(id string) *jose.JSONWebKey {
	set := k.set.Load()
	if id == "" && len(set.Keys) == 1 {
		return &set.Keys[0]
	}
	for i := range set.Keys {
		if id != "" && set.Keys[i].KeyID == id {
			return &set.Keys[i]
		}
	}
	if id != "" {
		select {
		case k.want <- struct{}{}:
		default:
		}
	}
	return nil
}

// FetchURL returns a Fetch for a URL. It follows no redirect to another host or from https to http.
func FetchURL(address string) (func(context.Context) ([]byte, error), error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return nil, fmt.Errorf("%q is no address of a key set: give a URL that begins with https://, or a file", address)
	}
	client := &http.Client{CheckRedirect: func(to *http.Request, via []*http.Request) error {
		if to.URL.Host != u.Host || to.URL.Scheme != u.Scheme || len(via) > 3 {
			return fmt.Errorf("%s redirects to another host, to another scheme, or too often", u.Host)
		}
		return nil
	}}
	return func(ctx context.Context) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/jwk-set+json, application/json")
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answered %s", u.Host, resp.Status)
		}
		return io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
	}, nil
}
