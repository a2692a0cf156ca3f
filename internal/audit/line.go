package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/chronik-io/chronik/internal/text"
)

// Bounds of a line, in bytes.
const (
	maxText  = 256
	maxValue = 8192 // of Old and New; a longer one is left out
)

// timeForm is RFC 3339 with milliseconds.
const timeForm = "2006-01-02T15:04:05.000Z07:00"

// lineJSON is a line, a JSON object. The names and their order are promised to readers.
type lineJSON struct {
	Time        string          `json:"t"`
	Kind        Kind            `json:"ev"`
	Who         string          `json:"who,omitempty"`
	From        string          `json:"from,omitempty"`
	Listener    string          `json:"listener,omitempty"`
	Mechanism   string          `json:"mech,omitempty"`
	Client      string          `json:"client,omitempty"`
	API         string          `json:"api,omitempty"`
	Version     *int16          `json:"v,omitempty"`
	Operation   string          `json:"op,omitempty"`
	Resource    string          `json:"res,omitempty"`
	Rule        string          `json:"rule,omitempty"`
	Why         string          `json:"why,omitempty"`
	Old         json.RawMessage `json:"old,omitempty"`
	New         json.RawMessage `json:"new,omitempty"`
	Correlation *int32          `json:"corr,omitempty"`
	N           int64           `json:"n"`
	Node        int32           `json:"node"`
}

// encode returns a line with its "\n".
func (l *Log) encode(x line) []byte {
	j := lineJSON{Time: x.at.UTC().Format(timeForm), Kind: x.Kind, Who: x.Who, From: x.From, Listener: x.Listener,
		Mechanism: x.Mechanism, Client: x.ID, API: x.API, Operation: x.Operation, Resource: x.Resource, Why: x.Why,
		Old: value(x.Old), New: value(x.New), N: x.n, Node: l.opt.Node}
	if j.From == "" {
		j.From = x.Host
	}
	if x.API != "" {
		j.Version, j.Correlation = &x.Version, &x.Correlation
	}
	if x.Rule != nil {
		j.Rule = text.Cut(x.Rule(), maxText)
	}
	b, err := json.Marshal(&j)
	if err != nil { // Old or New is not JSON
		b, _ = json.Marshal(&lineJSON{Time: j.Time, Kind: j.Kind, Who: j.Who, From: j.From, Why: text.Cut(err.Error(), maxText),
			N: j.N, Node: j.Node})
	}
	return append(printable(b), '\n')
}

// value returns the value of a change, or a note if it is too long for a line.
func value(v json.RawMessage) json.RawMessage {
	if len(v) > maxValue {
		return fmt.Appendf(nil, `"[%d bytes]"`, len(v))
	}
	return v
}

// printable escapes the characters that JSON permits and that are not printable, such as those that
// change the direction of text or begin a terminal's commands.
func printable(line []byte) []byte {
	if !bytes.ContainsFunc(line, hidden) {
		return line
	}
	var b strings.Builder
	for _, r := range string(line) {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String())
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }

// ParseMode returns a mode by the name that the configuration has for it.
func ParseMode(name string) (Mode, error) {
	for mode, is := range map[Mode]string{Off: "off", Refusals: "refusals", All: "all"} {
		if is == name {
			return mode, nil
		}
	}
	return Off, fmt.Errorf("%q is not off, refusals or all", name)
}
