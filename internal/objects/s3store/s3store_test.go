package s3store

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/objecttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func keys() (Keys, error) { return Keys{ID: "id", Secret: secret.Of("secret")}, nil }

// server starts a server, and returns a store in its bucket.
func server(t *testing.T, h http.Handler) *Store {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	s, err := Open(Options{Endpoint: srv.URL, Bucket: "bucket", Prefix: "a/prefix/", Keys: keys})
	must.OK(t, err)
	t.Cleanup(s.Close)
	return s
}

// fake returns the handler of a server that has a bucket.
func fake(t *testing.T) http.Handler {
	t.Helper()
	back := s3mem.New()
	must.OK(t, back.CreateBucket("bucket"))
	return gofakes3.New(back).Server()
}

func TestContract(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) objects.Store { return server(t, fake(t)) })
}

func TestOptionsAreChecked(t *testing.T) {
	for _, endpoint := range []string{"", "host:9000", "s3://x", "http://", "http://host/path", "http://id:secret@host", "http://a b"} {
		if _, err := Open(Options{Endpoint: endpoint, Bucket: "b", Keys: keys}); err == nil {
			t.Errorf("endpoint %q was accepted", endpoint)
		}
	}
	if _, err := Open(Options{Endpoint: "http://h", Bucket: "b", Prefix: "x", Keys: keys}); !errors.Is(err, objects.ErrRefused) {
		t.Errorf("a prefix without a slash: %v", err)
	}
}

// Objects below the prefix of another store, and those of other programs, are not listed.
func TestOnlyOwnObjectsAreListed(t *testing.T) {
	h := fake(t)
	s := server(t, h)
	objecttest.Put(t, s, "x", []byte("x"))
	other := *s
	for _, prefix := range []string{"a/prefix2/", "a/", "", "a/prefix/UPPER/"} {
		other.prefix = prefix
		objecttest.Put(t, &other, "y", []byte("x"))
	}
	if got := objecttest.List(t, s, ""); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

var attempts = objects.Attempts{Attempt: 10 * time.Second, Rate: 1 << 20, Total: time.Minute}

// put puts an object of 5000 bytes with repeated attempts.
func put(s objects.Store) error {
	return objects.Repeat(s, attempts).Put(context.Background(), "x", bytes.NewReader(objecttest.Bytes(5000, 1)))
}

// The store finds bytes that were damaged on their way, and the next attempt repairs it.
func TestDamageOnTheWayToTheStoreIsRepaired(t *testing.T) {
	h, puts := fake(t), 0
	s := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			b, err := io.ReadAll(r.Body)
			if puts++; puts < 3 {
				b[len(b)/2] ^= 1
			}
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(b))
		}
		h.ServeHTTP(w, r)
	}))
	if err := put(s); err != nil || puts != 3 {
		t.Errorf("%d uploads: %v", puts, err)
	}
	if got := objecttest.Get(t, s, "x"); !bytes.Equal(got, objecttest.Bytes(5000, 1)) {
		t.Errorf("%d bytes were stored", len(got))
	}
}

// Every answer has the effect of its meaning: repeated, or final with the kind of the error.
func TestAnswersHaveTheirKind(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   error // nil: the call is repeated
	}{
		{503, "SlowDown", nil}, {500, "InternalError", nil}, {502, "", nil}, {429, "", nil}, {400, "RequestTimeout", nil},
		{400, "BadDigest", nil}, {400, "IncompleteBody", nil}, {409, "OperationAborted", nil}, {408, "", nil},
		{403, "AccessDenied", objects.ErrRefused}, {403, "RequestTimeTooSkewed", objects.ErrRefused},
		{403, "SignatureDoesNotMatch", objects.ErrRefused}, {400, "ExpiredToken", objects.ErrRefused},
		{404, "NoSuchBucket", objects.ErrRefused}, {404, "", objects.ErrRefused}, {301, "PermanentRedirect", objects.ErrRefused},
		{501, "NotImplemented", nil}, {400, "InvalidArgument", objects.ErrRefused},
		{507, "XMinioStorageFull", objects.ErrFull}, {403, "QuotaExceeded", objects.ErrFull}, {507, "", objects.ErrFull},
	} {
		h, fails := fake(t), true
		s := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !fails {
				h.ServeHTTP(w, r)
				return
			}
			fails = false
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(c.status)
			if c.code != "" {
				_, _ = io.WriteString(w, "<Error><Code>"+c.code+"</Code><Message>no</Message></Error>")
			}
		}))
		if err := put(s); c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) || errors.Is(err, objects.ErrNotFound) {
			t.Errorf("%d %s: %v, want %v", c.status, c.code, err, c.want)
		}
	}
}

