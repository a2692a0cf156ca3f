package acl

import (
	"bufio"
	"compress/gzip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// row is what Kafka decided for one principal, address and resource.
type row struct {
	principal, host, name string
	kind                  ResourceType
	any                   bool // a request of any resource of the type
	allowed               Mask
}

// recorded is one set of rules with Kafka's decisions.
type recorded struct {
	options  Options
	bindings []Binding
	rows     []row
}

// recordedDecisions returns what Kafka's StandardAuthorizer decided. `make acl-table` writes the
// file; scripts/acl-table describes its lines.
func recordedDecisions(t *testing.T) []recorded {
	t.Helper()
	f, err := os.Open("testdata/kafka-4.3.1-decisions.gz")
	must.OK(t, err)
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	must.OK(t, err)
	var sets []recorded
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		field := strings.Split(lines.Text(), "\t")
		code := func(i int) uint8 { return uint8(number(t, field[i], 10)) }
		if field[0] == "set" {
			sets = append(sets, recorded{options: Options{AllowEveryone: field[1] == "true", SuperUsers: strings.Split(field[2], ";")}})
			continue
		}
		if strings.HasPrefix(field[0], "#") {
			continue
		}
		set := &sets[len(sets)-1]
		switch field[0] {
		case "acl":
			set.bindings = append(set.bindings, Binding{Type: ResourceType(code(1)), Pattern: Pattern(code(2)),
				Permission: Permission(code(3)), Operation: Operation(code(4)), Principal: field[5], Host: field[6], Name: field[7]})
		case "ask":
			set.rows = append(set.rows, row{kind: ResourceType(code(1)), principal: field[2], host: field[3], name: field[4],
				allowed: Mask(number(t, field[5], 16))})
		case "any":
			set.rows = append(set.rows, row{kind: ResourceType(code(1)), principal: field[2], host: field[3], any: true,
				allowed: Mask(number(t, field[4], 16))})
		default:
			t.Fatalf("a line of the kind %q", field[0])
		}
	}
	must.OK(t, lines.Err())
	return sets
}

func number(t *testing.T, text string, base int) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, base, 32)
	must.OK(t, err)
	return n
}

// Random rules and requests are decided as Kafka 4.3.1 decided them: by rules that were compiled at
// once, and by rules to which every other one was added later. Explanations agree.
func TestDecisionsAreThoseThatKafkaRecorded(t *testing.T) {
	asks, anys := 0, 0
	for number, set := range recordedDecisions(t) {
		var early, late []Binding
		for i, b := range set.bindings {
			if i%2 == 0 {
				early = append(early, b)
			} else {
				late = append(late, b)
			}
		}
		for what, rules := range map[string]*Rules{"at once": Compile(set.bindings, set.options),
			"in two steps": Compile(early, set.options).Change(nil, late)} {
			for i, row := range set.rows {
				got := decide(rules, &row)
				if got != row.allowed {
					t.Fatalf("set %d, compiled %s: %+v may %x, Kafka %x\nof %v\n%+v", number, what, row, got, row.allowed,
						set.bindings, set.options)
				}
				if row.any {
					anys++
					continue
				}
				asks++
				op := Read + Operation(i)%(operations-Read)
				if e := rules.Explain(row.principal, row.host, op, row.kind, row.name); e.Allowed != row.allowed.Has(op) {
					t.Fatalf("set %d: the explanation of %v for %+v is %+v", number, op, row, e)
				}
			}
		}
	}
	if asks < 2*17_000 || anys < 2*3_000 {
		t.Errorf("%d decisions, %d of any resource: the table is not whole", asks, anys)
	}
}

// decide returns what the rules allow to the principal of a row.
func decide(rules *Rules, row *row) Mask {
	s := rules.Subject(row.principal, row.host)
	if !row.any {
		return s.Operations(row.kind, row.name)
	}
	var m Mask
	for op := Read; op < operations; op++ {
		switch {
		case op == Describe || op == DescribeConfigs:
			// Kafka's search does not know that READ implies DESCRIBE: no request asks for these.
			m |= row.allowed & Of(op)
		case s.AllowedAny(op, row.kind):
			m |= Of(op)
		}
	}
	return m
}
