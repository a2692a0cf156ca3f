package broker

import (
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refuseWhole returns the answer to a request that is refused as a whole: the error in every field
// for one, at the top and for each entity that the request names. Requests and responses of the
// protocol are similar enough for that: a list of the response is filled from the request's list of
// the same name, and the fields of an entry from those of the same names. A test compares it with
// every version of every API. A missing right also has a text.
func refuseWhole(req kmsg.Request, code *kerr.Error) kmsg.Response {
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	to := reflect.ValueOf(resp).Elem()
	mirror(to, reflect.ValueOf(req).Elem(), code)
	return resp
}

// mirror fills an entry of a response, or the response itself, for an entry of a request.
func mirror(to, from reflect.Value, code *kerr.Error) {
	for i := range to.NumField() {
		name := to.Type().Field(i).Name
		dst := to.Field(i)
		if name == "ErrorCode" {
			dst.SetInt(int64(code.Code))
			continue
		}
		if text := denialText(code); name == "ErrorMessage" && text != "" {
			dst.Set(reflect.ValueOf(&text))
			continue
		}
		src := from.FieldByName(name)
		switch {
		case !src.IsValid() || name == "Version":
		case dst.Kind() == reflect.Slice && dst.Type().Elem().Kind() == reflect.Struct && src.Kind() == reflect.Slice:
			mirrorList(dst, src, strings.TrimSuffix(name, "s"), code)
		case dst.Type() == src.Type() && dst.Kind() != reflect.Slice && dst.Kind() != reflect.Struct:
			dst.Set(src)
		case dst.Kind() == reflect.Pointer && dst.Type().Elem() == src.Type():
			dst.Set(reflect.New(src.Type()))
			dst.Elem().Set(src)
		}
	}
}

// mirrorList fills a list of a response for a list of a request, of entries that are structs,
// or values of the field that is named key.
func mirrorList(to, from reflect.Value, key string, code *kerr.Error) {
	if !mayFail(to.Type().Elem()) {
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
	for i := range from.Len() {
		entry, asked := to.Index(i), from.Index(i)
		entry.Addr().Interface().(interface{ Default() }).Default()
		if asked.Kind() == reflect.Struct {
			mirror(entry, asked, code)
			continue
		}
		if f := entry.FieldByName(key); f.IsValid() && f.Type() == asked.Type() {
			f.Set(asked)
		}
		entry.FieldByName("ErrorCode").SetInt(int64(code.Code))
		if f, text := entry.FieldByName("ErrorMessage"), denialText(code); f.IsValid() && text != "" {
			f.Set(reflect.ValueOf(&text))
		}
	}
}

// hasLists reports whether entries of a type may have errors below them.
func hasLists(t reflect.Type) bool {
	for i := range t.NumField() {
		if f := t.Field(i).Type; f.Kind() == reflect.Slice && f.Elem().Kind() == reflect.Struct {
			return true
		}
	}
	return false
}

// firstError returns the code with which an answer is counted: the error of the whole, otherwise
// the first one of an entry, 0 if there is none.
func firstError(resp kmsg.Response) int16 { return errorBelow(reflect.ValueOf(resp).Elem()) }

func errorBelow(v reflect.Value) int16 {
	if field := v.FieldByName("ErrorCode"); field.IsValid() && field.Int() != 0 {
		return int16(field.Int())
	}
	for i := range v.NumField() {
		list := v.Field(i)
		if list.Kind() != reflect.Slice || list.Type().Elem().Kind() != reflect.Struct || !mayFail(list.Type().Elem()) {
			continue
		}
		for k := range list.Len() {
			if code := errorBelow(list.Index(k)); code != 0 {
				return code
			}
		}
	}
	return 0
}

// mayFail reports whether entries of a type have an error, or may have some below them.
func mayFail(t reflect.Type) bool {
	_, answers := t.FieldByName("ErrorCode")
	return answers || hasLists(t)
}
