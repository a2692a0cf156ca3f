// Package acl decides what a client may do, by the rules that Kafka calls ACLs.
//
// A Binding allows or denies a principal an operation on the resources of one type whose names
// match a pattern. Compile turns all bindings of a cluster into Rules, which never change. A
// session asks Rules for its Subject once, and the Subject for each name that a request has: one
// look-up answers all operations. A change of some bindings compiles only the principals that they
// name, and yields new Rules.
//
// The decisions are those of Kafka's StandardAuthorizer. A binding that denies wins over all that
// allow. Without a binding for the principal, host and operation, the answer is no. Names, hosts
// and principals are compared byte by byte; a pattern is a name, the beginning of a name, or "*".
//
// The package is pure: it knows neither requests, nor connections, nor where bindings are stored.
package acl
