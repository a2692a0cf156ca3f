package app

import (
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/view"
)

// maxVersions bounds the answer to ApiVersions, in bytes.
const maxVersions = 64 << 10

// speaksKafka reports whether Kafka's protocol is answered at HOST:PORT, and what a broker that
// starts waits for, "" if it serves clients. It takes a second or half of the time that is left,
// whichever is shorter, and needs no login.
func speaksKafka(ctx context.Context, dial cli.DialFunc, addr, version string) (phase string, ok bool) {
	limit := time.Second
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2) // the rest is for a probe of another protocol
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		return "", false
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(0, 1)) })() // in the past: reads and writes fail
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(3)
	req.ClientSoftwareName, req.ClientSoftwareVersion = "chronikctl", version
	req.UnknownTags.Set(view.PhaseTag, []byte{})
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("chronikctl")).AppendRequest(nil, req, 1)); err != nil {
		return "", false
	}
	var head [8]byte // size i32 | correlation id i32
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return "", false
	}
	size := binary.BigEndian.Uint32(head[:]) - 4
	if size > maxVersions || binary.BigEndian.Uint32(head[4:]) != 1 {
		return "", false
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c, body); err != nil {
		return "", false
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(3)
	if resp.ReadFrom(body) != nil {
		return "", true // the error of an older broker, which has version 0
	}
	resp.UnknownTags.Each(func(tag uint32, p []byte) {
		if tag == view.PhaseTag {
			phase = string(p)
		}
	})
	return phase, true
}
