package network

import (
	"encoding/binary"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

// named is frame with a client id.
func named(key, version int16, correlation int32, id string, body []byte) []byte {
	f := frame(key, version, correlation, nil)
	head := slices.Concat(f[:12], []byte{0, byte(len(id))}, []byte(id), f[14:], body)
	binary.BigEndian.PutUint32(head, uint32(len(head)-4))
	return head
}

func TestConnectionsShowWhoDidWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := start(t, func(r *Request) {
			switch r.CorrelationID {
			case 1:
				r.SetSoftware(Software{"kgo", "1"})
			case 2:
				r.Authenticated("User:alice")
			case 3:
				r.CountRecords(20)
				r.CountRecords(1)
			case 4:
				r.Throttle(time.Minute)
			case 5:
				go func() { <-release; r.Respond(body("late")) }()
				return
			}
			r.Respond(body("1234"))
		}, nil)
		defer f.end(t)
		if got := f.Connections(); len(got) != 0 {
			t.Errorf("without a client: %+v", got)
		}
		began := time.Now()
		quiet, c := f.pipe.dial(), f.pipe.dial()
		synctest.Wait()
		time.Sleep(time.Second) // of the test's own clock
		sent := 0
		send := func(frame []byte) { sent += len(frame) - 4; c.sendAsync(frame) }
		send(named(protocol.KeyApiVersions, 3, 1, "app", nil))
		c.want(t, 1)
		send(named(keyMetadata, 1, 2, "app-2", nil))
		c.want(t, 2)
		send(named(keyMetadata, 1, 3, "app-2", make([]byte, 100)))
		c.want(t, 3)
		send(named(keyMetadata, 1, 4, "app-2", nil))
		c.want(t, 4)
		synctest.Wait()
		list := f.Connections()
		if len(list) != 2 {
			t.Fatalf("%d connections", len(list))
		}
		if q := list[0]; q.Requests != 0 || q.ClientID != "" || q.Principal != Anonymous || !q.LastRequest.IsZero() || !q.Since.Equal(began) {
			t.Errorf("a client that has sent nothing: %+v", q)
		}
		want := Connection{ID: list[1].ID, Listener: "test", Peer: list[1].Peer, ClientID: "app-2", Software: Software{"kgo", "1"}, Principal: "User:alice",
			Since: began, LastRequest: began.Add(time.Second), Requests: 4, BytesIn: uint64(sent), BytesOut: list[1].BytesOut, RecordsIn: 21,
			MutedUntil: began.Add(time.Second + time.Minute)}
		if got := list[1]; !got.MutedUntil.Equal(want.MutedUntil) || !got.LastRequest.Equal(want.LastRequest) {
			t.Errorf("muted until %v, last request %v", got.MutedUntil, got.LastRequest)
		}
		list[1].MutedUntil, list[1].Since, list[1].LastRequest = want.MutedUntil, want.Since, want.LastRequest
		if list[1] != want || want.BytesOut < 4*4 {
			t.Errorf("%+v, want %+v", list[1], want)
		}
		send(named(keyMetadata, 1, 5, "app-2", nil))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		list = f.Connections()
		if i := slices.IndexFunc(list, func(c Connection) bool { return c.ClientID != "" }); list[i].Unanswered != 1 || list[i].Requests != 5 || !list[i].MutedUntil.IsZero() {
			t.Errorf("a request that waits: %+v", list[i])
		}
		close(release)
		c.want(t, 5)
		quiet.Close()
		c.Close()
		synctest.Wait()
		if got := f.Connections(); len(got) != 0 {
			t.Errorf("after all have closed: %+v", got)
		}
	})
}
