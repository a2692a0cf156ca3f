package network

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// users is an Authenticator of tests. The mechanism WORD takes two messages: "hello" and "user
// word"; the word must be "secret", "late" for a session of 5 s, or "otherwise" for an identity of
// another mechanism.
type users struct {
	mu     sync.Mutex
	begun  int
	ends   []func()
	forgot int
	gate   chan struct{} // if set, Step waits for it
	delay  time.Duration
}

func (u *users) Mechanisms(*Listener) []string { return []string{"WORD", "OTHER"} }

func (u *users) Begin(_ *Listener, mechanism, _ string) (Conversation, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.begun++; mechanism == "OTHER" {
		return nil, errors.New("not now")
	}
	return &word{users: u}, nil
}

type word struct {
	users *users
	greet bool
}

// wrong is a failed login.
type wrong struct{ delay time.Duration }

func (w wrong) Error() string        { return "wrong word" }
func (w wrong) Delay() time.Duration { return w.delay }

func (w *word) Step(in []byte) ([]byte, *Identity, error) {
	u := w.users
	if u.gate != nil {
		<-u.gate
	}
	if !w.greet {
		w.greet = true
		if string(in) != "hello" {
			return []byte("who?"), nil, wrong{u.delay}
		}
		return []byte("go on"), nil, nil
	}
	user, secret, _ := strings.Cut(string(in), " ")
	who := &Identity{Principal: "User:" + user, Mechanism: "WORD", Until: func(end func()) func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.ends = append(u.ends, end)
		return func() {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.forgot++
		}
	}}
	switch secret {
	case "secret":
	case "late":
		who.Expires = time.Now().Add(5 * time.Second)
	case "otherwise":
		who.Mechanism = "OTHER"
	default:
		return nil, nil, wrong{u.delay}
	}
	return []byte("welcome"), who, nil
}

// behindLogin returns a server with a listener of SASL on pipes.
func behindLogin(t testing.TB, u *users, h func(*Request), change func(*Options)) (*fixture, *pipeListener) {
	t.Helper()
	f := start(t, h, func(o *Options) {
		o.Authenticator = u
		if change != nil {
			change(o)
		}
	})
	ln := newPipeListener()
	must(t, f.Serve(&Listener{Name: "sasl", SASL: true, Brokers: true}, ln))
	return f, ln
}

// request frames a request of kmsg with a null client id.
func request(correlation int32, req kmsg.Request) []byte {
	p := binary.BigEndian.AppendUint32(nil, 0)
	p = binary.BigEndian.AppendUint16(p, uint16(req.Key()))
	p = binary.BigEndian.AppendUint16(p, uint16(req.GetVersion()))
	p = binary.BigEndian.AppendUint32(p, uint32(correlation))
	p = append(p, 0xff, 0xff)
	if req.IsFlexible() {
		p = append(p, 0)
	}
	p = req.AppendTo(p)
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	return p
}

func choose(correlation int32, mechanism string) []byte {
	return request(correlation, &kmsg.SASLHandshakeRequest{Version: 1, Mechanism: mechanism})
}

func message(correlation int32, text string) []byte {
	return request(correlation, &kmsg.SASLAuthenticateRequest{Version: 1, SASLAuthBytes: []byte(text)})
}

func (c *client) wantChoice(t testing.TB, correlation int32, code int16) *kmsg.SASLHandshakeResponse {
	t.Helper()
	resp := &kmsg.SASLHandshakeResponse{Version: 1}
	if err := resp.ReadFrom(c.want(t, correlation)); err != nil || resp.ErrorCode != code {
		t.Fatalf("error %d, %v, want %d", resp.ErrorCode, err, code)
	}
	return resp
}

func (c *client) wantMessage(t testing.TB, correlation int32, code int16, text string) *kmsg.SASLAuthenticateResponse {
	t.Helper()
	resp := &kmsg.SASLAuthenticateResponse{Version: 1}
	if err := resp.ReadFrom(c.want(t, correlation)); err != nil || resp.ErrorCode != code || string(resp.SASLAuthBytes) != text {
		t.Fatalf("error %d, %q, %v, want %d, %q", resp.ErrorCode, resp.SASLAuthBytes, err, code, text)
	}
	return resp
}

