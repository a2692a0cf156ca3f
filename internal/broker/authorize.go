package broker

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/sorts"
)

// asks declares the rights that the requests of an API need. Every API has one, in its apiDef; with
// authorization, requests of an API that declares nothing are refused.
//
// A right that is missing refuses the request as a whole, or the parts of it that need the right.
// The handler does not see refused parts, and their answers are put between the others at their
// places. The answer to a part is the same whether or not what it names exists.
type asks[R any] struct {
	// nothing: every client may send such requests.
	nothing bool
	// inside: the handler asks for each part, because its answer is more than a list of the
	// request's parts.
	inside bool
	// whole returns the error that refuses the request as a whole; nil if there is none.
	whole func(rights, R) *kerr.Error
	// parts removes the parts of the request that the client has no right to, and returns them.
	// nil: the request has no parts.
	parts func(rights, R) []refused[R]
}

// declared reports whether the rights that requests need are declared.
func (a *asks[R]) declared() bool { return a.nothing || a.inside || a.whole != nil || a.parts != nil }

// clusterAsks are the asks of an API whose requests need one operation on the cluster, or any of
// others.
func clusterAsks[R any](op acl.Operation, others ...acl.Operation) asks[R] {
	return asks[R]{whole: func(m rights, _ R) *kerr.Error {
		if slices.ContainsFunc(others, m.mayCluster) {
			return nil
		}
		return m.cluster(op)
	}}
}

// refused are the parts of a request that are refused with one error.
type refused[R any] struct {
	code      *kerr.Error
	only      R     // the request without its other parts
	positions []int // of the parts in the whole request, in order
	none      bool  // the request has no other parts
}

// each returns the asks.parts of an API whose requests have a list. list returns where it is; ask
// returns why an entry is refused, nil if it is not. ask may set what the entry's answer names.
func each[Q any, R interface {
	*Q
	kmsg.Request
}, E any](list func(R) *[]E, ask func(rights, R, *E) *kerr.Error) func(rights, R) []refused[R] {
	return func(m rights, req R) []refused[R] {
		all := *list(req)
		var codes []*kerr.Error // of all entries, once one is refused
		for i := range all {
			code := ask(m, req, &all[i])
			if code != nil && codes == nil {
				codes = make([]*kerr.Error, len(all))
			}
			if code != nil {
				codes[i] = code
			}
		}
		if codes == nil {
			return nil
		}
		kept := make([]E, 0, len(all))
		var out []refused[R]
		entries := map[*kerr.Error][]E{}
		at := map[*kerr.Error]int{}
		for i, code := range codes {
			if code == nil {
				kept = append(kept, all[i])
				continue
			}
			k, known := at[code]
			if !known {
				k, at[code] = len(out), len(out)
				out = append(out, refused[R]{code: code})
			}
			entries[code], out[k].positions = append(entries[code], all[i]), append(out[k].positions, i)
		}
		for k := range out {
			only := R(new(Q))
			*only = *req
			*list(only) = entries[out[k].code]
			out[k].only, out[k].none = only, len(kept) == 0
		}
		*list(req) = kept
		return out
	}
}

// authorize asks for the rights that a request needs, and removes the parts that the client has no
// right to. add adds their answers to the answer of the others; nil if there are none. goes is
// false if the request was answered.
func (l *apiDef[R]) authorize(c call, m rights, req R) (add func(kmsg.Response), goes bool) {
	var whole *kerr.Error
	if l.asks.whole != nil {
		whole = l.asks.whole(m, req)
	} else if !l.asks.declared() {
		whole = kerr.ClusterAuthorizationFailed
	}
	if whole != nil {
		c.r.Code = whole.Code
		c.respond(l.refuse(c.r, req, whole))
		return nil, false
	}
	if l.asks.parts == nil {
		return nil, true
	}
	parts := l.asks.parts(m, req)
	if len(parts) == 0 {
		return nil, true
	}
	r := c.r
	last := parts[len(parts)-1]
	r.Code = last.code.Code
	c.add = func(resp kmsg.Response) { addRefused(reflect.ValueOf(resp).Elem(), l.refusedLists(r, parts)) }
	if last.none {
		c.respond(respondTo(r, any(req).(kmsg.Request).ResponseKind()))
	}
	return c.add, !last.none
}

// placed is an entry of an answer, with its position.
type placed struct {
	at    int
	entry reflect.Value
}

// refusedLists returns the answers of refused parts, by the name of the answer's list.
func (l *apiDef[R]) refusedLists(r *network.Request, parts []refused[R]) map[string][]placed {
	lists := map[string][]placed{}
	for _, p := range parts {
		answer := reflect.ValueOf(l.refuse(r, p.only, p.code)).Elem()
		for i := range answer.NumField() {
			f := answer.Field(i)
			if f.Kind() != reflect.Slice || f.Len() != len(p.positions) {
				continue
			}
			name := answer.Type().Field(i).Name
			for k := range p.positions {
				lists[name] = append(lists[name], placed{p.positions[k], f.Index(k)})
			}
		}
	}
	return lists
}

// addRefused puts entries into the lists of an answer, each at its position. If the answer has one
// entry for several equal parts, the places behind them are those that are left.
func addRefused(resp reflect.Value, lists map[string][]placed) {
	for name, add := range lists {
		sorts.SortStable(add, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
		to := resp.FieldByName(name)
		all := reflect.MakeSlice(to.Type(), 0, to.Len()+len(add))
		for i := 0; i < to.Len() || len(add) > 0; {
			if len(add) > 0 && (add[0].at <= all.Len() || i == to.Len()) {
				all, add = reflect.Append(all, add[0].entry), add[1:]
				continue
			}
			all = reflect.Append(all, to.Index(i))
			i++
		}
		to.Set(all)
	}
}
