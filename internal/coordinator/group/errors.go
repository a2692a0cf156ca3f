package group

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// failure is why a request is refused: Kafka's code, and words where the response
// has room for them.
type failure struct {
	code *kerr.Error
	msg  string
}

func fail(code *kerr.Error, format string, args ...any) *failure {
	return &failure{code: code, msg: fmt.Sprintf(format, args...)}
}

func refuse(code *kerr.Error) *failure { return &failure{code: code} }

// errorCode of a failure, 0 for nil.
func (f *failure) errorCode() int16 {
	if f == nil {
		return 0
	}
	return f.code.Code
}

func (f *failure) message() *string {
	if f == nil || f.msg == "" {
		return nil
	}
	return kmsg.StringPtr(f.msg)
}

func unknownGroup(id string) *failure { return fail(kerr.GroupIDNotFound, "Group %s not found.", id) }

// Refuse returns the response to a Request whose coordinator can't be asked: in the
// response's shape, with one error everywhere; nil for what is no Request. Heartbeats of classic members are
// answered with success while a shard loads, as Kafka does: the member is fine, and
// an error would make it do something.
func Refuse(req kmsg.Request, code *kerr.Error) kmsg.Response {
	n := code.Code
	switch resp := req.ResponseKind().(type) {
	case *kmsg.JoinGroupResponse:
		resp.ErrorCode, resp.MemberID, resp.Generation = n, req.(*kmsg.JoinGroupRequest).MemberID, -1
		return resp
	case *kmsg.SyncGroupResponse:
		resp.ErrorCode = n
		return resp
	case *kmsg.HeartbeatResponse:
		if code != kerr.CoordinatorLoadInProgress {
			resp.ErrorCode = n
		}
		return resp
	case *kmsg.LeaveGroupResponse:
		resp.ErrorCode = n
		return resp
	case *kmsg.ConsumerGroupHeartbeatResponse:
		resp.ErrorCode = n
		return resp
	case *kmsg.OffsetDeleteResponse:
		resp.ErrorCode = n
		return resp
	case *kmsg.OffsetCommitResponse:
		return commitRefused(req.(*kmsg.OffsetCommitRequest), n)
	default:
		return nil
	}
}
