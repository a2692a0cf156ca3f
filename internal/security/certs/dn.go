package certs

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// keyword returns the name of an attribute type that RFC 2253 knows, or its number.
func keyword(id asn1.ObjectIdentifier) string {
	number := id.String()
	names := map[string]string{
		"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O", "2.5.4.11": "OU",
		"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
	}
	if name, ok := names[number]; ok {
		return name
	}
	return number
}

// attribute is the ASN.1 of one attribute of a name (X.501, AttributeTypeAndValue).
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

type relativeSET []attribute // a set: encoding/asn1 recognizes the suffix

// DN returns the subject of a certificate as Java's X500Principal.getName does (RFC 2253), because
// Kafka's principals and mapping rules are made of that text. A name that cannot be parsed is "".
func DN(c *x509.Certificate) string { return name(c.RawSubject) }

func name(der []byte) string {
	var parts []relativeSET
	if rest, err := asn1.Unmarshal(der, &parts); err != nil || len(rest) > 0 {
		return ""
	}
	all := make([]string, 0, len(parts))
	for i := len(parts) - 1; i >= 0; i-- {
		ava := make([]string, 0, len(parts[i]))
		for _, a := range parts[i] {
			ava = append(ava, keyword(a.Type)+"="+value(a))
		}
		all = append(all, strings.Join(ava, "+"))
	}
	return strings.Join(all, ",")
}

// value formats an attribute's value: text if type and encoding are known, its DER otherwise.
func value(a attribute) string {
	known := keyword(a.Type) != a.Type.String()
	switch a.Value.Tag {
	case asn1.TagPrintableString, asn1.TagUTF8String, asn1.TagIA5String, asn1.TagT61String, asn1.TagGeneralString:
		if known && a.Value.Class == asn1.ClassUniversal && utf8.Valid(a.Value.Bytes) {
			return escape(string(a.Value.Bytes))
		}
	}
	return "#" + hex.EncodeToString(a.Value.FullBytes)
}

// escape escapes text as Java does: its special characters anywhere, and blanks at both ends.
func escape(text string) string {
	from := len(text) - len(strings.TrimLeft(text, " \r"))
	to := len(strings.TrimRight(text, " \r"))
	var b strings.Builder
	for i, c := range text {
		switch {
		case c == 0:
			b.WriteString(`\00`)
			continue
		case strings.ContainsRune(`,=+<>#;"\`, c), i < from, i >= to:
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
