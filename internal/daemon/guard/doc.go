// Package guard opens what decides who may connect to a broker and what a client may do: the
// certificates of listeners, the proofs between brokers, logins and the first users, access rules,
// quotas, and the audit log of all that.
//
// The decisions are in the packages below: security/certs, login, security/acl, security/quota and
// audit. This package gives them what the configuration says, and keeps them up to date when files
// or the metadata change. The daemon starts and stops them.
package guard
