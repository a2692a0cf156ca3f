// Package broker handles the requests of the Kafka protocol. Each API has a file, named after it,
// except five of members of groups (groups.go) and both of logins (sasl.go).
//
// The package owns the meaning of requests: which topics and partitions they name, which packages
// they need, and where an API answers an error differently from the table that all use (package
// errcode). network calls Handle for every request; handlers call replica for records, controller
// for changes, and metadata for everything else. The package opens no files and starts no other
// component.
//
// A handler never blocks a poller, which serves many connections. On a connection's own reader
// (Request.MayBlock) it may wait for a disk, a place or memory. It answers at once, or leaves the
// answer to the code that completes the request (Produce, Fetch, groups), or runs on a goroutine of
// its own while the connection waits (metadata changes).
//
// apis.go lists the entries of the table that every request passes through (table.go): versions,
// decoding and its cost, required rights, refusal, memory while it waits, handler. ApiVersions
// answers with that list, and dispatch accepts only what is in it. docs/requests.md describes the
// path.
package broker
