package network

import (
	"net"
	"slices"
	"sync"
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
		r.ReserveAnswer(bound, false)
		mu.Lock()
		order = append(order, r.Session.Host)
		mu.Unlock()
		<-free
		r.Respond(body(nil))
	}, func(o *Options) { o.AnswerBytes = bound })
	defer f.end(t)
	addr := f.tcp(t)
	for i, ip := range append(slices.Repeat([]string{"127.0.0.1"}, many), "127.0.0.2") {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		nc, err := from.DialContext(t.Context(), "tcp", addr)
		must(t, err)
		c := &client{nc}
		defer c.Close()
		c.sendAsync(frame(keyMetadata, 3, int32(i), nil))
		defer c.want(t, int32(i))
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
