// Package secret holds bytes that must not get into logs, messages, JSON or panics: passwords, keys
// and tokens.
package secret

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

// hidden is what every way of printing a Secret shows.
const hidden = "[hidden]"

// Secret is a secret value. However it is printed or encoded, only hidden appears. Bytes gives the
// value to code that computes with it. The zero value is empty.
type Secret struct{ value []byte }

// New returns a secret with the given value, which the caller must not modify afterwards.
func New(value []byte) Secret { return Secret{value} }

// Of returns a secret with the bytes of a text.
func Of(text string) Secret { return Secret{[]byte(text)} }

// Bytes returns the value, which must not be modified.
func (s Secret) Bytes() []byte { return s.value }

// Len returns the length of the value in bytes.
func (s Secret) Len() int { return len(s.value) }

// Equal compares two secrets in a time that depends on their lengths only.
func (s Secret) Equal(o Secret) bool { return subtle.ConstantTimeCompare(s.value, o.value) == 1 }

// String implements fmt.Stringer.
func (Secret) String() string { return hidden }

// GoString implements fmt.GoStringer, for %#v.
func (Secret) GoString() string { return hidden }

// Format implements fmt.Formatter, so that no verb prints the bytes.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText implements encoding.TextMarshaler, for JSON, YAML and keys of maps.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON implements json.Marshaler.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
