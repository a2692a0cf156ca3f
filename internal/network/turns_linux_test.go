package network

import (
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// A client waits for the memory of its answer behind one answer of each other address, however many
// clients of these wait.
func TestReservedAnswersTakeTurnsByAddress(t *testing.T) {
	const bound, many = 1 << 20, 20
	free := make(chan struct{})
	var mu sync.Mutex
	var order []string
	f := start(t, func(r *Request) {
		r.ReserveAnswer(bound, AtOnce)
		mu.Lock()
		order = append(order, r.Session.Host)
		mu.Unlock()
		<-free
		r.Respond(body(nil))
	}, func(o *Options) { o.AnswerBytes = bound })
	defer f.end(t)
	addr := f.tcp(t)
	var clients []*client
	defer func() {
		for i, c := range slices.Backward(clients) {
			c.want(t, int32(i))
			c.Close()
		}
	}()
	for i, ip := range append(slices.Repeat([]string{"127.0.0.1"}, many), "127.0.0.2") {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		nc, err := from.DialContext(t.Context(), "tcp", addr)
		must(t, err)
		c := &client{nc}
		clients = append(clients, c)
		c.sendAsync(frame(keyMetadata, 3, int32(i), nil))
		// The first has the memory, the second the turn.
		await(t, "it waits", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(order) == 1 && f.outgoing.turns[0].Waiting()+f.outgoing.turns[0].Held() == i
		})
	}
	close(free)
	await(t, "all are answered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(order) == many+1
	})
	if at := slices.Index(order, "127.0.0.2"); at > 3 {
		t.Errorf("the second address got memory after %d answers of the first one", at)
	}
}

// Clients that close their connections wait for the memory of their answers no longer, whether they
// have the turn or wait for it.
func TestClientsThatAreGoneWaitForNoMemory(t *testing.T) {
	const bound = 1 << 20
	free := make(chan struct{})
	var built, gone atomic.Int32
	f := start(t, func(r *Request) {
		if !r.MayBlock() {
			r.HandOver()
			return
		}
		if !r.ReserveAnswer(bound, AtOnce) {
			gone.Add(1)
			r.Abort(io.EOF)
			return
		}
		built.Add(1)
		<-free
		r.Respond(body(nil))
	}, func(o *Options) { o.AnswerBytes = bound })
	defer f.end(t)
	answer := sync.OnceFunc(func() { close(free) })
	defer answer()
	addr := f.tcp(t)
	var clients []*client
	for i := range 3 {
		nc, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		must(t, err)
		t.Cleanup(func() { _ = nc.Close() })
		c := &client{nc}
		clients = append(clients, c)
		c.sendAsync(frame(keyMetadata, 3, int32(i), nil))
		await(t, "it waits", func() bool {
			return built.Load() == 1 && f.outgoing.turns[0].Waiting()+f.outgoing.turns[0].Held() == i
		})
	}
	for i, c := range clients[1:] {
		must(t, c.Close())
		await(t, "it is noticed", func() bool { return gone.Load() == int32(i+1) })
	}
	answer()
	clients[0].want(t, 0)
	if got := built.Load(); got != 1 {
		t.Errorf("%d answers were built", got)
	}
}
