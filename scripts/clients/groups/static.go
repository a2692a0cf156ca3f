package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// removeConsumers removes static members of a KIP-848 group in their own name: a heartbeat with
// epoch -1 is a member's final leave.
func (s *scenario) removeConsumers(ctx context.Context, list []*process) error {
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{group}
	answer, err := describe.RequestWith(ctx, s.cl)
	if err == nil && len(answer.Groups) != 1 {
		err = errors.New("the group is not described")
	}
	if err == nil {
		err = kerr.ErrorForCode(answer.Groups[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("describe static members: %w", err)
	}
	for _, m := range answer.Groups[0].Members {
		if m.InstanceID == nil || !named(list, m.ClientID) {
			continue
		}
		bye := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		bye.Group, bye.MemberID, bye.MemberEpoch = group, m.MemberID, -1
		left, err := bye.RequestWith(ctx, s.cl)
		if err == nil {
			err = kerr.ErrorForCode(left.ErrorCode)
		}
		if err != nil {
			return fmt.Errorf("take out %s: %w", *m.InstanceID, err)
		}
	}
	return nil
}
