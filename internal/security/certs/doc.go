// Package certs loads certificates and keys, decides when changed files are taken, turns the
// subject of a client certificate into a principal's name, and makes certificate authorities.
//
// It owns the checks of certificates. Changed files that do not fit together, or are not valid now,
// never replace valid ones. It opens no connections: a Store gives each handshake the present
// tls.Config.
package certs
