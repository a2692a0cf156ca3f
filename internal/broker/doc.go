// Package broker is the handlers of the Kafka protocol: one file per API, named
// after it.
//
// It owns what a request means: which topics and partitions it names, which
// rooms below are asked, and which protocol error an error of theirs becomes
// (errors.go, one table). network calls Handle for every request; handlers call
// replica for records, controller for changes, metadata for everything else. It
// opens no file and starts no room.
//
// A handler never blocks the connection's reader: it answers at once, or leaves
// the answer to whoever completes it (Produce, Fetch, groups), or runs on a goroutine of
// its own while the connection waits (changes of metadata).
//
// apis.go lists the lines of the table that every request passes (table.go): versions,
// decoding and its cost, needed rights, refusal, memory while it waits, handler. That list
// is what ApiVersions answers and what dispatch accepts. docs/requests.md shows the way.
package broker
