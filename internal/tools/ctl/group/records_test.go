package group

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/fakebroker"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

// A change whose answer is lost is not sent again: it could end a later delivery.
func TestChangesAreSentOnce(t *testing.T) {
	var changes atomic.Int32
	port := fakebroker.Serve(t, func(req kmsg.Request) kmsg.Response {
		switch req := req.(type) {
		case *kmsg.ApiVersionsRequest:
			resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
			for _, k := range []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata, kmsg.ShareAcknowledge} {
				resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: k.Int16(), MaxVersion: 1})
			}
			return resp
		case *kmsg.ShareAcknowledgeRequest:
			if changes.Add(1) > 1 {
				return nil // the answer of a further one is lost
			}
			resp := req.ResponseKind().(*kmsg.ShareAcknowledgeResponse)
			resp.UnknownTags.Set(view.ShareTag, []byte(`{"changed":1}`))
			return resp
		}
		return nil
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("%s:%d", fakebroker.Host, port)))
	must.OK(t, err)
	var change view.ShareChange
	x := at{group: "g", topic: "t"}
	must.OK(t, apply(t.Context(), cl, x, "release", view.ShareAsk{Topic: "t"}, &change))
	err = apply(t.Context(), cl, x, "release", view.ShareAsk{Topic: "t"}, &change)
	if err == nil || !strings.Contains(err.Error(), "it is not known whether the change was made") || changes.Load() != 2 {
		t.Errorf("%d requests, %v", changes.Load(), err)
	}
	cl.Close()
}
