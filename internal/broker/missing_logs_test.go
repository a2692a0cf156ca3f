package broker

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

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

// A wait for logs that ends with the request's timeout is answered as such, not with the state of
// the logs. A log that could not be created keeps its error, also after the timeout.
func TestTimeoutWhileLogsAreCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := errfs.New(vfs.Memory())
		n := newNode(t, func(o *nodeOptions) { o.fs, o.pipe = errs, true })
		n.topic(t, "grows", 1)
		release := make(chan struct{})
		hold := func(errfs.Call) { <-release }
		errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/data/logs/slow-*", Before: hold})
		errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/data/logs/grows-*", Before: hold})
		errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/data/logs/both-0", Err: syscall.EMFILE})
		errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/data/logs/both-1", From: 2, Before: hold}) // not while both are tried
		w := n.dial(t)
		defer w.Close()
		answer := func(resp *kmsg.CreateTopicsResponse) string {
			return said(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage)
		}
		create := createRequest(false, newTopic("both", 2, 1))
		create.TimeoutMillis = 1
		if got := answer(ask[*kmsg.CreateTopicsResponse](t, w, 5, create)); !strings.Contains(got, "too many open files") {
			t.Errorf("create a topic of which one log fails: %s", got)
		}
		const timedOut = "REQUEST_TIMED_OUT: timed out: the change is made"
		create = createRequest(false, newTopic("slow", 2, 1))
		create.TimeoutMillis = 1
		if got := answer(ask[*kmsg.CreateTopicsResponse](t, w, 5, create)); !strings.HasPrefix(got, timedOut) {
			t.Errorf("create: %s", got)
		}
		grow := morePartitions("grows", 2, nil)
		grow.TimeoutMillis = 1
		grown := ask[*kmsg.CreatePartitionsResponse](t, w, 3, grow).Topics[0]
		if got := said(grown.ErrorCode, grown.ErrorMessage); !strings.HasPrefix(got, timedOut) {
			t.Errorf("create partitions: %s", got)
		}
		close(release)
		must(t, n.applier.WaitFor(t.Context(), n.image().Version()))
		n.mustHave(t, "slow", 2)
		n.mustHave(t, "grows", 2)
	})
}
