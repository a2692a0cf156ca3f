package protocol

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Consumers of the classic protocol exchange subscriptions and assignments in bytes that the broker
// ignores, until a consumer with the newer protocol joins the group (KIP-848). Like any request
// they may claim more than they contain, so the guard also checks them.
const (
	subscriptionLayout = "2 [s] N 1+:( s [4] ) 2+:4 3+:n"
	assignmentLayout   = "2 ( s [4] ) N"

	// Later versions only add fields at the end.
	subscriptionVersions, assignmentVersions = 4, 1
)

// DecodeSubscription decodes the subscription that a consumer sends in a JoinGroup. The error wraps
// ErrMalformed. UserData aliases p.
func DecodeSubscription(p []byte) (kmsg.ConsumerMemberMetadata, error) {
	v := kmsg.NewConsumerMemberMetadata()
	err := decodeEmbedded(p, subscriptionLayout, subscriptionVersions, &v)
	return v, err
}

// DecodeSubscribedTopics decodes the topics that a consumer subscribes to in a JoinGroup. As Kafka
// does, it reads any version as version 0, whose fields every version begins with; what follows may
// be cut. The error wraps ErrMalformed.
func DecodeSubscribedTopics(p []byte) ([]string, error) {
	first := slices.Clone(p)
	clear(first[:min(len(first), 2)])
	v, err := DecodeSubscription(first)
	return v.Topics, err
}

// DecodeAssignment decodes the assignment that a leader sends for a consumer in a SyncGroup. The
// error wraps ErrMalformed. UserData aliases p.
func DecodeAssignment(p []byte) (kmsg.ConsumerMemberAssignment, error) {
	v := kmsg.NewConsumerMemberAssignment()
	err := decodeEmbedded(p, assignmentLayout, assignmentVersions, &v)
	return v, err
}

// decodeEmbedded checks bytes that begin with their version, and decodes them.
func decodeEmbedded(p []byte, layout string, versions int16, into interface{ ReadFrom([]byte) error }) error {
	head := cursor{src: p}
	version := min(max(head.int16(), 0), versions-1)
	shape, err := parseLayout(layout, version, false)
	if err != nil {
		return fmt.Errorf("layout %q: %w", layout, err)
	}
	if _, err := checkBody(&versionInfo{body: shape, maxCost: MaxCost}, p); err != nil {
		return fmt.Errorf("embedded consumer protocol, version %d: %w", version, err)
	}
	if err := into.ReadFrom(p); err != nil {
		return fmt.Errorf("embedded consumer protocol, version %d: %w: %w", version, ErrMalformed, err)
	}
	return nil
}
