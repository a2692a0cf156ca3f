// Package contexts resolves the settings that all commands of chronikctl share: brokers, TLS,
// SASL, admin port, timeout, output format.
//
// It owns the names and defaults of the settings and the file of named contexts. It takes a setting
// from the first of these sources that has it: its flag, its environment variable, the context in
// the file, its default. A setting has one name everywhere: tls-ca is --tls-ca, CHRONIKCTL_TLS_CA,
// and tls-ca: in the file. Errors name the source of a wrong value. Secrets are never printed, and
// only the owner can read the file. The package opens no connection.
package contexts
