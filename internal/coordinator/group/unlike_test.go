package group

import (
	"reflect"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// unrestored are the fields that a load need not restore.
var unrestored = []struct {
	of    any
	names []string
}{
	// Clients that wait or have joined since the record get an error and join again. A member that
	// has not synced stays, as long as it sends heartbeats.
	{classic{}, []string{"pending", "pendingSync", "awaiting", "initial", "newMember", "delay", "remains"}},
	// Of the protocols, the record has the chosen one.
	{classicMember{}, []string{"protocols", "groupType", "fresh", "join", "sync"}},
	// A load assumes that topics have changed, and asks again for matches that are missing. The
	// next Heartbeat starts the time to rejoin.
	{consumer{}, []string{"dirty", "unresolved", "targetCost"}},
	{member{}, []string{"joinBy"}},
	// The next heartbeat computes the target, and members ask again for endpoints. As in Kafka, a
	// request to shut the application down is forgotten.
	{streams{}, []string{"waiting", "shutdown", "endpoints"}},
	// Requests to share coordinators are sent again. Clients repeat theirs.
	{share{}, []string{"asked", "deletes", "failures", "waits", "deletions", "alterations", "removals", "dirty", "searched", "added"}},
	// Caches, and memory, which weighs checks.
	{classic{}, []string{"bytes", "stale"}},
	{consumer{}, []string{"topic", "bytes"}},
	{streams{}, []string{"configured", "topicsHash", "bytes"}},
	{member{}, []string{"bytes"}},
	{streamsMember{}, []string{"bytes"}},
	{share{}, []string{"topic", "bytes"}},
	{shareMember{}, []string{"bytes"}},
}

// unlike compares groups field by field, without those that a load need not restore. Almost all are
// equal, and surely finds that in a tenth of the time; what it is not sure of is cmp's to decide.
func unlike(a, b any) string {
	if surely(reflect.ValueOf(a), reflect.ValueOf(b), 0) {
		return ""
	}
	options := cmp.Options{
		cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty(),
		cmpopts.SortSlices(func(a, b string) bool { return a < b }), // a task's standby members
	}
	for _, x := range unrestored {
		options = append(options, cmpopts.IgnoreFields(x.of, x.names...))
	}
	return cmp.Diff(a, b, options)
}

// ignored are the indexes of the fields that unrestored names.
var ignored = func() map[reflect.Type]map[int]bool {
	all := map[reflect.Type]map[int]bool{}
	for _, x := range unrestored {
		of := reflect.TypeOf(x.of)
		if all[of] == nil {
			all[of] = map[int]bool{}
		}
		for _, name := range x.names {
			f, ok := of.FieldByName(name)
			if !ok {
				panic(name)
			}
			all[of][f.Index[0]] = true
		}
	}
	return all
}()

// surely reports whether two values are equal for certain. It knows nothing of functions, channels
// and floats, and gives up in circles.
func surely(a, b reflect.Value, depth int) bool {
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() || depth > 60 {
		return !a.IsValid() && !b.IsValid()
	}
	switch a.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return a.Equal(b)
	case reflect.Pointer:
		return a.UnsafePointer() == b.UnsafePointer() || surely(a.Elem(), b.Elem(), depth+1)
	case reflect.Interface:
		return surely(a.Elem(), b.Elem(), depth+1)
	case reflect.Struct:
		skip := ignored[a.Type()]
		for i := range a.NumField() {
			if !skip[i] && !surely(a.Field(i), b.Field(i), depth+1) {
				return false
			}
		}
		return true
	case reflect.Array, reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !surely(a.Index(i), b.Index(i), depth+1) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for entries := a.MapRange(); entries.Next(); {
			if !surely(entries.Value(), b.MapIndex(entries.Key()), depth+1) {
				return false
			}
		}
		return true
	}
	return false
}
