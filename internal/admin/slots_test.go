package admin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/audit"
)

// from sends a request of an address.
func from(h http.Handler, host, path, authorization string) int {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.Host, r.RemoteAddr = "localhost", host+":5"
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// One address whose requests hang keeps no other address from the port, whatever their kind.
func TestAnAddressKeepsNoOtherFromThePort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, free := newGuard(Access{Remote: true}, 0), make(chan struct{})
		hangs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.RemoteAddr, "10.0.0.1:") {
				<-free
			}
		})
		var all sync.WaitGroup
		for name, h := range map[string]http.Handler{"read": g.reading(hangs), "profile": g.control(g.profiles, hangs),
			"list": g.bounded(newSlots(maxLists), answerTime, hangs), "scrape": g.bounded(newSlots(maxScrapes), scrapeTime, hangs)} {
			for range 3 * maxReads {
				all.Go(func() { from(h, "10.0.0.1", "/", "") })
			}
			synctest.Wait()
			for i := range 5 {
				if code := from(h, fmt.Sprintf("10.0.0.%d", 2+i), "/", ""); code != http.StatusOK {
					t.Errorf("%s: another address gets %d", name, code)
				}
			}
		}
		close(free)
		all.Wait()
		if g.reads.Stats().Used+g.profiles.Stats().Used != 0 {
			t.Error("slots are not returned")
		}
	})
}

// lines is a sink that keeps its lines.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return nil
}
func (*lines) Flush() error { return nil }
func (*lines) Close() error { return nil }

// Wrong tokens and refused requests are in the audit log: where they came from, and for what. A
// flood of them writes a line for each address and cause.
func TestRefusedRequestsAreAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sink lines
		log := audit.Open(audit.Options{Mode: audit.Refusals, Sink: audit.Same(&sink)})
		o, _ := options()
		sum := sha256.Sum256([]byte(token))
		o.Access, o.Audit = Access{Token: &sum}, func() *audit.Log { return log }
		h := Handler(o)
		for i := range 1000 {
			if code := from(h, "10.0.0.7", fmt.Sprintf("/v1/logs?after=%d", i), "Bearer x"); code != http.StatusUnauthorized {
				t.Fatalf("a wrong token: %d", code)
			}
			from(h, "10.0.0.8", fmt.Sprintf("/%d%s", i, strings.Repeat("x", 30_000)), "")
		}
		from(h, "10.0.0.8", "/metrics", "Bearer "+token)
		if err := log.Close(context.Background()); err != nil {
			t.Error(err)
		}
		bytes := 0
		for _, line := range sink.all {
			bytes += len(line)
		}
		text := strings.Join(sink.all, "")
		if len(sink.all) != 4 || bytes > 4<<10 || strings.Count(text, `"n":999`) != 2 {
			t.Errorf("%d lines of %d bytes:\n%s", len(sink.all), bytes, text)
		}
		for _, want := range []string{`"ev":"login_failed"`, `"from":"10.0.0.7:5","listener":"admin","mech":"TOKEN"`,
			`"why":"GET /v1/logs: wrong token"`, `"ev":"refused"`, `"res":"AdminPort"`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
	})
}