// A proxy answers 404 with a page of its own while the store behind it is away. That says nothing
// about the object, and the call is repeated; the store's own 404 is final.
func TestA404OfAProxyIsNoMissingObject(t *testing.T) {
	h := fake(t)
	for _, page := range []string{"", "<html>not found</html>", "default backend - 404"} {
		away := 1
		s := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && away > 0 {
				away--
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, page)
				return
			}
			h.ServeHTTP(w, r)
		}))
		objecttest.Put(t, s, "x", []byte("x"))
		_, err := s.Get(t.Context(), "x", 0, make([]byte, 1))
		if err == nil || errors.Is(err, objects.ErrNotFound) || errors.Is(err, objects.ErrRefused) {
			t.Errorf("page %q: %v", page, err)
		}
		if _, err := s.Get(t.Context(), "y", 0, make([]byte, 1)); !errors.Is(err, objects.ErrNotFound) {
			t.Errorf("a missing object: %v", err)
		}
	}
}

// A store may find out that a copy fails when it has sent status 200. The call is repeated.
func TestACopyThatFailsWithStatus200IsRepeated(t *testing.T) {
	h, copies := fake(t), 0
	s := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Copy-Source") != "" {
			if copies++; copies < 3 {
				_, _ = io.WriteString(w, "\n<Error><Code>InternalError</Code><Message>no</Message></Error>")
				return
			}
		}
		h.ServeHTTP(w, r)
	}))
	objecttest.Put(t, s, "x", []byte("x"))
	if err := objects.Repeat(s, attempts).Copy(context.Background(), objects.Info{Name: "x", Size: 1}, "y"); err != nil || copies != 3 {
		t.Errorf("%d calls: %v", copies, err)
	}
	if got := objecttest.Get(t, s, "y"); string(got) != "x" {
		t.Errorf("the copy is %q", got)
	}
}

