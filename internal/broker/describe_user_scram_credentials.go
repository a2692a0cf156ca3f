package broker

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DescribeUserScramCredentials (key 50), version 0 (KIP-554): for which mechanisms users have a
// password. Keys and salts are never in an answer.
func describeUserScramCredentialsAPI() api {
	return apiDef[*kmsg.DescribeUserSCRAMCredentialsRequest]{
		API:    protocol.API{Key: int16(kmsg.DescribeUserSCRAMCredentials), Max: 0},
		asks:   clusterAsks[*kmsg.DescribeUserSCRAMCredentialsRequest](acl.Describe),
		handle: answering(describeUserScramCredentials),
		answerBytes: func(b *Handler, req *kmsg.DescribeUserSCRAMCredentialsRequest) int64 {
			if len(req.Users) == 0 {
				return entryAnswer * int64(b.image().NumUsers())
			}
			return 0
		},
	}.api()
}

func describeUserScramCredentials(b *Handler, r *network.Request, req *kmsg.DescribeUserSCRAMCredentialsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeUserSCRAMCredentialsResponse())
	img := b.image()
	named := counts(req.Users, func(u *kmsg.DescribeUserSCRAMCredentialsRequestUser) string { return u.Name })
	names := slices.Sorted(maps.Keys(named))
	if len(req.Users) == 0 {
		for u := range img.Users() {
			names = append(names, u.Name)
		}
		slices.Sort(names)
	}
	for _, name := range names {
		one, err := describeUser(img.User(name), name, named[name] > 1)
		if one.ErrorCode, one.ErrorMessage = b.verdict(r, err); one.ErrorCode != 0 {
			r.Code = one.ErrorCode
		}
		resp.Results = append(resp.Results, one)
	}
	return resp
}

// describeUser describes one user, which may be nil.
func describeUser(u *metadata.User, name string, twice bool) (kmsg.DescribeUserSCRAMCredentialsResponseResult, error) {
	one := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
	one.User = name
	switch {
	case twice:
		return one, protocolErrorf(kerr.DuplicateResource,
			"Cannot describe SCRAM credentials for the same user twice in a single request: %s", name)
	case u == nil:
		return one, protocolErrorf(kerr.ResourceNotFound, "Attempt to describe a user credential that does not exist: %s", name)
	}
	for _, c := range u.Credentials {
		info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
		info.Mechanism, info.Iterations = int8(c.Mechanism), c.Iterations
		one.CredentialInfos = append(one.CredentialInfos, info)
	}
	return one, nil
}
