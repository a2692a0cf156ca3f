// Package contexts says which broker a command talks to, and how: brokers, TLS,
// SASL, and the few other settings that all commands share.
//
// It owns the settings' names and defaults, the file of named contexts, and the
// rule by which a setting is found: its flag, else its variable, else the
// context of the file, else its default. A setting has one name everywhere:
// tls-ca is --tls-ca, CHRONIKCTL_TLS_CA, and tls-ca: in the file. Errors name
// the place that a wrong value came from. It promises that a secret is never
// printed and that the file is readable by its owner only. internal/ctl/app
// calls it; it knows no commands and opens no connection.
package contexts
