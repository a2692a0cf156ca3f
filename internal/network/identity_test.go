package network

import (
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/protocol"
)

// shown is what a request reports about its connection.
type shown struct {
	connection uint64
	principal  string
	auth       Authentication
	key        int16
}

// authenticating returns a server whose listener requires clients to authenticate, which a Metadata
// request does here.
func authenticating(t *testing.T, seen chan<- shown) (*fixture, string) {
	t.Helper()
	f := start(t, func(r *Request) {
		seen <- shown{r.Connection, r.Principal, r.Authentication, r.Key}
		if r.Key == keyMetadata && r.Authentication == AuthPending {
			r.Authenticated("User:alice")
		}
		echo(r)
	}, func(o *Options) { o.MaxFrameUnauthenticated = 100_000 })
	ln := listen(t)
	if err := f.Serve(&Listener{Name: "secure", Authenticate: true}, ln); err != nil {
		t.Fatal(err)
	}
	return f, ln.Addr().String()
}

func TestAClientThatHasToAuthenticateSendsSmallFramesFirst(t *testing.T) {
	seen := make(chan shown, 10)
	f, secure := authenticating(t, seen)
	defer f.end(t)
	c := dial(t, secure)
	defer c.Close()
	c.send(t, frame(keyMetadata, 3, 1, make([]byte, 100_001)))
	c.wantClosed(t)
	for _, addr := range []string{secure, f.tcp(t)} {
		c := dial(t, addr)
		t.Cleanup(func() { c.Close() })
		frames := [][]byte{frame(keyMetadata, 3, 1, nil), frame(protocol.KeyProduce, 3, 2, make([]byte, 1<<20))}
		if addr != secure {
			frames = frames[1:]
		}
		c.sendAsync(slices.Concat(frames...)) // the large one does not wait for the first answer
		if addr == secure {
			c.want(t, 1)
			<-seen
		}
		c.want(t, 2)
		<-seen
	}
}

func TestARequestSaysWhoseItIs(t *testing.T) {
	seen := make(chan shown, 10)
	f, secure := authenticating(t, seen)
	defer f.end(t)
	ids := map[uint64]bool{}
	for range 2 {
		c := dial(t, secure)
		t.Cleanup(func() { c.Close() })
		var id uint64
		for i, want := range []shown{
			{0, Anonymous, AuthPending, protocol.KeyProduce},
			{0, Anonymous, AuthPending, keyMetadata},
			{0, "User:alice", AuthDone, protocol.KeyProduce},
			{0, "User:alice", AuthDone, protocol.KeyProduce},
		} {
			c.send(t, frame(want.key, 3, int32(i), nil))
			c.want(t, int32(i))
			got := <-seen
			if id == 0 {
				id = got.connection
			}
			if want.connection = id; got != want || id == 0 {
				t.Errorf("request %d: %+v, want %+v", i, got, want)
			}
		}
		ids[id] = true
	}
	open := f.pipe.dial()
	defer open.Close()
	open.send(t, frame(protocol.KeyProduce, 3, 1, nil))
	open.want(t, 1)
	if got := <-seen; got.principal != Anonymous || got.auth != AuthNotRequired || ids[got.connection] || len(ids) != 2 {
		t.Errorf("%+v, after %v", got, ids)
	}
}

// This holds however large MaxFrame is.
func TestRequestSizeIsBoundedByItsMemory(t *testing.T) {
	f := start(t, func(r *Request) { r.Respond(body(nil)) }, func(o *Options) { o.ProduceBytes, o.OtherBytes = 1000, 3<<20 })
	defer f.end(t)
	addr := f.tcp(t)
	for _, r := range []struct {
		key  int16
		size int
		in   bool
	}{
		{protocol.KeyProduce, minProduce, true}, {protocol.KeyProduce, minProduce + 1, false},
		{keyMetadata, 6 << 20, true}, {keyMetadata, 6<<20 + 1, false},
	} {
		c := dial(t, addr)
		t.Cleanup(func() { c.Close() })
		c.sendAsync(frame(r.key, 3, 1, make([]byte, r.size-minFrame)))
		if r.in {
			c.want(t, 1)
		} else {
			c.wantClosed(t)
		}
	}
}
