package protocol

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// eachString sets each string of a request in turn to the same value, with lists of one entry, and
// calls f with the name of its field.
func eachString(key, version int16, value string, f func(field string, req kmsg.Request)) {
	for n := 0; ; n++ {
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		left, field := n, ""
		setString(reflect.ValueOf(req).Elem(), value, &left, &field, "")
		if field == "" {
			return
		}
		f(field, req)
	}
}

// setString sets the string after another *left of them, and stores its name.
func setString(v reflect.Value, value string, left *int, field *string, name string) {
	switch v.Kind() {
	case reflect.String:
		if *left == 0 {
			v.SetString(value)
			*field = name
		}
		*left--
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setString(v.Elem(), value, left, field, name)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			setString(v.Index(0), value, left, field, name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "UnknownTags" {
				setString(v.Field(i), value, left, field, f.Name)
			}
		}
	default:
	}
}

func TestStringsAreBoundedAsInKafka(t *testing.T) {
	table := fullTable(t)
	long, most := strings.Repeat("x", MaxString+1), strings.Repeat("x", MaxString)
	eachVersion(t, table, func(a API, version int16) {
		if !table.Flexible(a.Key, version) {
			return // 16 bits are no more
		}
		short := 0 // fields that the version does not have, or has as tagged fields
		eachString(a.Key, version, "", func(_ string, req kmsg.Request) { short = len(req.AppendTo(nil)) })
		eachString(a.Key, version, long, func(field string, req kmsg.Request) {
			body := req.AppendTo(nil)
			if len(body) < short+len(long) || field == "ClusterID" {
				return
			}
			if err := table.Check(a.Key, version, body); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s version %d, %s of %d bytes: %v", a.Name(), version, field, len(long), err)
			}
		})
		eachString(a.Key, version, most, func(field string, req kmsg.Request) {
			if err := table.Check(a.Key, version, req.AppendTo(nil)); errors.Is(err, ErrMalformed) {
				t.Errorf("%s version %d, %s of %d bytes: %v", a.Name(), version, field, len(most), err)
			}
		})
	})
	body := (&kmsg.ProduceRequest{Version: 9, TransactionID: &long}).AppendTo(nil)
	if err := new(ProduceView).Parse(9, body); !errors.Is(err, ErrMalformed) {
		t.Errorf("a Produce request with a string of %d bytes: %v", len(long), err)
	}
}

// Every field that a client's own name may be in has the bound of names, in every API and version.
func TestNamesAreBounded(t *testing.T) {
	groups := []string{"Group", "Groups", "GroupID"}
	others := []string{"MemberID", "InstanceID", "RackID", "Rack", "TransactionalID", "TransactionalIDs", "ProcessID", "ServerAssignor",
		"ProtocolType", "Protocol", "ProtocolName", "ClientSoftwareName", "ClientSoftwareVersion"}
	table := fullTable(t)
	found := map[string]bool{}
	eachVersion(t, table, func(a API, version int16) {
		for extra := range 2 {
			name := strings.Repeat("x", MaxName+extra)
			eachString(a.Key, version, name, func(field string, req kmsg.Request) {
				want := kerr.InvalidRequest
				if slices.Contains(groups, field) {
					want = kerr.InvalidGroupID
				} else if !slices.Contains(others, field) {
					return
				}
				body := req.AppendTo(nil)
				if !strings.Contains(string(body), name) {
					return // the version does not have it
				}
				if extra == 0 {
					if err := table.Check(a.Key, version, body); err != nil {
						t.Errorf("%s version %d, %s of %d bytes: %v", a.Name(), version, field, MaxName, err)
					}
					return
				}
				found[field] = true
				var long *NameError
				req, _, err := table.DecodeCost(a.Key, version, body)
				if !errors.As(err, &long) || long.Code != want || req == nil {
					t.Errorf("%s version %d, %s of %d bytes: %v, %v", a.Name(), version, field, len(name), req, err)
				}
			})
		}
	})
	for _, field := range slices.Concat(groups, others) {
		if !found[field] && field != "GroupID" && field != "ProtocolName" {
			t.Errorf("no request has a field %s", field)
		}
	}
}
