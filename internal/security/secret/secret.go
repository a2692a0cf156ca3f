// Package secret holds bytes that must not get into logs, messages, JSON or panics: passwords, keys
// and tokens. Printing or encoding a Secret never shows its bytes, which only Bytes returns. It
// does not know what they are for.
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
type Secret struct {
	// Package fmt calls no method of a field that is not exported. It follows one pointer then, and
	// prints the second as an address.
	value **[]byte
}

// New returns a secret with the given value, which the caller must not modify afterwards.
func New(value []byte) Secret {
	at := &value
	return Secret{&at}
}

// Of returns a secret with the bytes of a text.
func Of(text string) Secret { return New([]byte(text)) }

// Bytes returns the value, which must not be modified.
func (s Secret) Bytes() []byte {
	if s.value == nil {
		return nil
	}
	return **s.value
}

// Len returns the length of the value in bytes.
func (s Secret) Len() int { return len(s.Bytes()) }

// Equal compares two secrets in a time that depends on their lengths only.
func (s Secret) Equal(o Secret) bool { return subtle.ConstantTimeCompare(s.Bytes(), o.Bytes()) == 1 }

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
