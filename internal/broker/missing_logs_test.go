package broker

import (
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A topic whose log could not be created is not answered as usable: the answer has the cause, and
// so has the one about more partitions. The request's other topics are not affected.
func TestTopicWithoutLogsIsNoSuccess(t *testing.T) {
	errs := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs = errs })
	errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/data/logs/*-1", Err: syscall.EMFILE})
	w := n.dial(t)
	refused := func(what string, code int16, message *string) {
		t.Helper()
		if code != kerr.KafkaStorageError.Code || message == nil || !strings.Contains(*message, "too many open files") {
			t.Errorf("%s: %s", what, said(code, message))
		}
	}
	made := ask[*kmsg.CreateTopicsResponse](t, w, 5, createRequest(false, newTopic("bad", 2, 1), newTopic("good", 1, 1))).Topics
	refused("create", made[0].ErrorCode, made[0].ErrorMessage)
	if made[1].ErrorCode != 0 {
		t.Error(said(made[1].ErrorCode, made[1].ErrorMessage))
	}
	more := kmsg.NewPtrCreatePartitionsRequest()
	more.TimeoutMillis = 120_000
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = "good", 2
	more.Topics = append(more.Topics, topic)
	grown := ask[*kmsg.CreatePartitionsResponse](t, w, 3, more).Topics[0]
	refused("create partitions", grown.ErrorCode, grown.ErrorMessage)
}
