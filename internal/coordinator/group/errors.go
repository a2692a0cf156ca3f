package group

import (
	"fmt"
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// failure is the reason for refusing a request: Kafka's error code, and a message for responses
// that have a field for it.
type failure struct {
	code *kerr.Error
	msg  string
}

func fail(code *kerr.Error, format string, args ...any) *failure {
	return &failure{code: code, msg: fmt.Sprintf(format, args...)}
}

func refuse(code *kerr.Error) *failure { return &failure{code: code} }

// errorCode returns the code of a failure, 0 for nil.
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

// Refuse returns the answer to a request about one group whose coordinator is not available, or nil
// if the answer has no field for an error of the whole request. Clients don't expect
// COORDINATOR_LOAD_IN_PROGRESS from Heartbeat and SyncGroup. Heartbeat gets
// COORDINATOR_NOT_AVAILABLE instead. SyncGroup gets REBALANCE_IN_PROGRESS, because the volatile
// state of the rebalance is lost.
func Refuse(req kmsg.Request, code *kerr.Error) kmsg.Response {
	n := code.Code
	switch resp := req.ResponseKind().(type) {
	case *kmsg.JoinGroupResponse:
		resp.ErrorCode, resp.MemberID, resp.Generation = n, req.(*kmsg.JoinGroupRequest).MemberID, -1
		return resp
	case *kmsg.SyncGroupResponse:
		if resp.ErrorCode = n; code == kerr.CoordinatorLoadInProgress {
			resp.ErrorCode = kerr.RebalanceInProgress.Code
		}
		return resp
	case *kmsg.HeartbeatResponse:
		if resp.ErrorCode = n; code == kerr.CoordinatorLoadInProgress {
			resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		}
		return resp
	case *kmsg.StreamsGroupHeartbeatResponse:
		resp.ErrorCode, resp.Status = n, []kmsg.StreamsGroupHeartbeatResponseStatus{}
		return resp
	case *kmsg.OffsetCommitResponse:
		return commitRefused(req.(*kmsg.OffsetCommitRequest), n)
	default:
		field := reflect.ValueOf(resp).Elem().FieldByName("ErrorCode")
		if !field.IsValid() {
			return nil
		}
		field.SetInt(int64(n))
		return resp
	}
}

// Loading returns the response to a Request whose shard is loading. Heartbeats of classic members
// succeed, as in Kafka: the load extends their sessions, and an error would make the members react.
func Loading(req kmsg.Request) kmsg.Response {
	if beat, ok := req.ResponseKind().(*kmsg.HeartbeatResponse); ok {
		return beat
	}
	return Refuse(req, kerr.CoordinatorLoadInProgress)
}