// login logs in and returns the session's lifetime.
func (c *client) login(t testing.TB, user, secret string) time.Duration {
	t.Helper()
	c.send(t, choose(1, "WORD"))
	c.wantChoice(t, 1, 0)
	c.send(t, message(2, "hello"))
	c.wantMessage(t, 2, 0, "go on")
	c.send(t, message(3, user+" "+secret))
	return time.Duration(c.wantMessage(t, 3, 0, "welcome").SessionLifetimeMillis) * time.Millisecond
}

func TestLogin(t *testing.T) {
	seen := &recorder{}
	var session *Session
	u := &users{}
	f, ln := behindLogin(t, u, func(r *Request) { session = r.Session; echo(r) }, func(o *Options) { o.Observer = seen })
	c := ln.dial()
	c.send(t, frame(protocol.KeyApiVersions, 0, 9, nil))
	c.want(t, 9)
	if session.Principal != Anonymous {
		t.Errorf("before the login the client is %+v", session)
	}
	if d := c.login(t, "bob", "secret"); d != 0 {
		t.Errorf("the session lasts %v", d)
	}
	if n := f.Stats().Unauthenticated; n != 0 {
		t.Errorf("%d connections count as unauthenticated", n)
	}
	c.send(t, frame(protocol.KeyProduce, 3, 4, make([]byte, 1000)))
	c.want(t, 4)
	if session.Principal != "User:bob" || session.Mechanism != "WORD" || session.Listener != "sasl" {
		t.Errorf("the session is %+v", session)
	}
	// Without an end of the session, a login after the first is the handler's, which refuses it.
	c.send(t, choose(5, "WORD"))
	c.want(t, 5)
	c.send(t, message(6, "hello"))
	c.want(t, 6)
	if u.begun != 1 {
		t.Error("a second login began")
	}
	u.ends[0]()
	c.wantClosed(t)
	c.Close()
	f.end(t)
	if u.forgot != 1 {
		t.Error("the registration of the session is left")
	}
	if !slices.Contains(seen.told, "sasl login with WORD as User:bob, failed: false") ||
		!slices.Contains(seen.told, "sasl closed: session") || !slices.Contains(seen.told, "User:bob logged out: session") {
		t.Errorf("told %q", seen.told)
	}
}

// What fails, and what the client sees of it.
func TestFailedLogin(t *testing.T) {
	illegal, unsupported, failed := kerr.IllegalSaslState.Code, kerr.UnsupportedSaslMechanism.Code, kerr.SaslAuthenticationFailed.Code
	for name, talk := range map[string]func(*testing.T, *client){
		"unknown mechanism": func(t *testing.T, c *client) {
			c.send(t, choose(1, "GSSAPI"))
			if got := c.wantChoice(t, 1, unsupported).SupportedMechanisms; !slices.Equal(got, []string{"WORD", "OTHER"}) {
				t.Errorf("mechanisms %q", got)
			}
		},
		"version 0": func(t *testing.T, c *client) {
			c.send(t, request(1, &kmsg.SASLHandshakeRequest{Mechanism: "WORD"}))
			c.wantChoice(t, 1, kerr.UnsupportedVersion.Code)
		},
		"chosen twice": func(t *testing.T, c *client) {
			c.send(t, choose(1, "WORD"))
			c.wantChoice(t, 1, 0)
			c.send(t, choose(2, "WORD"))
			c.wantChoice(t, 2, illegal)
		},
		"with an answer": func(t *testing.T, c *client) {
			c.send(t, choose(1, "WORD"))
			c.wantChoice(t, 1, 0)
			c.send(t, message(2, "?"))
			c.wantMessage(t, 2, failed, "who?")
		},
		"wrong word": func(t *testing.T, c *client) {
			c.send(t, choose(1, "WORD"))
			c.wantChoice(t, 1, 0)
			c.send(t, message(2, "hello"))
			c.wantMessage(t, 2, 0, "go on")
			c.send(t, message(3, "bob wrong"))
			if got := c.wantMessage(t, 3, failed, "").ErrorMessage; got == nil || *got != loginFailed {
				t.Errorf("the client is told %v", got)
			}
		},
		"a bad name": func(t *testing.T, c *client) {
			c.send(t, choose(1, "WORD"))
			c.wantChoice(t, 1, 0)
			c.send(t, message(2, "hello"))
			c.wantMessage(t, 2, 0, "go on")
			c.send(t, message(3, "b\nb secret"))
			c.wantMessage(t, 3, failed, "welcome")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, ln := behindLogin(t, &users{}, func(*Request) { t.Error("a request is served") }, nil)
			c := ln.dial()
			talk(t, c)
			c.sendAsync(frame(keyMetadata, 3, 9, nil))
			c.wantClosed(t)
			c.Close()
			f.end(t)
		})
	}
}

