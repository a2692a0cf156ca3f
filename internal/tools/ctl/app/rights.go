package app

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Right is a right that a request needs. `chronikctl acl add` accepts both parts as they are here.
type Right struct{ Operation, Resource string }

// OnCluster and OnTopic return a right on the cluster and on a topic.
func OnCluster(operation string) Right { return Right{operation, "cluster"} }

// OnTopic is OnCluster for a topic.
func OnTopic(operation, topic string) Right { return Right{operation, "topic:" + topic} }

// OnGroup is OnCluster for a group.
func OnGroup(operation, group string) Right { return Right{operation, "group:" + group} }

func (r Right) String() string { return r.Operation + " on " + r.Resource }

// denied is the error of a broker about a missing right, with that right.
type denied struct {
	err   error
	right Right
}

func (d *denied) Error() string { return d.err.Error() }
func (d *denied) Unwrap() error { return d.err }

// Needs adds to an error about a missing right which one the request needs, so that Refused can
// name it. It returns other errors unchanged.
func Needs(err error, right Right) error {
	if !IsDenied(err) {
		return err
	}
	return &denied{err, right}
}

// IsDenied reports whether the broker refused a request because the user lacks a right.
func IsDenied(err error) bool {
	return errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.TopicAuthorizationFailed) ||
		errors.Is(err, kerr.GroupAuthorizationFailed) || errors.Is(err, kerr.TransactionalIDAuthorizationFailed)
}

// Missing returns the right that an error of Needs is about. ok is false if it is not known.
func Missing(err error) (right Right, ok bool) {
	d := (*denied)(nil)
	if !errors.As(err, &d) {
		return Right{}, false
	}
	return d.right, true
}
