package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/sorts"
)

// ErrUnsupported is returned for a key or version that is not in the Table.
var ErrUnsupported = errors.New("unsupported API key or version")

// API is an entry of the Table: the versions of one API that have a handler.
type API struct {
	Key, Min, Max int16
	// ListZero makes ApiVersions list the API from version 0 on although Min is higher. Only
	// Produce needs it: from it librdkafka concludes that the broker supports gzip, snappy and lz4.
	ListZero bool
	// MaxCost bounds the memory of a decoded request's arrays, in bytes, in addition to a part
	// proportional to the size of the request. 0 is the bound of all APIs, 64 MiB.
	MaxCost int
	// Quick: the handler of a small request never blocks and takes some microseconds, so that it
	// may run on a goroutine that many connections share.
	Quick bool
}

// Name is the API's name as Kafka writes it.
func (a API) Name() string { return NameOf(a.Key) }

// NameOf returns Kafka's name of an API.
func NameOf(key int16) string {
	if key == int16(kmsg.AlterPartitionAssignments) {
		return "AlterPartitionReassignments" // kmsg abbreviates it
	}
	return kmsg.NameForKey(key)
}

// ListedMin is the lowest version that ApiVersions lists.
func (a API) ListedMin() int16 {
	if a.ListZero {
		return 0
	}
	return a.Min
}

// Table holds the versions of the APIs that this broker supports. ApiVersions lists exactly these,
// and dispatch accepts no others. It never changes after NewTable.
type Table struct {
	apis  []API
	byKey []*entry // by API key; nil if not supported
	fresh func(key int16) kmsg.Request
}

type entry struct {
	api      API
	versions []versionInfo // from api.Min on
}

type versionInfo struct {
	flexible bool
	body     *structShape
	maxCost  int
}

// NewTable builds a table. It refuses an API or version that kmsg does not know, or for which the
// guard has no layout, so that no request is dispatched whose decoding is not bounded.
//
// fresh returns a new request of an API, or nil. It is kmsg.RequestForKey, or a function that names
// the requests of apis only: the linker then leaves out what kmsg has for the others (300 kB).
func NewTable(fresh func(key int16) kmsg.Request, apis ...API) (*Table, error) {
	t := &Table{apis: slices.Clone(apis), fresh: fresh}
	sorts.Sort(t.apis, func(a, b API) int { return int(a.Key) - int(b.Key) })
	layouts := requestLayouts()
	for i, a := range t.apis {
		if i > 0 && t.apis[i-1].Key == a.Key {
			return nil, fmt.Errorf("API %d is listed twice", a.Key)
		}
		req := fresh(a.Key)
		if a.Key < 0 || req == nil || a.Min < 0 || a.Min > a.Max || a.Max > req.MaxVersion() {
			return nil, fmt.Errorf("API %d (%s) versions %d to %d: no such request", a.Key, a.Name(), a.Min, a.Max)
		}
		layout, ok := layouts[a.Key]
		if !ok {
			return nil, fmt.Errorf("API %d (%s): the guard has no layout for it", a.Key, a.Name())
		}
		e := &entry{api: a}
		for v := a.Min; v <= a.Max; v++ {
			req.SetVersion(v)
			shape, err := parseLayout(layout, v, req.IsFlexible())
			if err != nil {
				return nil, fmt.Errorf("layout of %s version %d: %w", a.Name(), v, err)
			}
			e.versions = append(e.versions, versionInfo{flexible: req.IsFlexible(), body: shape, maxCost: cmp.Or(a.MaxCost, MaxCost)})
		}
		for len(t.byKey) <= int(a.Key) {
			t.byKey = append(t.byKey, nil)
		}
		t.byKey[a.Key] = e
	}
	return t, nil
}

// APIs returns the table's entries in the order of their keys. The caller must not change them.
func (t *Table) APIs() []API { return t.apis }

// Lookup returns the entry of an API, and false if the key is not supported.
func (t *Table) Lookup(key int16) (API, bool) {
	if e := t.entry(key); e != nil {
		return e.api, true
	}
	return API{}, false
}

// Supports reports whether there is a handler for this version of this API.
func (t *Table) Supports(key, version int16) bool { return t.version(key, version) != nil }

// Flexible reports whether this version of this API has flexible encoding (KIP-482): request header
// version 2 and, except for ApiVersions, response header version 1. It is false for an unsupported
// version.
func (t *Table) Flexible(key, version int16) bool {
	v := t.version(key, version)
	return v != nil && v.flexible
}

// Check walks a request's body and checks that it is complete: every length and count against the
// remaining bytes, and the memory for decoding against a bound in proportion to its size. It
// allocates nothing. The error wraps ErrUnsupported, ErrMalformed or a NameError.
func (t *Table) Check(key, version int16, body []byte) error {
	_, err := t.check(key, version, body)
	return err
}

func (t *Table) check(key, version int16, body []byte) (cost int, err error) {
	v := t.version(key, version)
	if v == nil {
		return 0, fmt.Errorf("API %d version %d: %w", key, version, ErrUnsupported)
	}
	if cost, err = checkBody(v, body); err != nil {
		err = fmt.Errorf("body of %s version %d: %w", NameOf(key), version, err)
	}
	return cost, err
}

// Decode checks a body and decodes it with kmsg. Strings are copies; byte slices alias body and are
// valid as long as it is. Like Kafka it ignores bytes after the request. The error wraps
// ErrUnsupported, ErrMalformed or a NameError.
func (t *Table) Decode(key, version int16, body []byte) (kmsg.Request, error) {
	req, _, err := t.DecodeCost(key, version, body)
	return req, err
}

// DecodeCost is Decode, and also returns about how many bytes the decoded request takes in addition
// to body. It decodes a request with a NameError too, so that it can be answered.
func (t *Table) DecodeCost(key, version int16, body []byte) (req kmsg.Request, cost int, err error) {
	cost, err = t.check(key, version, body)
	var name *NameError
	if err != nil && !errors.As(err, &name) {
		return nil, 0, err
	}
	req = t.fresh(key)
	req.SetVersion(version)
	if failed := req.ReadFrom(body); failed != nil {
		return nil, 0, fmt.Errorf("body of %s version %d: %w: %w", NameOf(key), version, ErrMalformed, failed)
	}
	return req, cost, err
}

func (t *Table) entry(key int16) *entry {
	if key < 0 || int(key) >= len(t.byKey) {
		return nil
	}
	return t.byKey[key]
}

func (t *Table) version(key, version int16) *versionInfo {
	e := t.entry(key)
	if e == nil || version < e.api.Min || version > e.api.Max {
		return nil
	}
	return &e.versions[version-e.api.Min]
}
