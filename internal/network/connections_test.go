package network

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/view"
)

// Connections reports each open connection with its traffic, and no closed one.
func TestConnectionsCountTraffic(t *testing.T) {
	parked := make(chan *Request, 1)
	f := start(t, func(r *Request) {
		if r.Key == keyMetadata {
			r.SetSoftware(Software{"apache-kafka-java", "4.0.0"})
			parked <- r
			return
		}
		r.CountRecords(3)
		echo(r)
	}, nil)
	defer f.end(t)
	addr := f.tcp(t)
	quiet := dial(t, addr)
	busy := dial(t, addr)
	want := view.Traffic{}
	for i := range int32(5) {
		p := named(frame(protocol.KeyProduce, 3, i, make([]byte, 100)))
		busy.send(t, p)
		want.BytesIn += int64(len(p))
		want.BytesOut += int64(4 + 4 + len(busy.want(t, i))) // with length and correlation id
		want.RecordsIn += 3
		want.Requests++
	}
	p := named(frame(keyMetadata, 3, 9, nil))
	busy.send(t, p)
	r := <-parked
	want.BytesIn += int64(len(p))
	want.Requests++

	all := f.Connections()
	if len(all) != 2 || all[0].ID >= all[1].ID {
		t.Fatalf("%+v", all)
	}
	idle, c := all[0], all[1]
	if idle.Traffic != (view.Traffic{}) || idle.InFlight != 0 || idle.LastRequest != nil || idle.ClientID != "" {
		t.Errorf("the idle connection is %+v", idle)
	}
	if c.Traffic != want {
		t.Errorf("got %+v, want %+v", c.Traffic, want)
	}
	if c.ClientID != "orders" || c.Software != "apache-kafka-java" || c.Principal != Anonymous || c.Listener != "test" {
		t.Errorf("it is %+v", c)
	}
	if at := busy.LocalAddr().String(); c.Address != at {
		t.Errorf("address %v, want %v", c.Address, at)
	}
	if c.InFlight != 1 || c.LastRequest.Before(c.Opened) || c.ThrottledMs != 0 {
		t.Errorf("it is %+v", c)
	}
	r.conn.mute(time.Now().Add(time.Hour))
	if all = f.Connections(); all[1].ThrottledMs == 0 {
		t.Error("a throttled connection is reported as one that is not")
	}
	r.conn.muteUntil.Store(0)
	echo(r)
	busy.want(t, 9)
	quiet.Close()
	busy.Close()
	for len(f.Connections()) > 0 {
		time.Sleep(time.Millisecond) // until the server has noticed
	}
}

// named gives a frame without a client id, of a version that is not flexible, the client id
// "orders".
func named(f []byte) []byte {
	const id = 4 + protocol.HeaderPrefix // the position of its length
	f = append(append(append([]byte{}, f[:id]...), "\x00\x06orders"...), f[id+2:]...)
	binary.BigEndian.PutUint32(f, uint32(len(f)-4))
	return f
}
