package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/secret"
)

// AlterUserScramCredentials (key 51), version 0 (KIP-554): sets and removes passwords. The client
// sends a password that is salted and hashed already; the stored keys are computed from that. In
// addition to what Kafka refuses, it refuses what no client could log in with.
func alterUserScramCredentialsAPI() api {
	return apiDef[*kmsg.AlterUserSCRAMCredentialsRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.AlterUserSCRAMCredentials), Max: 0},
		asks:         clusterAsks[*kmsg.AlterUserSCRAMCredentialsRequest](acl.Alter),
		refuse:       refuseAlterUsers,
		overloaded:   kerr.RequestTimedOut,
		handle:       inBackground(atMetadata, alterUserScramCredentials),
	}.api()
}

// userChange is what a request asks for one user.
type userChange struct {
	controller.UserChange
	err error // why it can't be done
}

// userChanges returns the users that a request names, each once, in its order, removals first.
func userChanges(req *kmsg.AlterUserSCRAMCredentialsRequest) []userChange {
	var list []userChange
	at := map[string]int{}
	add := func(x userChange) {
		switch i, named := at[x.User]; {
		case !named:
			at[x.User] = len(list)
			list = append(list, x)
		case list[i].err == nil: // the first error stays, as in Kafka
			list[i].err = protocolErrorf(kerr.DuplicateResource, "A user credential cannot be altered twice in the same request")
		}
	}
	for i := range req.Deletions {
		d := &req.Deletions[i]
		m := metadata.ScramMechanism(d.Mechanism)
		add(userChange{controller.UserChange{User: d.Name, Mechanism: m}, checkUser(d.Name, m)})
	}
	for i := range req.Upsertions {
		add(upsertion(&req.Upsertions[i]))
	}
	return list
}

// checkUser refuses what is invalid for every change of a user.
func checkUser(name string, m metadata.ScramMechanism) error {
	switch {
	case name == "":
		return protocolErrorf(kerr.UnacceptableCredential, "Username must not be empty")
	case m != metadata.ScramSHA256 && m != metadata.ScramSHA512:
		return protocolErrorf(kerr.UnsupportedSaslMechanism, "Unknown SCRAM mechanism")
	}
	return nil
}

// upsertion returns the change that sets a password.
func upsertion(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) userChange {
	m := metadata.ScramMechanism(u.Mechanism)
	x := userChange{controller.UserChange{User: u.Name, Mechanism: m}, checkUser(u.Name, m)}
	switch {
	case x.err != nil:
		return x
	case u.Iterations < metadata.MinScramIterations:
		x.err = protocolErrorf(kerr.UnacceptableCredential, "Too few iterations: %d; there must be %d to %d",
			u.Iterations, metadata.MinScramIterations, metadata.MaxScramIterations)
	case u.Iterations > metadata.MaxScramIterations:
		x.err = protocolErrorf(kerr.UnacceptableCredential, "Too many iterations: %d; there must be %d to %d",
			u.Iterations, metadata.MinScramIterations, metadata.MaxScramIterations)
	case !login.ValidName(u.Name):
		x.err = protocolErrorf(kerr.UnacceptableCredential, "Username has control characters, or more than %d bytes", metadata.MaxUserName)
	case len(u.Salt) == 0 || len(u.Salt) > maxSalt:
		x.err = protocolErrorf(kerr.UnacceptableCredential, "The salt must have 1 to %d bytes", maxSalt)
	case len(u.SaltedPassword) != m.KeySize():
		x.err = protocolErrorf(kerr.UnacceptableCredential, "The salted password of %s must have %d bytes", m, m.KeySize())
	default:
		c := login.CredentialOf(m, secret.New(u.Salt), secret.New(u.SaltedPassword), u.Iterations)
		x.Set = &c
	}
	return x
}

// maxSalt bounds salts, in bytes. Kafka's tools make about 25.
const maxSalt = 256

func alterUserScramCredentials(ctx context.Context, b *Handler, r *network.Request,
	req *kmsg.AlterUserSCRAMCredentialsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrAlterUserSCRAMCredentialsResponse())
	c := b.newChange(r, changeTimeout)
	list := userChanges(req)
	var valid []controller.UserChange
	var at []*error
	for i := range list {
		if list[i].err == nil {
			valid, at = append(valid, list[i].UserChange), append(at, &list[i].err)
		}
	}
	if len(valid) > 0 {
		var errs []error
		err := c.do(ctx, func(ctx context.Context) (revision int64, err error) {
			revision, errs, err = b.opt.Controller.AlterUsers(ctx, valid)
			return revision, err
		})
		if err == nil {
			err = c.waitVisible(ctx)
		}
		for i := range at {
			if *at[i] = err; err == nil {
				*at[i] = errs[i]
			}
		}
	}
	for i := range list {
		one := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		one.User = list[i].User
		one.ErrorCode, one.ErrorMessage = c.verdict(list[i].err)
		resp.Results = append(resp.Results, one)
	}
	return resp
}

// refuseAlterUsers answers with an error for each user: the lists of the request have other names
// than that of the answer.
func refuseAlterUsers(r *network.Request, req *kmsg.AlterUserSCRAMCredentialsRequest, code *kerr.Error) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrAlterUserSCRAMCredentialsResponse())
	for _, x := range userChanges(req) {
		one := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		one.User = x.User
		one.ErrorCode, one.ErrorMessage = verdict(denied(code))
		resp.Results = append(resp.Results, one)
	}
	return resp
}
