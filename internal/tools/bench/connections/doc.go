// Package connections measures what connections cost a broker: how many clients per second can
// connect and log in, and the memory of connections that do nothing.
//
// It owns the subcommands of `connections`, and a client of SCRAM-SHA-512 that derives a user's key
// once: a client that derived it for each connection would itself be what is measured. A client
// counts only if it has connected, logged in and received the metadata. It does not know how a
// broker stores users. bench/command calls it.
package connections
