package admin

import (
	"bytes"
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
)

// Bounds of what runs at a time. A request that hangs with a disk or a lock keeps its slot; each kind
// has slots of its own, so that there is a goroutine dump to be had then.
const (
	maxCostly  = 2                // profiles, and reads of disks: they cost memory and processor time
	maxReads   = 16               // other requests that take part in no commit, but take its locks
	turnTime   = 2 * time.Second  // for which one of these waits for a slot
	answerTime = 10 * time.Second // for its answer
	maxUnread  = 64 << 20         // bytes of answers that clients have not read
)

// Access says who may ask for what.
type Access struct {
	// Addresses are HOST:PORT of listeners, as bound and as advertised, and Names are further host
	// names under which the port may be asked, in addition to localhost and the machine's own.
	Addresses, Names []string
	// Remote lets other machines do what may change or cost something.
	Remote bool
	// NamesSetting and RemoteSetting are the settings that an error names as the remedy.
	NamesSetting, RemoteSetting string
}

// guard keeps requests away that have no business on a port without authentication, from a browser
// on the operator's machine or from another machine:
//
//	open     /metrics, /healthz, /readyz   everyone who reaches the port
//	named    /v1/…, /, GET /loglevel       under a name that is this broker's, so that no web page
//	                                       reads them through a name of its own (DNS rebinding)
//	control  profiles and what changes     named, from this machine or with Access.Remote, and
//	         something                     never from a page of another site
type guard struct {
	Access
	hosts                  map[string]bool // lower case
	profiles, disks, reads slots
	unread                 atomic.Int64 // bytes
	// refused, if set, may answer a refused request itself, for a browser for example; it reports
	// whether it did.
	refused func(w http.ResponseWriter, r *http.Request, status int, why string) bool
}

// slots has a token for each request of a kind that runs.
type slots chan struct{}

func newGuard(a Access) *guard {
	g := &guard{Access: a, hosts: map[string]bool{"localhost": true}, profiles: make(slots, maxCostly), disks: make(slots, maxCostly), reads: make(slots, maxReads)}
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

// known reports whether a request's Host is an address or a name of this broker.
func (g *guard) known(r *http.Request) bool {
	host := hostOf(r.Host)
	_, err := netip.ParseAddr(host)
	return err == nil || g.hosts[strings.ToLower(strings.TrimSuffix(host, "."))]
}

// hostOf is a host without its port and without the brackets of an IPv6 address.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

// named lets a request pass whose Host is this broker's.
func (g *guard) named(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.known(r) {
			g.forbid(w, r, "the admin port does not know the host name "+hostOf(r.Host)+"; use an address, or add the name to "+g.NamesSetting)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// own lets a request of the broker's own machine pass, for what is not everyone's business or
// changes something.
func (g *guard) own(h http.Handler) http.Handler {
	return g.named(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case foreignPage(r):
			g.forbid(w, r, "a page of another site may not do this")
		case !g.Remote && !local(r):
			g.forbid(w, r, "only the broker's own machine may do this; ask there, or set "+g.RemoteSetting+" to true where everyone who reaches the admin port may")
		default:
			h.ServeHTTP(w, r)
		}
	}))
}

// control is own for what costs something: few of these run at a time.
func (g *guard) control(of slots, h http.Handler) http.Handler {
	return g.own(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case of <- struct{}{}:
			defer func() { <-of }()
			h.ServeHTTP(w, r)
		default:
			g.refuse(w, r, http.StatusTooManyRequests, "other requests take profiles, measure disks or read records now; retry when they have finished")
		}
	}))
}

// reading is named for what reads the broker's state.
func (g *guard) reading(h http.Handler) http.Handler {
	return g.named(g.bounded(g.reads, answerTime, h))
}

// bounded has few requests of a kind run at a time, answers one that hangs without it, and keeps no
// more than maxUnread of answers that clients have not read.
func (g *guard) bounded(of slots, most time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn := time.NewTimer(turnTime)
		defer turn.Stop()
		select {
		case of <- struct{}{}:
		case <-r.Context().Done():
			return
		case <-turn.C:
			g.refuse(w, r, http.StatusTooManyRequests, fmt.Sprintf("%d other requests are being answered; retry when they have finished", cap(of)))
			return
		}
		late := time.NewTimer(most)
		defer late.Stop()
		a, done := &kept{header: http.Header{}, status: http.StatusOK}, make(chan any, 1)
		go func() {
			defer func() {
				<-of
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
			g.refuse(w, r, http.StatusServiceUnavailable, fmt.Sprintf("there is no answer after %v: a disk or a lock hangs; /readyz and /v1/health report what is known of it", most))
		}
	})
}

// send sends an answer that is complete, unless clients have left too much unread: a large one is sent
// alone then.
func (g *guard) send(w http.ResponseWriter, r *http.Request, a *kept) {
	n := int64(a.body.Len())
	unread := g.unread.Add(n)
	defer g.unread.Add(-n)
	if unread > maxUnread && unread > n {
		g.refuse(w, r, http.StatusServiceUnavailable, "other clients have not read their answers; retry when they have, or were cut off")
		return
	}
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // a client that went away needs no answer
}

// kept is an answer that is sent when it is complete.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *kept) Header() http.Header         { return k.header }
func (k *kept) WriteHeader(status int)      { k.status = status }
func (k *kept) Write(b []byte) (int, error) { return k.body.Write(b) }

// local reports whether a request comes from this machine, and from itself: not through a
// proxy that says that it is one.
func local(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if r.Header[name] != nil {
			return false
		}
	}
	ip, err := netip.ParseAddr(hostOf(r.RemoteAddr))
	return err == nil && ip.Unmap().IsLoopback()
}

// foreignPage reports whether a browser says that a page of another site asks.
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

// refuse answers with an error in the shape of docs/admin.md.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	if g.refused == nil || !g.refused(w, r, status, why) {
		answer(w, nil, &apiError{status, why})
	}
}
