package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

// The names under which limits of connections refuse.
const (
	LimitTotal           = "max.connections"
	LimitPerIP           = "max.connections.per.ip"
	LimitUnauthenticated = "max.connections.unauthenticated"
	LimitFiles           = "open files"

	limitOfAddress = "connection_creation_rate"
)

// When refusals are reported. A client that is refused tries again about once a second, so fewer
// are not a client that stands still, and a client that starts fails a few times.
const (
	refusedMany = 10 // in a minute
	refusedLong = 20 * time.Second
	// distrustedMany is refusedMany for clients that do not accept the certificate. librdkafka
	// pauses for 10 s. Strangers may pretend it, so it is a note while most handshakes succeed.
	distrustedMany = 3
	// quotaLong is how long the request of a client that shares a quota waits, of the 30 s after
	// which Kafka's clients give up. What waits less is slowed down, which is what a quota is for.
	quotaLong = 10 * time.Second
)

// refused is what is reported as one finding.
type refused struct {
	of    []view.Refused // the most first
	count int
	since time.Time
	long  time.Duration
}

func (r *refused) add(x *view.Refused) {
	if len(r.of) == 0 || x.Since.Before(r.since) {
		r.since = x.Since
	}
	r.of, r.count, r.long = append(r.of, *x), r.count+x.Count, max(r.long, x.Longest)
}

// many reports whether it is a matter for the operator.
func (r *refused) many(now time.Time) bool {
	many := refusedMany
	if r.of[0].Kind == view.RefusedByClient {
		many = distrustedMany
	}
	return r.count >= many && now.Sub(r.since) >= refusedLong
}

// who lists the clients, with the numbers of refusals.
func (r *refused) who() string {
	counts := map[string]int{}
	var names []string
	for i := range r.of {
		name := r.of[i].Who.String()
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name] += r.of[i].Count
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, counts[name])
	}
	return listed(names, len(names))
}

// checkRefused reports what the broker refuses to clients, or lets them wait for, although it works
// as configured.
func checkRefused(f *Facts, n *notes) {
	if all := refusalsIn(f.Refused); all > 0 {
		n.see(text.Plural(all, "refusal to a client", "refusals to clients") + " in the last minute")
	}
	var order []string
	groups := map[string]*refused{}
	for i := range f.Refused {
		x := &f.Refused[i]
		if x.Kind == view.RefusedRight && x.Passed >= x.Count {
			continue // the client works, and asks for some things that it may not have
		}
		if x.Kind == view.RefusedQuota && x.Longest < quotaLong {
			continue
		}
		at := fmt.Sprint(x.Kind, "\x00", x.Cause, "\x00", x.Rule)
		if x.Kind == view.RefusedRight {
			at = fmt.Sprint(x.Kind, "\x00", x.Detail)
		}
		if groups[at] == nil {
			order, groups[at] = append(order, at), &refused{}
		}
		groups[at].add(x)
	}
	left := 0
	for _, at := range order {
		g := groups[at]
		if g.of[0].Kind != view.RefusedQuota && !g.many(f.Now) {
			continue
		}
		if len(n.findings) >= mostPartitions {
			left++
			continue
		}
		switch g.of[0].Kind {
		case view.RefusedConnection:
			f.refusedConnections(g, n)
		case view.RefusedByClient, view.RefusedHandshake:
			refusedHandshakes(g, n)
		case view.RefusedLogin:
			refusedLogins(g, n)
		case view.RefusedRight:
			refusedRights(g, n)
		case view.RefusedQuota:
			heldByQuota(g, n)
		case view.RefusalKinds:
		}
	}
	if left > 0 {
		n.add(health.Warn, "clients",
			text.Plural(left, "other cause refuses clients or holds them back", "other causes refuse clients or hold them back"),
			"follow the findings above")
	}
}

func refusalsIn(all []view.Refused) (n int) {
	for i := range all {
		n += all[i].Count
	}
	return n
}

// inTheMinute says how many there were, and since when.
func (r *refused) inTheMinute() string {
	return fmt.Sprintf("in the last minute, and since %s", r.since.UTC().Format(time.TimeOnly))
}

// refusedConnections reports connections that a limit refuses. If none is served, it is bad.
func (f *Facts) refusedConnections(r *refused, n *notes) {
	first := &r.of[0]
	limit := first.Cause
	x := health.Finding{Severity: health.Warn, Subject: "connections"}
	switch {
	case first.PassedAll > 0:
		x.Works = fmt.Sprintf("%s opened in the same time", text.Plural(first.PassedAll, "connection was", "connections were"))
	case limit == limitOfAddress || limit == "max.connections.per.ip" || limit == LimitUnauthenticated:
		x.Works = "other addresses are not concerned, and connections that are open stay"
	default: // no client gets in
		x.Severity = health.Bad
		x.Works = "connections that are open stay"
	}
	value := ""
	if most, known := f.ConnectionLimits[limit]; known {
		value = fmt.Sprintf(", which is %d", most)
	}
	switch limit {
	case limitOfAddress:
		value = fmt.Sprintf(" of %s, which is %s a second", first.Rule, first.Detail)
		x.Remedy = "find out why these clients connect so often; " + quotaRemedy(limit, first.Rule)
	case LimitFiles:
		x.Remedy, x.Stops = moreFiles, true
	case LimitUnauthenticated:
		limit += " (or that of one address)"
		x.Remedy = "these connections do not log in: correct the settings of their clients, or keep their addresses away; " +
			"the setting is read at the start of the broker"
	default:
		x.Remedy = "GET /v1/connections of the admin port lists the open ones: stop what opens too many, or raise the limit with " +
			health.Command("chronikctl", "config", "set", "broker", "default", limit+"=NUMBER") +
			"; on the machine of the broker, chronikctl connects also above the limit (docs/quotas.md, Limits of all connections)"
	}
	x.Problem = fmt.Sprintf("%s by %s%s, %s: %s", text.Plural(r.count, "new connection was refused", "new connections were refused"),
		limit, value, r.inTheMinute(), r.who())
	n.addFinding(x)
}

