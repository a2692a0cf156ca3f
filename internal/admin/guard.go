package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/security/origin"
)

// Limits of concurrent requests. A request that hangs with a disk or a lock keeps its slot; each
// kind has its own slots, so that a goroutine dump is still available then. One address has at most
// half of the slots that others leave (bufpool.Shares), so that it keeps no other from the port.
const (
	maxCostly  = 4                // profiles, and reads of disks: they cost memory and processor time
	maxLists   = 4                // lists of partitions or of connections: megabytes each
	maxReads   = 16               // other requests, which take locks that commits take too
	turnTime   = 2 * time.Second  // how long one of these waits for a slot
	answerTime = 10 * time.Second // how long its response may take
	// Responses that clients have not read hold at most maxUnread bytes, and a sixteenth of the
	// memory.
	maxUnread   = 64 << 20
	unreadShare = 16
)

// Access defines which requests are allowed.
type Access struct {
	// Addresses are the HOST:PORT of listeners, bound and advertised. Names are further host names
	// of the port, in addition to localhost and the machine's own.
	Addresses, Names []string
	// Remote allows other machines requests that change something or cost much.
	Remote bool
	// Private: a request from the broker's own machine must be identified, too. Clients of the
	// broker need rights, and not all users of its machine have them.
	Private bool
	// Token is the SHA-256 of the token that identifies a request; nil for none. Certificates
	// reports whether a client certificate still does, which the listener has verified; the
	// client's own is the first. If either is set, other machines without one get only health.
	Token        *[sha256.Size]byte
	Certificates func(shown []*x509.Certificate) bool
	// These are the settings that errors name as the cause or the remedy.
	NamesSetting, RemoteSetting, PrivateSetting, TokenSetting string
}

// guard rejects requests from a browser on the operator's machine or from another machine that must
// not use the port:
//
//	open     /healthz, /readyz             every client that reaches the port
//	read     everything else               who is identified: with Access.Private all, with
//	                                       Access.Token or Access.Certificates other machines
//	control  profiles and changes          who may read, from this machine, identified, or with
//	                                       Access.Remote, and never from a page of another site
//
// Every request needs a name of this broker (known), so that no web page reads the port through a
// name of its own (DNS rebinding). The door in front of all paths checks names and who may read.
type guard struct {
	Access
	hosts                  map[string]bool // lower case
	profiles, disks, reads slots
	most                   int64        // bytes of unread
	unread                 atomic.Int64 // bytes of responses that clients have not read
	// refused, if set, may respond to a refused request itself, for example to a browser; it
	// reports whether it did.
	refused func(w http.ResponseWriter, r *http.Request, status int, why string) bool
	audit   func() *audit.Log
}

// slots are the places of running requests of one kind.
type slots struct{ *bufpool.Shares[netip.Prefix] }

func newSlots(n int64) slots { return slots{bufpool.NewShares[netip.Prefix](n, 1)} }

// take takes a slot for a request, and waits for it until ctx ends.
func (s slots) take(ctx context.Context, r *http.Request) bool {
	_, err := s.Take(ctx, holder(r), 1, 1)
	return err == nil
}

// leave returns the slot of a request.
func (s slots) leave(r *http.Request) { s.Return(holder(r), 1) }

func holder(r *http.Request) bufpool.Holder[netip.Prefix] {
	return bufpool.Holder[netip.Prefix]{Origin: origin.OfPeer(r.RemoteAddr)}
}

// newGuard returns the guard of a broker with so many bytes of memory, 0 if that is not known.
func newGuard(a Access, memory int64) *guard {
	g := &guard{
		Access:   a,
		most:     maxUnread,
		hosts:    map[string]bool{"localhost": true},
		profiles: newSlots(maxCostly),
		disks:    newSlots(maxCostly),
		reads:    newSlots(maxReads),
		audit:    func() *audit.Log { return nil },
	}
	if memory > 0 {
		g.most = min(g.most, memory/unreadShare)
	}
	add := func(name string) {
		if name = strings.ToLower(strings.TrimSuffix(name, ".")); name != "" {
			g.hosts[name] = true
		}
	}
	for _, name := range a.Names {
		add(name)
	}
	for _, address := range a.Addresses {
		if host, _, err := net.SplitHostPort(address); err == nil {
			add(host)
		}
	}
	if name, err := os.Hostname(); err == nil {
		add(name)
		short, _, _ := strings.Cut(name, ".")
		add(short)
	}
	return g
}