// A failed login is answered late; meanwhile it holds no place and no memory of requests.
func TestDelayOfAFailedLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ln := behindLogin(t, &users{delay: 5 * time.Second}, echo, nil)
		c := ln.dial()
		c.send(t, choose(1, "WORD"))
		c.wantChoice(t, 1, 0)
		began := time.Now()
		c.send(t, message(2, strings.Repeat("?", 30_000)))
		synctest.Wait()
		if s := f.Stats(); s.LoginsDelayed != 1 || s.Login.Used != 0 || s.LoginArriving.Used != 0 || f.places.Held() != 0 {
			t.Errorf("meanwhile %+v", s)
		}
		c.wantMessage(t, 2, kerr.SaslAuthenticationFailed.Code, "who?")
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("the answer came after %v", d)
		}
		c.wantClosed(t)
		c.Close()
		late := ln.dial() // the end of the server ends the wait
		late.send(t, choose(1, "WORD"))
		late.wantChoice(t, 1, 0)
		late.send(t, message(2, "?"))
		synctest.Wait()
		f.end(t)
		late.Close()
	})
}

// A session with an end closes its connection, unless the client logs in again, as the same user.
func TestSessionsThatExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &users{}
		var served []*Session
		f, ln := behindLogin(t, u, func(r *Request) { served = append(served, r.Session); echo(r) }, nil)
		c, idle, other, another := ln.dial(), ln.dial(), ln.dial(), ln.dial()
		for _, c := range []*client{c, idle, other, another} {
			if d := c.login(t, "bob", "late"); d != 5*time.Second {
				t.Errorf("the session lasts %v", d)
			}
		}
		time.Sleep(4 * time.Second)
		c.login(t, "bob", "late")
		if u.forgot != 1 {
			t.Errorf("%d sessions are forgotten", u.forgot)
		}
		time.Sleep(4 * time.Second) // the first sessions are over
		c.send(t, frame(keyMetadata, 3, 4, nil))
		c.want(t, 4)
		idle.sendAsync(frame(keyMetadata, 3, 4, nil))
		idle.wantClosed(t)
		u.ends[0]() // a session that was replaced has no connection to end
		c.send(t, frame(protocol.KeyProduce, 3, 5, nil))
		c.want(t, 5)
		if len(served) != 2 || served[0] != served[1] {
			t.Errorf("served %v", served)
		}
		// A client may log in late, but not as another user, nor with another mechanism.
		for c, text := range map[*client]string{other: "alice secret", another: "bob otherwise"} {
			c.send(t, choose(1, "WORD"))
			c.wantChoice(t, 1, 0)
			c.send(t, message(2, "hello"))
			c.wantMessage(t, 2, 0, "go on")
			c.send(t, message(3, text))
			c.wantMessage(t, 3, kerr.SaslAuthenticationFailed.Code, "welcome")
			c.wantClosed(t)
		}
		for _, c := range []*client{c, idle, other, another} {
			c.Close()
		}
		synctest.Wait()
		f.end(t)
		if u.forgot != 5 {
			t.Errorf("%d of 5 sessions are forgotten", u.forgot)
		}
	})
}

