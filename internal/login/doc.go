// Package login checks who a client is: SASL with SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC
// 7677), PLAIN (RFC 4616) against the same stored keys, and OAUTHBEARER (RFC 7628) with signed
// tokens.
//
// A Conversation is a state machine: the bytes of a client in, the bytes of the answer out. It
// reads no socket and no clock of its own, and starts no goroutine. Logins holds what conversations
// share: the users, which it follows in the metadata, the delays of addresses that failed, the
// passwords that were checked lately, and the sessions that end with a change of their user.
//
// A client can't find out which users exist: an unknown one gets a salt that never changes, the
// same work is done for it, and every failure has the same text. Text is the only one that clients
// see; the reason of a Failure is for the log.
package login
