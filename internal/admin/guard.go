package admin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
)

// maxCostly is how many requests of guard.control run at a time: a profile costs memory and
// processor time while it is taken.
const maxCostly = 2

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
	hosts map[string]bool // lower case
	slots chan struct{}   // a token for each request of control that runs
	// refused, if set, may answer a refused request itself, for a browser for example; it reports
	// whether it did.
	refused func(w http.ResponseWriter, r *http.Request, status int, why string) bool
}

func newGuard(a Access) *guard {
	g := &guard{Access: a, hosts: map[string]bool{"localhost": true}, slots: make(chan struct{}, maxCostly)}
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

// own lets a request of the broker's own machine pass, for what is not everyone's business.
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

// control is own for what may change or cost something: few of these run at a time.
func (g *guard) control(h http.Handler) http.Handler {
	return g.own(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case g.slots <- struct{}{}:
			defer func() { <-g.slots }()
			h.ServeHTTP(w, r)
		default:
			g.refuse(w, r, http.StatusTooManyRequests, "other requests take profiles, measure disks or read records now; retry when they have finished")
		}
	}))
}

// local reports whether a request comes from this machine, and from itself: not through a
// proxy that says for whom it asks.
func local(r *http.Request) bool {
	if r.Header.Get("Forwarded") != "" || r.Header.Get("X-Forwarded-For") != "" {
		return false
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
