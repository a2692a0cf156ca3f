package fakebroker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client gets what the test makes up.
func TestAnswers(t *testing.T) {
	port := Serve(t, func(req kmsg.Request) kmsg.Response {
		switch req := req.(type) {
		case *kmsg.ApiVersionsRequest:
			resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
			resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18, MaxVersion: 3}, {ApiKey: 60, MaxVersion: 0}}
			return resp
		case *kmsg.DescribeClusterRequest:
			resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
			resp.ClusterID = "made up"
			return resp
		}
		return nil
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("%s:%d", Host, port)))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if resp, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(t.Context(), cl); err != nil || resp.ClusterID != "made up" {
		t.Errorf("%+v, %v", resp, err)
	}
	if _, err := kmsg.NewPtrListGroupsRequest().RequestWith(t.Context(), cl); err == nil {
		t.Error("a request without an answer succeeded")
	}
}
