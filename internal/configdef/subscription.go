package configdef

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/pattern"
)

// Configs of a subscription to metrics of clients (KIP-714), the resource client-metrics.
const (
	subscriptionMetrics  = "metrics"
	subscriptionInterval = "interval.ms"
	subscriptionMatch    = "match"
)

const (
	// AllMetrics is the entry of metrics that selects all.
	AllMetrics = "*"
	// DefaultPushInterval is the interval of a subscription that sets none.
	DefaultPushInterval = 5 * time.Minute
	// MaxSubscriptions bounds the subscriptions of a cluster: each is compared with each client
	// that asks.
	MaxSubscriptions = 100
	// MaxSubscribed bounds the names in metrics, in bytes: a small request asks for those of all
	// subscriptions.
	MaxSubscribed = 4096
	// maxMatch bounds the selectors of a subscription, in bytes.
	maxMatch = 1024
	// maxProgram bounds the instructions of a subscription's expressions together. A program of so
	// many takes about 20 ms for a client.id of 1,024 bytes. A list of names needs one for each
	// byte.
	maxProgram = 2048
	// MaxPrograms bounds the instructions of all subscriptions together. They take about 0.1 s for
	// a client.id of 1,024 bytes.
	MaxPrograms = 10_000
)

// ClientFact is what a selector of a subscription compares.
type ClientFact string

// The facts, as selectors name them.
const (
	ClientInstanceID      ClientFact = "client_instance_id"
	ClientID              ClientFact = "client_id"
	ClientSoftwareName    ClientFact = "client_software_name"
	ClientSoftwareVersion ClientFact = "client_software_version"
	ClientSourceAddress   ClientFact = "client_source_address"
	ClientSourcePort      ClientFact = "client_source_port"
)

func clientFacts() []string {
	return []string{string(ClientInstanceID), string(ClientID), string(ClientSoftwareName), string(ClientSoftwareVersion),
		string(ClientSourceAddress), string(ClientSourcePort)}
}

// Selector is one entry of match: the fact must match the expression as a whole.
type Selector struct {
	Fact ClientFact
	expr *regexp.Regexp
}

// Matches reports whether the value of the fact matches.
func (s *Selector) Matches(value string) bool { return s.expr.MatchString(value) }

// Subscription has the settings of a subscription.
type Subscription struct {
	Metrics  []string
	Interval time.Duration
	Match    []Selector // all must match; none: every client is selected
	Program  int        // the instructions of the expressions in Match
}

func subscriptionDefs() []*Def {
	return []*Def{
		topicDef(subscriptionMetrics, List, "", "The metrics that the selected clients are asked to push: names, or what names begin "+
			"with. An asterisk stands for all.", bounded(fmt.Sprintf("%d bytes at most", MaxSubscribed), fewMetrics)),
		topicDef(subscriptionInterval, Int, "300000", "The number of milliseconds between two pushes of a client.",
			between(100, 3_600_000)),
		topicDef(subscriptionMatch, List, "", "Which clients are selected: entries of the form NAME=EXPRESSION, which must all match. "+
			"Without entries every client is selected.",
			bounded("names "+strings.Join(clientFacts(), ", ")+"; RE2 expressions of 2048 instructions; 1024 bytes at most", validMatch)),
	}
}

func fewMetrics(d *Def, v value) error {
	if n := len(d.format(v)); n > MaxSubscribed {
		return &Error{d.Name, fmt.Sprintf("%s has %d bytes, the limit is %d: subscribe to what names begin with", d.Name, n,
			MaxSubscribed)}
	}
	return nil
}

func validMatch(_ *Def, v value) error {
	_, _, err := parseMatch(v.list)
	return err
}

// parseMatch returns the selectors, and the number of instructions of their expressions.
func parseMatch(list []string) (match []Selector, program int, err error) {
	refused := func(format string, args ...any) error {
		return &Error{subscriptionMatch, fmt.Sprintf("Illegal client matching pattern: "+format, args...)}
	}
	size := 0
	for _, entry := range list {
		name, expr, ok := strings.Cut(entry, "=")
		name, expr = strings.TrimSpace(name), strings.TrimSpace(expr)
		switch size += len(entry); {
		case !ok:
			return nil, 0, refused("%s: write NAME=EXPRESSION", entry)
		case !slices.Contains(clientFacts(), name):
			return nil, 0, refused("%s: the names are %s", entry, strings.Join(clientFacts(), ", "))
		case size > maxMatch:
			return nil, 0, refused("together they have more than %d bytes: use several subscriptions", maxMatch)
		}
		compiled, n, err := pattern.Compile(expr, 0)
		if program += n; err == nil && program > maxProgram {
			err = pattern.ErrTooLarge
		}
		if err != nil {
			return nil, 0, refused("%s: %s", entry, reason(err))
		}
		match = append(match, Selector{ClientFact(name), compiled})
	}
	return match, program, nil
}

// reason returns why an expression is refused, without what the expression is written into.
func reason(err error) string {
	var e *syntax.Error
	switch {
	case errors.As(err, &e):
		return e.Code.String() + ": write an expression of RE2"
	case errors.Is(err, pattern.ErrTooLarge):
		return "it would take too long for each client: use shorter expressions, or several subscriptions"
	}
	return err.Error()
}

// SubscriptionDef returns the config of subscriptions with a name, or nil.
func (r *Registry) SubscriptionDef(name string) *Def { return r.subscription[name] }

// SubscriptionDefs returns the configs of subscriptions, sorted by name. The slice must not be
// modified.
func (r *Registry) SubscriptionDefs() []*Def { return r.subscriptions }

// CheckSubscription returns why a subscription may not have these configs, as an *Error, or nil.
func (r *Registry) CheckSubscription(set map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if r.subscription[name] == nil {
			return &Error{name, "Unknown client metrics configuration: " + name}
		}
	}
	return checkSet(r.subscription, set, "client metrics")
}

// DescribeSubscription resolves the configs of a subscription, sorted by name.
func (r *Registry) DescribeSubscription(set map[string]string) []Value {
	var values []Value
	for _, d := range r.subscriptions {
		values = append(values, r.resolve(d, Layers{Subscription: set}))
	}
	return values
}

// ResolveSubscription returns the typed settings of a subscription. It can't fail for configs that
// CheckSubscription accepted.
func (r *Registry) ResolveSubscription(set map[string]string) (Subscription, error) {
	f := reader{r: r, defs: r.subscription, l: Layers{Subscription: set}}
	s := Subscription{Metrics: f.value(subscriptionMetrics).list, Interval: milliseconds(f.value(subscriptionInterval).n)}
	match, program, err := parseMatch(f.value(subscriptionMatch).list)
	if f.err != nil {
		err = f.err
	}
	s.Match, s.Program = match, program
	return s, err
}