// door allows requests under a name of the broker, from who may be here at all.
func (g *guard) door(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		switch {
		case !g.known(r) && !(health && r.Host == ""): // health checks of HTTP/1.0 have no Host, browsers always send one
			g.forbid(w, r, "the admin port does not know the host name "+hostOf(r.Host)+
				"; use one of its addresses, or add the name to "+g.NamesSetting)
		case health, g.mayRead(r):
			h.ServeHTTP(w, r)
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="chronik"`) // browsers send the token as a password
			who, how := "other machines need", "(Authorization: Bearer TOKEN, or as a password) or a client certificate"
			if g.Private {
				who = "clients have rights (" + g.PrivateSetting + "), so this request needs"
			}
			if !g.some() {
				how += "; the broker has neither: set " + g.TokenSetting
			}
			g.refuse(w, r, http.StatusUnauthorized, who+" the token of the admin port "+how)
		}
	})
}

// mayRead reports whether who sends a request may read: everybody, this machine, or who is
// identified.
func (g *guard) mayRead(r *http.Request) bool {
	return !g.Private && (!g.some() || local(r)) || g.identified(r)
}

// some reports whether there is something that identifies a request.
func (g *guard) some() bool { return g.Token != nil || g.Certificates != nil }

// known reports whether a request's Host is an address or a name of this broker.
func (g *guard) known(r *http.Request) bool {
	host := hostOf(r.Host)
	ip, err := netip.ParseAddr(host)
	if err == nil && ip.IsUnspecified() {
		// 0.0.0.0 leads to this machine, but browsers do not say there which site sends a request.
		return false
	}
	return err == nil || g.hosts[strings.ToLower(strings.TrimSuffix(host, "."))]
}

// hostOf returns a host without its port and without the brackets of an IPv6 address.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

// identified reports whether a request carries the token or a verified certificate.
func (g *guard) identified(r *http.Request) bool {
	_, by := g.identity(r)
	return by != ""
}

// How a request is identified, as the audit log shows it.
const (
	byToken       = "TOKEN"
	byCertificate = "CERTIFICATE"
)

// identity returns who sends a request, and by what it is identified, empty for nothing. The hash
// makes the comparison take the same time for every wrong token.
func (g *guard) identity(r *http.Request) (who, by string) {
	if g.Certificates != nil && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && g.Certificates(r.TLS.PeerCertificates) {
		return certs.DN(r.TLS.PeerCertificates[0]), byCertificate
	}
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		_, given, _ = r.BasicAuth()
	}
	sum := sha256.Sum256([]byte(given))
	if g.Token != nil && subtle.ConstantTimeCompare(sum[:], g.Token[:]) == 1 {
		return "", byToken
	}
	return "", ""
}

// client returns who sends a request, for the audit log.
func (g *guard) client(r *http.Request) audit.Client {
	c := audit.Client{Host: hostOf(r.RemoteAddr), From: r.RemoteAddr, Listener: "admin"}
	c.Who, c.Mechanism = g.identity(r)
	return c
}

// audited passes who sends a request to a handler that reads clients' data.
func (g *guard) audited(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(audit.With(r.Context(), g.client(r))))
	})
}

// recordRefusal records a request that may not be here, or not do what it asks for. What the client
// chooses is no cause of its own, so that it writes few lines.
func (g *guard) recordRefusal(r *http.Request, why string) {
	e := audit.Event{Kind: audit.Refused, Client: g.client(r), Operation: "ACCESS", Resource: "AdminPort"}
	if e.Mechanism == "" && r.Header.Get("Authorization") != "" {
		e.Kind, e.Mechanism, why = audit.LoginFailed, byToken, "wrong token"
	}
	e.Why = r.Method + " " + r.URL.Path[:min(len(r.URL.Path), maxShownPath)] + ": " + why
	g.audit().Record(e)
}

// maxShownPath bounds the bytes of a path in the audit log.
const maxShownPath = 100

// fromThisMachine allows requests from the broker's own machine, for data that is not public and
// for changes.
func (g *guard) fromThisMachine(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case foreignPage(r):
			g.forbid(w, r, "a page of another site may not do this")
		case !g.Remote && !local(r) && !g.identified(r):
			g.forbid(w, r, "only the broker's own machine may do this; send the request from there, or set "+g.RemoteSetting+
				" to true if every client that reaches the admin port may")
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// control is fromThisMachine for expensive requests: only a few run at a time.
func (g *guard) control(of slots, h http.Handler) http.Handler {
	return g.fromThisMachine(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := of.Try(holder(r), 1, 1); !ok {
			g.refuse(w, r, http.StatusTooManyRequests,
				"other requests are taking profiles, measuring disks or reading records; retry when they have finished")
			return
		}
		defer of.leave(r)
		h.ServeHTTP(w, r)
	}))
}

// reading bounds requests that read the broker's state.
func (g *guard) reading(h http.Handler) http.Handler {
	return g.bounded(g.reads, answerTime, h)
}

// bounded limits how many requests of a kind run at a time, responds in place of one that hangs,
// and bounds the responses that clients have not read.
func (g *guard) bounded(of slots, most time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn, cancel := context.WithTimeout(r.Context(), turnTime)
		ok := of.take(turn, r)
		cancel()
		if !ok {
			if r.Context().Err() == nil {
				g.refuse(w, r, http.StatusTooManyRequests, "too many other requests are running; retry when they have finished")
			}
			return
		}
		if g.unread.Load() > g.most { // the response would be for nothing
			of.leave(r)
			g.refuseUnread(w, r)
			return
		}
		late := time.NewTimer(most)
		defer late.Stop()
		a, done := &buffered{header: http.Header{}, status: http.StatusOK}, make(chan any, 1)
		go func() {
			defer func() {
				of.leave(r)
				done <- recover()
			}()
			h.ServeHTTP(a, r)
		}()
		select {
		case panicked := <-done:
			if panicked != nil {
				panic(panicked) // for the server, which logs it
			}
			g.send(w, r, a)
		case <-late.C:
			g.refuse(w, r, http.StatusServiceUnavailable,
				fmt.Sprintf("no response after %v: a disk or a lock hangs; see /readyz and /v1/health", most))
		}
	})
}

// send sends a complete response, unless clients have left too many bytes unread: then a large
// response is sent only if it is the only one.
func (g *guard) send(w http.ResponseWriter, r *http.Request, a *buffered) {
	n := a.size
	unread := g.unread.Add(n)
	defer g.unread.Add(-n)
	if unread > g.most && unread > n {
		g.refuseUnread(w, r)
		return
	}
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	for _, part := range a.parts {
		if _, err := w.Write(part); err != nil {
			return // a client that has gone needs no response
		}
	}
}

func (g *guard) refuseUnread(w http.ResponseWriter, r *http.Request) {
	g.refuse(w, r, http.StatusServiceUnavailable,
		"other clients have not read their responses; retry when they have read them or were disconnected")
}

// buffered is a response that is sent when it is complete. It takes its size, and up to a part: one
// buffer that grows would leave several times that as garbage.
type buffered struct {
	header http.Header
	status int
	parts  [][]byte
	size   int64 // of the parts, with what is free in the last one
}

// Sizes of the first part of a response and of the largest ones.
const (
	firstPart = 512
	mostPart  = 64 << 10
)

func (k *buffered) Header() http.Header    { return k.header }
func (k *buffered) WriteHeader(status int) { k.status = status }

func (k *buffered) Write(b []byte) (int, error) {
	n := len(b)
	if last := len(k.parts) - 1; last >= 0 {
		p := k.parts[last]
		fits := min(len(b), cap(p)-len(p))
		k.parts[last], b = append(p, b[:fits]...), b[fits:]
	}
	if len(b) > 0 {
		p := make([]byte, 0, max(len(b), int(min(max(k.size, firstPart), mostPart))))
		k.parts, k.size = append(k.parts, append(p, b...)), k.size+int64(cap(p))
	}
	return n, nil
}

// local reports whether a request comes from this machine, over loopback, and not through a proxy
// that identifies itself as one.
func local(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if r.Header[name] != nil {
			return false
		}
	}
	ip, err := netip.ParseAddr(hostOf(r.RemoteAddr))
	return err == nil && ip.Unmap().IsLoopback()
}

// foreignPage reports whether a browser states that a page of another site sends the request.
func foreignPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}

func (g *guard) forbid(w http.ResponseWriter, r *http.Request, why string) {
	g.refuse(w, r, http.StatusForbidden, why)
}

// refuse responds with an error in the form of docs/admin.md.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		g.recordRefusal(r, why)
	}
	if g.refused == nil || !g.refused(w, r, status, why) {
		answer(w, nil, &apiError{status, why})
	}
}