// Another login must not take longer than the first.
func TestLoginAgainHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ln := behindLogin(t, &users{}, echo, nil)
		c := ln.dial()
		c.login(t, "bob", "late")
		c.send(t, choose(1, "WORD"))
		c.wantChoice(t, 1, 0)
		began := time.Now()
		c.wantClosed(t)
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("closed after %v", d)
		}
		c.Close()
		f.end(t)
	})
}

// state is a point of a login, up to which a client has come.
type state struct {
	name string
	sent [][]byte // with their answers
}

func loginStates() []state {
	return []state{
		{"connected", nil},
		{"versions known", [][]byte{frame(protocol.KeyApiVersions, 0, 1, nil)}},
		{"mechanism chosen", [][]byte{choose(1, "WORD")}},
		{"half logged in", [][]byte{choose(1, "WORD"), message(2, "hello")}},
	}
}

// Whatever a client sends before it has logged in, in whatever state, and wherever the bytes end:
// no request is served but ApiVersions, and nothing is left of the connection.
func TestNothingIsServedBeforeTheLogin(t *testing.T) {
	for _, s := range loginStates() {
		for key := range int16(100) {
			if key == protocol.KeyApiVersions || isLogin(key) {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				f, ln := behindLogin(t, &users{}, func(r *Request) {
					if r.Key != protocol.KeyApiVersions {
						t.Errorf("%s: API %d is served", s.name, r.Key)
					}
					echo(r)
				}, nil)
				whole := frame(key, 3, 9, []byte("0123456789"))
				for _, n := range []int{len(whole), len(whole) + 40} { // alone, and with others behind it
					c := s.reach(t, ln)
					c.sendAsync(append(slices.Clone(whole), bytes.Repeat(whole, 2)...)[:n])
					c.wantClosed(t)
					c.Close()
				}
				f.end(t)
			})
		}
	}
}

