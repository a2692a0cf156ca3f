package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
)

// Access is an operation on a resource that some part of a request needs, as Kafka's ACLs
// name them.
type Access struct {
	Operation kmsg.ACLOperation
	Kind      kmsg.ACLResourceType
	Name      string // "kafka-cluster" for the cluster
}

// The operations that requests need.
const (
	opRead            = kmsg.ACLOperationRead
	opWrite           = kmsg.ACLOperationWrite
	opCreate          = kmsg.ACLOperationCreate
	opDelete          = kmsg.ACLOperationDelete
	opAlter           = kmsg.ACLOperationAlter
	opDescribe        = kmsg.ACLOperationDescribe
	opClusterAction   = kmsg.ACLOperationClusterAction
	opDescribeConfigs = kmsg.ACLOperationDescribeConfigs
	opAlterConfigs    = kmsg.ACLOperationAlterConfigs
	opIdempotentWrite = kmsg.ACLOperationIdempotentWrite
)

// needs collects what a request needs, up to the first operation that its client may not perform.
// Until handlers answer for each part of a request, one denied part refuses the whole request.
type needs struct {
	img    *metadata.Image
	allow  func(Access) bool
	denied *kerr.Error
}

func (n *needs) add(op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string, code *kerr.Error) {
	if n.denied == nil && !n.allow(Access{op, kind, name}) {
		n.denied = code
	}
}

func (n *needs) topic(op kmsg.ACLOperation, name string) {
	n.add(op, kmsg.ACLResourceTypeTopic, name, kerr.TopicAuthorizationFailed)
}

// allTopics is for requests that mean all topics without naming them. Until handlers leave out
// topics that a client may not see, the client must be allowed to see all.
func (n *needs) allTopics() { n.topic(opDescribe, "*") }

// topicID is topic for a topic that is named by its id. A topic that does not exist needs nothing.
func (n *needs) topicID(op kmsg.ACLOperation, id [16]byte) {
	if t := n.img.TopicByID(id); t != nil {
		n.topic(op, t.Name)
	}
}

// topicRef is topic for a topic that is named by name or id, depending on the version.
func (n *needs) topicRef(op kmsg.ACLOperation, byID bool, name string, id [16]byte) {
	if byID {
		n.topicID(op, id)
	} else {
		n.topic(op, name)
	}
}

func (n *needs) group(op kmsg.ACLOperation, id string) {
	n.add(op, kmsg.ACLResourceTypeGroup, id, kerr.GroupAuthorizationFailed)
}

func (n *needs) transaction(op kmsg.ACLOperation, id string) {
	n.add(op, kmsg.ACLResourceTypeTransactionalId, id, kerr.TransactionalIDAuthorizationFailed)
}

func (n *needs) cluster(op kmsg.ACLOperation) {
	n.add(op, kmsg.ACLResourceTypeCluster, "kafka-cluster", kerr.ClusterAuthorizationFailed)
}

// configs adds what reading or changing the configs of a resource needs.
func (n *needs) configs(op kmsg.ACLOperation, x resource) {
	switch x.kind {
	case kmsg.ConfigResourceTypeTopic:
		n.topic(op, x.name)
	case kmsg.ConfigResourceTypeGroupConfig:
		n.group(op, x.name)
	default:
		n.cluster(op)
	}
}

// denied checks what a request needs, and returns the error of the first operation that its client
// may not perform; nil if it may perform all.
func (b *Broker) denied(r *network.Request, walk func(*needs)) *kerr.Error {
	n := needs{img: b.image(), allow: func(a Access) bool { return b.opt.Authorize(r, a) }}
	walk(&n)
	return n.denied
}
