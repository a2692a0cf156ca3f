package group

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

// A change whose answer is lost is not sent again: it could end a later delivery.
func TestChangesAreSentOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	var all sync.WaitGroup
	changes := make(chan struct{}, 100)
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serveOnce(c, changes) })
		}
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.Addr().String()))
	must.OK(t, err)
	var change view.ShareChange
	x := at{group: "g", topic: "t"}
	must.OK(t, apply(t.Context(), cl, x, "release", view.ShareAsk{Topic: "t"}, &change))
	err = apply(t.Context(), cl, x, "release", view.ShareAsk{Topic: "t"}, &change)
	if err == nil || !strings.Contains(err.Error(), "it is not known whether the change was made") || len(changes) != 2 {
		t.Errorf("%d requests, %v", len(changes), err)
	}
	cl.Close()
	must.OK(t, l.Close())
	all.Wait()
}

// serveOnce answers the first of all changes, and ends the connection at further ones.
func serveOnce(c net.Conn, changes chan struct{}) {
	defer c.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		p := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, p); err != nil {
			return
		}
		key, version := int16(binary.BigEndian.Uint16(p)), int16(binary.BigEndian.Uint16(p[2:]))
		out := append([]byte{0, 0, 0, 0}, p[4:8]...)
		switch kmsg.Key(key) {
		case kmsg.ApiVersions:
			resp := kmsg.NewPtrApiVersionsResponse()
			resp.SetVersion(version)
			for _, k := range []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata, kmsg.ShareAcknowledge} {
				resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: k.Int16(), MaxVersion: 1})
			}
			out = resp.AppendTo(out)
		default:
			if changes <- struct{}{}; len(changes) > 1 {
				return
			}
			resp := kmsg.NewPtrShareAcknowledgeResponse()
			resp.SetVersion(version)
			resp.UnknownTags.Set(view.ShareTag, []byte(`{"changed":1}`))
			out = resp.AppendTo(append(out, 0))
		}
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