func (s state) reach(t testing.TB, ln *pipeListener) *client {
	t.Helper()
	c := ln.dial()
	for _, p := range s.sent {
		c.send(t, p)
		if _, _, err := c.receive(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	return c
}

// Requests that are cut at any byte are never answered: the client waits until its deadline, or
// hangs up, and nothing is left.
func TestRequestsBeforeTheLoginThatAreCut(t *testing.T) {
	next := map[string][]byte{"a login": choose(9, "WORD"), "a message": message(9, "hello"),
		"versions": frame(protocol.KeyApiVersions, 3, 9, make([]byte, 20)), "a large one": message(9, strings.Repeat("x", 60_000))}
	for _, s := range loginStates() {
		for what, p := range next {
			synctest.Test(t, func(t *testing.T) {
				f, ln := behindLogin(t, &users{}, echo, nil)
				for cut := range len(p) {
					if cut > 40 && cut%9973 != 0 && cut != len(p)-1 {
						continue
					}
					for _, hangsUp := range []bool{true, false} {
						c := s.reach(t, ln)
						go func() { _, _ = c.Write(p[:cut]) }()
						synctest.Wait()
						if got := f.Stats(); got.Unauthenticated != 1 {
							t.Fatalf("%s, %s cut at %d: %+v", s.name, what, cut, got)
						}
						if !hangsUp {
							c.wantClosed(t)
						}
						c.Close()
						synctest.Wait()
						if got := f.Stats(); got.Unauthenticated != 0 || got.LoginArriving.Used != 0 || got.Login.Used != 0 {
							t.Fatalf("%s, %s cut at %d: left over %+v", s.name, what, cut, got)
						}
					}
				}
				f.end(t)
			})
		}
	}
}

// The bounds before the login: how large a request is, how slow, how many ask for versions, and
// what waits behind the login is not served if that fails.
func TestBoundsBeforeTheLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := 0
		f, ln := behindLogin(t, &users{}, func(r *Request) {
			served++
			echo(r)
		}, nil)
		large := message(1, strings.Repeat("x", 64<<10))
		c := ln.dial()
		c.sendAsync(large[:20]) // the length is enough
		c.wantClosed(t)
		c.Close()

		c = ln.dial()
		for i := range int32(maxVersionRequests) {
			c.send(t, frame(protocol.KeyApiVersions, 0, i, nil))
			c.want(t, i)
		}
		c.sendAsync(frame(protocol.KeyApiVersions, 0, 9, nil))
		c.wantClosed(t)
		c.Close()

		c = ln.dial()
		began := time.Now()
		var writer sync.WaitGroup
		writer.Go(func() {
			for _, b := range choose(1, strings.Repeat("WORD", 100)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		if _, err := io.ReadAll(c); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("a slow client was closed after %v, %v", time.Since(began), err)
		}
		c.Close()
		writer.Wait()
		if served != maxVersionRequests {
			t.Errorf("%d requests were served", served)
		}

		for _, secret := range []string{"wrong", "secret"} {
			served = 0
			c = ln.dial()
			c.sendAsync(slices.Concat(choose(1, "WORD"), message(2, "hello"), message(3, "bob "+secret),
				frame(keyMetadata, 3, 4, make([]byte, 100_000))))
			c.wantChoice(t, 1, 0)
			c.wantMessage(t, 2, 0, "go on")
			if secret == "secret" {
				c.wantMessage(t, 3, 0, "welcome")
				c.want(t, 4)
			} else {
				c.wantMessage(t, 3, kerr.SaslAuthenticationFailed.Code, "")
				c.wantClosed(t)
			}
			c.Close()
			synctest.Wait()
			if want := map[string]int{"wrong": 0, "secret": 1}[secret]; served != want {
				t.Errorf("behind a login with %q %d requests were served", secret, served)
			}
		}
		f.end(t)
	})
}

// Logins and handshakes that wait for a place do not hold up the end of the server, and are not
// told as failures.
func TestShutdownWhileLoginsWaitForAPlace(t *testing.T) {
	hello := wholeHello(t)
	synctest.Test(t, func(t *testing.T) {
		u, seen := &users{}, &recorder{}
		f, ln := behindLogin(t, u, echo, func(o *Options) { o.Observer = seen })
		pipe := f.securePipe(t)
		hold(t, f.places, share.Half())
		login, shake := ln.dial(), pipe.dial()
		login.send(t, choose(1, "WORD"))
		login.wantChoice(t, 1, 0)
		login.send(t, message(2, "hello"))
		shake.sendAsync(hello)
		synctest.Wait()
		if n := f.places.Waiting(); n != 2 {
			t.Fatalf("%d wait for a place", n)
		}
		began := time.Now()
		if err := f.Shutdown(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		login.wantClosed(t)
		shake.wantClosed(t)
		if n := f.places.Waiting(); n != 0 {
			t.Errorf("%d wait for a place", n)
		}
		login.Close()
		shake.Close()
		f.end(t)
		for _, what := range seen.told {
			if strings.Contains(what, "login") || strings.Contains(what, "handshake") {
				t.Errorf("told %q", what)
			}
		}
	})
}

// A login computes at a handshake place: the others wait, and no place is lost.
func TestLoginsWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &users{gate: make(chan struct{})}
		f, ln := behindLogin(t, u, echo, nil)
		places, n := share.Half(), share.Half()+3
		var clients []*client
		for i := range n {
			c := ln.dial()
			c.send(t, choose(1, "WORD"))
			c.wantChoice(t, 1, 0)
			c.send(t, message(2, "hello"))
			clients = append(clients, c)
			synctest.Wait()
			if got := f.places.Waiting(); got != max(0, i+1-places) {
				t.Errorf("%d of %d logins wait", got, i+1)
			}
		}
		close(u.gate)
		for _, c := range clients {
			c.wantMessage(t, 2, 0, "go on")
			c.Close()
		}
		synctest.Wait()
		f.end(t)
		if held := f.places.Held(); held != 0 {
			t.Errorf("%d of %d places are held", held, places)
		}
	})
}