// A store that ignores ranges, returns another one, or ends early does not make a wrong read.
func TestARangeThatIsNotReturnedIsAnError(t *testing.T) {
	h := fake(t)
	content := objecttest.Bytes(1000, 2)
	objecttest.Put(t, server(t, h), "x", content)
	for what, answer := range map[string]func(http.ResponseWriter){
		"the whole object": func(w http.ResponseWriter) {
			_, _ = w.Write(content)
		},
		"the range before": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 0-99/1000")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[:100])
		},
		"half of the range": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 500-599/1000")
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[500:550])
		},
		"nonsense": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 500-599/*")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[500:600])
		},
	} {
		s := server(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
			answer(w)
		}))
		n, err := s.Get(context.Background(), "x", 500, make([]byte, 100))
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, objects.ErrNotFound) || errors.Is(err, objects.ErrRefused) {
			t.Errorf("%s: read %d bytes, %v", what, n, err)
		}
	}
}

// Calls end with their context while the server does not answer.
func TestAHangingServerEndsWithTheContext(t *testing.T) {
	why := errors.New("stopped")
	var cancelNow atomic.Pointer[context.CancelCauseFunc]
	s := server(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		(*cancelNow.Load())(why)
		<-r.Context().Done() // the client has closed the connection
	}))
	for call, do := range map[string]func(context.Context) error{
		"put":    func(ctx context.Context) error { return s.Put(ctx, "y", bytes.NewReader([]byte("y"))) },
		"get":    func(ctx context.Context) error { _, err := s.Get(ctx, "x", 0, make([]byte, 1)); return err },
		"copy":   func(ctx context.Context) error { return s.Copy(ctx, objects.Info{Name: "x"}, "z") },
		"delete": func(ctx context.Context) error { return s.Delete(ctx, "x") },
		"list":   func(ctx context.Context) error { return s.List(ctx, "", func(objects.Info) error { return nil }) },
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancelNow.Store(&cancel)
		if err := do(ctx); !errors.Is(err, why) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Keys that change have effect at the next request.
func TestKeysAreReadForEachRequest(t *testing.T) {
	h := fake(t)
	var seen []string
	s := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		id, _, _ := strings.Cut(rest, "/")
		seen = append(seen, id+" "+r.Header.Get("X-Amz-Security-Token"))
		h.ServeHTTP(w, r)
	}))
	current := "one"
	other, err := Open(Options{Endpoint: "http://" + s.client.EndpointURL().Host, Bucket: "bucket", Keys: func() (Keys, error) {
		if current == "" {
			return Keys{}, errors.New("no keys")
		}
		return Keys{ID: current, Secret: secret.Of("s"), Session: secret.Of("token-" + current)}, nil
	}})
	must.OK(t, err)
	defer other.Close()
	objecttest.Put(t, other, "x", []byte("x"))
	current = "two"
	objecttest.Put(t, other, "x", []byte("x"))
	if got := strings.Join(seen, ", "); got != "one token-one, two token-two" {
		t.Errorf("requests with %s", got)
	}
	current = ""
	if err := other.Put(context.Background(), "x", bytes.NewReader([]byte("x"))); err == nil || len(seen) != 2 {
		t.Errorf("without keys: %v, %d requests", err, len(seen))
	}
}

// Over TLS, the store's certificate is verified, and the bytes of uploads are, too.
func TestStoresWithTLS(t *testing.T) {
	h := fake(t)
	srv := httptest.NewTLSServer(h)
	t.Cleanup(srv.Close)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it reports the client that does not know its certificate
	for what, known := range map[string]bool{"known": true, "unknown": false} {
		cfg := &tls.Config{RootCAs: x509.NewCertPool()}
		if known {
			cfg.RootCAs.AddCert(srv.Certificate())
		}
		s, err := Open(Options{Endpoint: srv.URL, Bucket: "bucket", Keys: keys, TLS: cfg})
		must.OK(t, err)
		t.Cleanup(s.Close)
		err = s.Put(context.Background(), "x", bytes.NewReader(objecttest.Bytes(5000, 1)))
		if known != (err == nil) || !known && !errors.As(err, new(x509.UnknownAuthorityError)) {
			t.Errorf("a certificate that is %s: %v", what, err)
		}
		if known {
			if got := objecttest.Get(t, s, "x"); !bytes.Equal(got, objecttest.Bytes(5000, 1)) {
				t.Errorf("%d bytes were stored", len(got))
			}
		}
	}
}

// The whole contract, over TLS, where the client signs uploads in another way.
func TestContractWithTLS(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) objects.Store {
		srv := httptest.NewTLSServer(fake(t))
		t.Cleanup(srv.Close)
		cfg := &tls.Config{RootCAs: x509.NewCertPool()}
		cfg.RootCAs.AddCert(srv.Certificate())
		s, err := Open(Options{Endpoint: srv.URL, Bucket: "bucket", Keys: keys, TLS: cfg})
		must.OK(t, err)
		t.Cleanup(s.Close)
		return s
	})
}

// A connection that the server closes without an answer is not the end of an object, and the call
// is repeated.
func TestAConnectionThatEndsIsNoEndOfAnObject(t *testing.T) {
	h := fake(t)
	var closes atomic.Int32
	s := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if closes.Add(-1) >= 0 {
			_, _ = io.Copy(io.Discard, r.Body)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
			return
		}
		h.ServeHTTP(w, r)
	}))
	objecttest.Put(t, s, "x", []byte("abc"))
	ctx := context.Background()
	for call, do := range map[string]func(objects.Store) error{
		"put":    func(s objects.Store) error { return s.Put(ctx, "y", bytes.NewReader([]byte("y"))) },
		"get":    func(s objects.Store) error { _, err := s.Get(ctx, "x", 0, make([]byte, 3)); return err },
		"copy":   func(s objects.Store) error { return s.Copy(ctx, objects.Info{Name: "x"}, "z") },
		"delete": func(s objects.Store) error { return s.Delete(ctx, "none") },
		"list":   func(s objects.Store) error { return s.List(ctx, "", func(objects.Info) error { return nil }) },
	} {
		closes.Store(10) // the HTTP client repeats some calls, too
		if err := do(s); err == nil || errors.Is(err, io.EOF) || errors.Is(err, objects.ErrNotFound) || errors.Is(err, objects.ErrRefused) {
			t.Errorf("%s: %v", call, err)
		}
		closes.Store(3)
		if err := do(objects.Repeat(s, attempts)); err != nil {
			t.Errorf("%s, repeated: %v", call, err)
		}
		closes.Store(0)
	}
}

// A store that answers before it has read the object, as one that redirects does, ends the call
// while the transport still reads the object.
func TestAnAnswerBeforeTheObjectIsRead(t *testing.T) {
	object := objecttest.Bytes(4<<20, 1)
	for _, answer := range []int{301, 302, 303, 307, 403, 507} {
		s := server(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(answer)
		}))
		for range 4 {
			if err := s.Put(t.Context(), "x", bytes.NewReader(object)); err == nil || errors.Is(err, objects.ErrNotFound) {
				t.Errorf("%d: %v", answer, err)
			}
		}
	}
}

// waiting is a body that ends a context with its first read, and has less than it says.
type waiting struct {
	*bytes.Reader
	end   func()
	reads int
}

func (w *waiting) ReadAt(p []byte, off int64) (int, error) {
	w.reads++
	w.end()
	return w.Reader.ReadAt(p, off)
}

func (w *waiting) Size() int64 { return w.Reader.Size() + 100 }

// The checksums of an object end with the context, and with a body that is too short.
func TestTheChecksumsOfAnObjectEnd(t *testing.T) {
	s := server(t, fake(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	w := &waiting{bytes.NewReader(objecttest.Bytes(4<<20, 1)), func() { cancel(stop) }, 0}
	if err := s.Put(ctx, "x", w); !errors.Is(err, stop) || w.reads != 1 {
		t.Errorf("%d reads: %v", w.reads, err)
	}
	w = &waiting{bytes.NewReader(objecttest.Bytes(5000, 1)), func() {}, 0}
	if err := s.Put(t.Context(), "x", w); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}
