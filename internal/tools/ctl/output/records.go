package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is a record in JSON. A key or value that is not valid UTF-8 is in the field that ends with
// Base64, and the other field is absent: null means a null key or value. Decoding an encoded record
// restores key, value, headers and timestamp exactly.
type Record struct {
	Topic       string       `json:"topic,omitempty"`
	Partition   *int32       `json:"partition,omitempty"`
	Offset      *int64       `json:"offset,omitempty"`
	Timestamp   time.Time    `json:"timestamp,omitzero"`
	Key         OptionalText `json:"key,omitzero"`
	KeyBase64   []byte       `json:"keyBase64,omitempty"`
	Value       OptionalText `json:"value,omitzero"`
	ValueBase64 []byte       `json:"valueBase64,omitempty"`
	Headers     []Header     `json:"headers,omitempty"`
}

// Header is a record's header.
type Header struct {
	Name        string       `json:"name"`
	Value       OptionalText `json:"value,omitzero"`
	ValueBase64 []byte       `json:"valueBase64,omitempty"`
}

// OptionalText is a string, null, or absent.
type OptionalText struct {
	present bool
	text    *string // nil for null
}

// IsZero reports whether the text is absent.
func (t OptionalText) IsZero() bool { return !t.present }

// MarshalJSON writes a string or null, without escaping for HTML.
func (t OptionalText) MarshalJSON() ([]byte, error) { return plain(t.text) }

// UnmarshalJSON reads a string or null.
func (t *OptionalText) UnmarshalJSON(p []byte) error {
	t.present = true
	return json.Unmarshal(p, &t.text)
}

// FromKafka converts a record from the client library.
func FromKafka(r *kgo.Record) Record {
	j := RecordOf(r.Topic, r.Partition, r.Offset, r.Timestamp, r.Key, r.Value)
	for _, h := range r.Headers {
		j.AddHeader(h.Key, h.Value)
	}
	return j
}

// RecordOf returns a record without headers.
func RecordOf(topic string, partition int32, offset int64, at time.Time, key, value []byte) Record {
	j := Record{Topic: topic, Partition: &partition, Offset: &offset, Timestamp: at.UTC()}
	j.Key, j.KeyBase64 = split(key)
	j.Value, j.ValueBase64 = split(value)
	return j
}

// AddHeader appends a header.
func (j *Record) AddHeader(name string, value []byte) {
	x := Header{Name: name}
	x.Value, x.ValueBase64 = split(value)
	j.Headers = append(j.Headers, x)
}

func split(b []byte) (text OptionalText, binary []byte) {
	if b == nil {
		return OptionalText{present: true}, nil
	}
	if !utf8.Valid(b) {
		return OptionalText{}, b
	}
	s := string(b)
	return OptionalText{true, &s}, nil
}

// EncodeRecord returns a record as one line of JSON without a line feed.
func EncodeRecord(r *kgo.Record) ([]byte, error) { return FromKafka(r).Line() }

// Line returns the record as one line of JSON without a line feed.
func (j Record) Line() ([]byte, error) {
	line, err := plain(j)
	if err != nil {
		return nil, fmt.Errorf("offset %d as JSON: %w", *j.Offset, err)
	}
	return line, nil
}

// plain is json.Marshal without escaping <, > and &.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// IsRecord reports whether a line is a record as Line prints it, with topic, partition and offset.
func IsRecord(line []byte) bool {
	var j Record
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return d.Decode(&j) == nil && j.Topic != "" && j.Partition != nil && j.Offset != nil
}

// DecodeRecord parses a record to produce. It ignores topic and offset. The partition is -1 if the
// line has none. Unknown fields are errors, because they may be misspelt.
func DecodeRecord(line []byte) (*kgo.Record, error) {
	var j Record
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		if strings.Contains(err.Error(), `unknown field "what"`) {
			err = fmt.Errorf("%w: this is a line of chronikctl log dump; --for-produce prints records that can be written", err)
		}
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one JSON value in a line")
	}
	r := &kgo.Record{Timestamp: j.Timestamp, Partition: -1}
	var err error
	if r.Key, err = join("key", j.Key, j.KeyBase64); err != nil {
		return nil, err
	}
	if r.Value, err = join("value", j.Value, j.ValueBase64); err != nil {
		return nil, err
	}
	for _, h := range j.Headers {
		v, err := join("value", h.Value, h.ValueBase64)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", h.Name, err)
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: v})
	}
	if j.Partition != nil {
		r.Partition = *j.Partition
	}
	return r, nil
}

func join(what string, t OptionalText, binary []byte) ([]byte, error) {
	switch {
	case t.text != nil && binary != nil:
		return nil, fmt.Errorf("both %s and %sBase64 are given; give one", what, what)
	case t.text != nil:
		return []byte(*t.text), nil
	}
	return binary, nil
}