// refusedHandshakes reports clients that cannot begin to speak TLS. What scans the network fails
// so, too.
func refusedHandshakes(r *refused, n *notes) {
	first := &r.of[0]
	if first.Kind == view.RefusedHandshake && first.PassedAll >= r.count {
		return
	}
	x := health.Finding{Severity: health.Warn, Subject: "TLS on listener " + first.Rule,
		Problem: fmt.Sprintf("%s, %s, and %d succeeded: %s; the reason: %s", text.Plural(r.count, "handshake failed", "handshakes failed"),
			r.inTheMinute(), first.PassedAll, r.who(), first.Detail),
		Works:  "other clients are served, and connections that are open stay",
		Remedy: first.Lift}
	if first.Kind == view.RefusedByClient {
		if first.PassedAll >= r.count {
			x.Severity = health.Note
		}
		x.Remedy += "; if `chronikd secure add` has issued `ca.pem` again for this broker, give these clients the new one, and start those " +
			"again that read it only when they start"
	}
	n.addFinding(x)
}

// refusedLogins reports logins that fail, if most do.
func refusedLogins(r *refused, n *notes) {
	first := &r.of[0]
	if first.PassedAll >= r.count {
		return
	}
	mechanism := cmp.Or(first.Cause, "an unknown mechanism")
	remedy := first.Lift
	if remedy == "" {
		remedy = "`chronikctl user list` shows who has a password; give the clients the right one, or set theirs with " +
			health.Command("chronikctl", "user", "set-password", "NAME")
	}
	n.addFinding(health.Finding{Severity: health.Warn, Subject: "logins on listener " + first.Rule,
		Problem: fmt.Sprintf("%s with %s, %s, and %d succeeded: %s; the reason of %s: %s",
			text.Plural(r.count, "login failed", "logins failed"), mechanism, r.inTheMinute(), first.PassedAll, r.who(),
			first.Who.String(), first.Detail),
		Works:  "clients that are logged in stay so",
		Remedy: remedy + "; the log has each reason (`a login failed`)"})
}

// everybody is how an access rule names all principals.
const everybody = " User:* "

// refusedRights reports clients to which most of what they ask for is denied. That is what rules
// are for, so it is a note; a rule for everybody that denies is a mistake more often than not.
func refusedRights(r *refused, n *notes) {
	first := &r.of[0]
	x := health.Finding{Severity: health.Note, Subject: "rights of clients"}
	why := "no rule allows it"
	x.Remedy = "`chronikctl acl explain` shows why; give them the right with `chronikctl acl add`, or stop these clients"
	if first.Detail != "" {
		why = "a rule denies it, " + first.Detail
		x.Remedy = "if that is a mistake, remove the rule with " + first.Lift + "; otherwise stop these clients"
		if strings.Contains(first.Detail, everybody) {
			x.Severity = health.Warn
		}
	}
	x.Problem = fmt.Sprintf("%s refused, %s, because %s: %s; the latest: %s", text.Plural(r.count, "request was", "requests were"),
		r.inTheMinute(), why, r.who(), first.Cause)
	n.addFinding(x)
}

// heldByQuota reports clients that stand still because of a quota.
func heldByQuota(r *refused, n *notes) {
	first := &r.of[0]
	n.addFinding(health.Finding{Severity: health.Warn, Subject: "quota " + first.Cause + " of " + first.Rule,
		Problem: fmt.Sprintf("it is %s, and clients stand still: a request waits up to %s, since %s; %s", first.Detail,
			r.long.Round(time.Second), r.since.UTC().Format(time.TimeOnly), r.who()),
		Works:  "other clients are served",
		Remedy: quotaRemedy(first.Cause, first.Rule)})
}

// quotaRemedy returns how a quota is changed. rule is its entity, as quota.Entity.String.
func quotaRemedy(limit, rule string) string {
	if rule == "" {
		return "`chronikctl quota list` lists the quotas"
	}
	var of []string
	for part := range strings.SplitSeq(rule, ",") {
		kind, name, _ := strings.Cut(part, "=")
		if name == "<default>" {
			of = append(of, "--"+kind+"-default")
		} else {
			of = append(of, "--"+kind, name)
		}
	}
	set := append([]string{"chronikctl", "quota", "set", limit + "=VALUE"}, of...)
	remove := append([]string{"chronikctl", "quota", "remove", limit}, of...)
	return "raise it with " + health.Command(set...) + ", or remove it with " + health.Command(remove...)
}
